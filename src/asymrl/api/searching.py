"""`asymrl.tune`: a search over settings in a world, from Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asymrl.api.loaded import Runs
from asymrl.api.run_folders import NETWORKS_KEPT, check_possible
from asymrl.api.wanted import world_names, world_with_arguments
from asymrl.runs.files import RunError
from asymrl.runs.options import checked_values, method_of, resolve
from asymrl.runs.placement import Pace, Placement
from asymrl.settings.hyperparameters import tuned

if TYPE_CHECKING:
    import gymnasium

    from asymrl.runs import SearchAxis, SettingsSearch
    from asymrl.runs.callback import Callback
    from asymrl.runs.settings_search import Trial
    from asymrl.worlds.world import World

TRIALS, SEEDS, STEPS, TOGETHER = 20, 2, 100_000, 8
POINTS = 40  # of a learning curve: enough to judge a trial by


class Tuning(NamedTuple):
    """What a search has found."""

    settings: dict[str, Any]
    """The best settings, with the given ones: arguments of `asymrl.train` besides the world."""
    value: float
    """Their mean final return."""
    trials: list[Trial]
    """All, best first."""
    runs: Runs
    """Of all trials."""
    file: Path
    """The best settings as a TOML file."""
    command: str
    """The command that trains with them."""


def tune(
    world: str | World | gymnasium.Env | Callable[..., gymnasium.Env],
    method: str | None = None,
    *,
    trials: int = TRIALS,
    seeds: int | Sequence[int] = SEEDS,
    steps: int = STEPS,
    space: str | PathLike[str] | Mapping[str, Any] | None = None,
    together: int = TOGETHER,
    out: str | PathLike[str] | None = None,
    display: Callback | None = None,
    pace: Pace | None = None,
    placement: Placement | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Tuning:
    """Searches for settings that work in a world. A second call continues the search, or extends it with more trials.

    Needs Optuna: `pip install "asymrl[tune]"`.

    Args:
        world: the name of a world, or a world or a Gymnasium environment of your own; see `asymrl.train`.
        method: what the critic reads and how long the memory is; by default a2c-asym-hs, or that of the `preset`.
        trials: how many choices of settings to try in total.
        seeds: of the runs of each trial: how many (0, 1, ...), or which.
        steps: of each run.
        space: what to search: a TOML file, or for each name of `Settings` a list of values, a `SearchAxis`, or a
            mapping with `low` and `high`; by default the rates and weights of the learner.
        together: trials that share the lanes of a program.
        out: the folder; by default `runs/tune-WORLD-METHOD`.
        display: shows progress; by default one that suits the terminal.
        pace: how often to update the display and to write checkpoints.
        placement: where to train.
        env_kwargs: arguments of the environment's constructor, which become part of the world's name.
        **settings: of all runs, including `preset`; what is given here is not searched.

    Raises:
        ValueError: if something is invalid, Optuna is missing, or no trial was completed.
        KeyboardInterrupt: on Ctrl-C, after a checkpoint.
    """
    from asymrl.runs.display import standard_display

    (name,), own = world_names([world], env_kwargs)
    numbers = range(seeds) if isinstance(seeds, int) else seeds
    overrides = {**own, **settings, "steps": steps}
    search = new_search(name, method, overrides, trials=trials, seeds=numbers, space=space, together=together, out=out)
    outcome = search.run(
        lambda: display or standard_display(),
        pace=pace or Pace(),
        placement=placement or Placement(),
        keeps_networks=keeps_networks(search),
    )
    if outcome.interrupted is not None:
        raise KeyboardInterrupt(f"{outcome.interrupted.name}: the same call goes on in {search.folder}")
    return tuning_of(search)


def new_search(
    world: str,
    method: str | None,
    settings: Mapping[str, Any],
    *,
    trials: int = TRIALS,
    seeds: Sequence[int] = tuple(range(SEEDS)),
    space: str | PathLike[str] | Mapping[str, SearchAxis | Any] | None = None,
    together: int = TOGETHER,
    out: str | PathLike[str] | None = None,
) -> SettingsSearch:
    """A checked search; nothing is written to disk yet. Raises ValueError if something about it is invalid."""
    from asymrl.runs.search_space import checked_space, default_space, read_space
    from asymrl.runs.settings_search import SettingsSearch
    from asymrl.runs.study_file import optuna_package

    optuna_package()
    world, settings = world_with_arguments(world, settings)
    name = method_of({**settings, "method": method})
    own = {each: value for each, value in settings.items() if each != "method" and value is not None}
    overrides = checked_values(own, "settings", name)
    if space is None:
        axes, needed = default_space(name, overrides)
    else:
        needed = {}
        axes = checked_space(space, name) if isinstance(space, Mapping) else read_space(Path(space), name)
    base = resolve(world, name, {"log_points": POINTS}, needed, overrides, tuned=tuned(world, name))
    fixed_settings = {**needed, **{each: value for each, value in overrides.items() if each != "steps"}}
    folder = Path(out) if out is not None else tune_folder(world, name)
    search = SettingsSearch(
        folder, base, axes, trials=trials, seeds=tuple(seeds), together=together, given=fixed_settings
    )
    check_possible(runs := search.runs({}))
    # As in the runs: a relative `start_from` would be another folder if training happens elsewhere.
    given = {each: getattr(runs[0].settings, each, value) for each, value in fixed_settings.items()}
    return replace(search, given=given)


def keeps_networks(search: SettingsSearch) -> bool:
    return search.trials * len(search.seeds) <= NETWORKS_KEPT


def tuning_of(search: SettingsSearch) -> Tuning:
    """What a search has found so far; writes the settings file. Raises RunError if no trial is complete."""
    from asymrl.runs.settings_file import best_of, train_command, write_settings

    trials = search.results()
    if (best := best_of(trials)) is None or best.value is None:
        raise RunError(f"{search.folder}: no trial was completed; try other settings, or more steps")
    file = write_settings(search, best)
    settings = {"method": search.base["method"], **search.given, **best.settings}
    return Tuning(settings, best.value, trials, Runs(search.folder), file, train_command(search, file))


def tune_folder(world: str, method: str) -> Path:
    return Path("runs") / re.sub(r"[^\w.-]+", "-", f"tune-{world}-{method}")
