"""Training from Python: train, resume, sweep, compare, reproduce."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from asymrl.api.loaded import Runs, train_taken
from asymrl.api.run_folders import (
    check_possible,
    compare_folder,
    comparison_store,
    grown_store,
    keeps_networks,
    new_store,
    reproduction_folder,
    reproduction_store,
)
from asymrl.api.wanted import compared_methods, comparison_runs, settings_for, sweep_runs, world_names
from asymrl.runs.options import method_of
from asymrl.runs.placement import Pace, Placement
from asymrl.runs.runs import Run
from asymrl.settings import Settings

if TYPE_CHECKING:
    import gymnasium

    from asymrl.report.comparison import MethodRow
    from asymrl.report.paper.parts import Part
    from asymrl.runs.callback import Callback
    from asymrl.theory import ReadingWorth
    from asymrl.worlds.world import World


def train(
    world: str | World | gymnasium.Env | Callable[..., gymnasium.Env] | Settings | Sequence[Settings],
    method: str | None = None,
    *,
    seeds: int | Sequence[int] = 5,
    out: str | PathLike[str] | None = None,
    display: Callback | None = None,
    callbacks: Sequence[Callback] = (),
    pace: Pace | None = None,
    placement: Placement | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Runs:
    """Trains runs, one per seed, and keeps them in a folder.

    Args:
        world: the name of a world, or a world of your own, which is then known by its name in this process; a Gymnasium
            environment, or a class or function that makes one; or complete settings, each of which is trained with
            every seed.
        method: what the critic reads and how long the memory is; by default a2c-asym-hs, or that of the `preset`.
        seeds: how many (0, 1, ...), or which.
        out: the folder; by default `runs/WORLD-METHOD`, with a number if there is one already.
        display: shows progress; by default one that suits the terminal.
        callbacks: also follow the training, and may stop runs; see `asymrl.runs.Callback`.
        pace: how often to update the display and to write checkpoints.
        placement: where to train.
        env_kwargs: arguments of the environment's constructor, which become part of the world's name.
        **settings: fields of `Settings`, including `preset`; the others come from the preset, or from the paper's
            tuning for this world and method, or are the defaults.

    Raises:
        ValueError: if a setting is invalid, or `out` already holds runs.
        KeyboardInterrupt: on Ctrl-C, after a checkpoint; `resume` continues from there.
    """
    if isinstance(world, str) or not isinstance(world, Settings | Sequence):
        (world,), own = world_names([world], env_kwargs)
        settings = own | settings
    if isinstance(world, str):
        configurations: Sequence[Settings] = [settings_for(world, method, **settings)]
    elif settings or env_kwargs or method is not None:
        raise ValueError("these settings are complete; change them with dataclasses.replace")
    else:
        configurations = [world] if isinstance(world, Settings) else list(world)
    runs = [Run(each, int(seed)) for each in configurations for seed in _seeds(seeds)]
    return train_taken(new_store(runs, out, placement), display, pace, placement, callbacks)


def resume(
    folder: str | PathLike[str],
    *,
    steps: int | None = None,
    display: Callback | None = None,
    callbacks: Sequence[Callback] = (),
    pace: Pace | None = None,
    placement: Placement | None = None,
    trust: bool = False,
    current_code: bool = False,
) -> Runs:
    """Continues the runs in a folder to their end, or for more steps than they were started with.

    `trust`: as for `load`. `current_code`: with your files of worlds and networks as they are now; by default as they
    were when the runs began.
    """
    runs = Runs(folder, trust=trust)
    return runs.resume(
        steps=steps,
        display=display,
        callbacks=callbacks,
        pace=pace,
        placement=placement,
        current_code=current_code,
    )


def sweep(
    worlds: str | World | Sequence[str | World],
    methods: str | Sequence[str] | None = None,
    *,
    out: str | PathLike[str],
    seeds: int | Sequence[int] = 5,
    axes: Mapping[str, Sequence[Any]] | None = None,
    display: Callback | None = None,
    callbacks: Sequence[Callback] = (),
    pace: Pace | None = None,
    placement: Placement | None = None,
    keep_networks: bool | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Runs:
    """Trains every world with every method, combination of `axes` and seed. A second call trains what is missing.

    Args:
        worlds: names of worlds, or worlds of your own as for `train`.
        methods: names of methods; by default a2c-asym-hs, or that of the `preset`.
        out: the folder.
        seeds: how many (0, 1, ...), or which.
        axes: values to try, by the names of `Settings`, or `env.NAME` for an argument of the environments.
        display: shows progress; by default one that suits the terminal.
        callbacks: also follow the training, and may stop runs; see `asymrl.runs.Callback`.
        pace: how often to update the display and to write checkpoints.
        placement: where to train.
        keep_networks: whether the networks of finished runs are kept; by default if there are at most 300.
        env_kwargs: arguments of the environments' constructors.
        **settings: other settings of all runs.
    """
    several = list(worlds) if isinstance(worlds, Sequence) and not isinstance(worlds, str) else [worlds]
    names, own = world_names(several, env_kwargs)
    all_axes = {**{name: [value] for name, value in {**own, **settings}.items()}, **(axes or {})}
    method_names = _listed(methods) if methods is not None else [method_of(settings)]
    runs = sweep_runs(names, method_names, all_axes, _seeds(seeds))
    check_possible(runs, placement)
    store = grown_store(Path(out), runs, keeps_networks=keeps_networks(runs, keep_networks))
    return train_taken(store, display, pace, placement, callbacks)


def compare(
    world: str | World,
    methods: Sequence[str] | None = None,
    *,
    seeds: int | Sequence[int] = 5,
    steps: int = 200_000,
    out: str | PathLike[str] | None = None,
    display: Callback | None = None,
    callbacks: Sequence[Callback] = (),
    pace: Pace | None = None,
    placement: Placement | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Comparison:
    """Trains methods side by side in a world and says which critic to use there.

    Args:
        world: its name, or a world of your own as for `train`.
        methods: to compare, by default those of the paper, or of the learner of the `preset`; those that need a latent
            state are left out where the world has none.
        seeds: how many (0, 1, ...), or which; at least two.
        steps: of each run.
        out: the folder; by default `runs/compare-WORLD`. Runs that are there are not trained again.
        display: shows progress; by default one that suits the terminal.
        callbacks: also follow the training, and may stop runs; see `asymrl.runs.Callback`.
        pace: how often to update the display and to write checkpoints.
        placement: where to train.
        env_kwargs: arguments of the environment's constructor.
        **settings: other settings of all runs.
    """
    (name,), own = world_names([world], env_kwargs)
    folder = Path(out) if out is not None else compare_folder(name)
    method_names = compared_methods(settings) if methods is None else methods
    runs, _ = comparison_runs(name, method_names, _seeds(seeds), {**own, **settings, "steps": steps})
    store = comparison_store(folder, runs, placement)
    return compared(name, train_taken(store, display, pace, placement, callbacks))


def reproduce(
    part: Part = "curves",
    worlds: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    *,
    seeds: int | None = None,
    steps: int | Literal["authors"] | None = None,
    quick: bool = False,
    out: str | PathLike[str] | None = None,
    keep_networks: bool | None = None,
    precision: Literal["float32", "tf32"] | None = None,
    display: Callback | None = None,
    pace: Pace | None = None,
    placement: Placement | None = None,
) -> Runs:
    """Trains the runs of a part of the paper; `asymrl.report.paper.reproduction` makes its table and figures.

    Args:
        part: "curves" (figure 3), "critics" (figure 4) or "grid" (the search for settings).
        worlds: some of the paper's. None: all that the part has.
        methods: some of the paper's. None: all that the part has.
        seeds: how many. None: 20, as in the paper.
        steps: of each run, or "authors": 10 million in Heaven-Hell and 2 million elsewhere, as in the authors' scripts.
            None: as many as its world needs, see `asymrl.report.paper.budget`.
        quick: a version for a quarter of an hour on a laptop.
        out: the folder; by default in `runs`. Runs that are there are not trained again, and shorter ones are extended.
        keep_networks: whether the networks of finished runs are kept, so that they can be extended; by default for
            the figures, and for a grid of at most 300 runs.
        precision: of matrix products on a GPU; tf32 is faster and less exact. None: that of runs which are there
            already, also for new ones of the same world; float32 elsewhere.
        display: shows progress; by default one that suits the terminal.
        pace: how often to update the display and to write checkpoints.
        placement: where to train.
    """
    from asymrl.report.paper.parts import extent, probes_from_json

    scope = extent(part, worlds, methods, seeds, steps, quick=quick)
    folder = Path(out) if out is not None else reproduction_folder(part, quick=quick)
    store, only = reproduction_store(part, scope, folder, keep_networks=keep_networks, precision=precision)
    return train_taken(store, display, pace, placement, probes=probes_from_json(store.probes), only=only)


class Comparison(NamedTuple):
    """Methods that were trained side by side in a world."""

    world: str
    runs: Runs
    rows: list[MethodRow]
    """What each method has reached, with 95 % intervals."""
    method: str
    """The one to use."""
    verdict: str
    """Which method to use, in a sentence, with what it needs."""
    reason: str
    """What the runs say about it, in a sentence."""
    advice: str
    """All that is known: verdict, reason, whether the state helps, and what an exact analysis says."""
    readings: tuple[ReadingWorth, ...]
    """The exact worth of critics by what they read; empty if the world is not finite, or too large."""


def compared(world: str, runs: Runs) -> Comparison:
    """Compares methods by their runs in one world."""
    from asymrl.report.comparison import choose, on_privilege, rows_of, scores_of
    from asymrl.report.reasons import reasons
    from asymrl.worlds.registry import make

    scores, sees = scores_of(runs.metrics), runs.runs[0].settings.critic_sees
    choice, why = choose(scores, sees), reasons(make(world), sees)
    advice = " ".join(filter(None, [choice.verdict, choice.reason, on_privilege(scores, sees), why.text]))
    return Comparison(world, runs, rows_of(scores), *choice, advice, why.readings)


def _seeds(seeds: int | Sequence[int]) -> Sequence[int]:
    if isinstance(seeds, str):
        raise ValueError(f"seeds {seeds!r}: give how many, such as 5, or a list of them, such as [0, 7]")
    seed_list = range(seeds) if isinstance(seeds, int) else seeds
    if not len(seed_list):
        raise ValueError("no seeds: train at least one run")
    return seed_list


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names
