"""The folders that hold the requested runs, new ones and existing ones, and what is checked before they are changed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asymrl.envs.surroundings import surroundings_of
from asymrl.envs.user_code import locate_class
from asymrl.runs.description import is_store
from asymrl.runs.files import RunError
from asymrl.runs.runs import Run
from asymrl.runs.store import Store, free_folder
from asymrl.settings import Settings
from asymrl.worlds.allowed_code import allow

if TYPE_CHECKING:
    from asymrl.report.paper.parts import Extent, Part
    from asymrl.runs.placement import Placement

NETWORKS_KEPT = 300  # by default, a store with at most this many runs keeps their networks; each has some MB


def keeps_networks(runs: Sequence[Run], wanted: bool | None) -> bool:
    """Whether a new store keeps the networks of its runs."""
    return len(runs) <= NETWORKS_KEPT if wanted is None else wanted


def new_store(runs: Sequence[Run], out: str | PathLike[str] | None, placement: Placement | None = None) -> Store:
    """A new store for these runs, after checks that their worlds exist and that they fit where they will be trained."""
    check_possible(runs, placement)
    check_starts(runs)
    first = runs[0].settings
    return Store.create(Path(out) if out is not None else free_folder(first.world, first.method), runs)


def grown_store(folder: Path, runs: Sequence[Run], **how: Any) -> Store:
    """`Store.take_or_create` for runs to train. Also raises RunError if saved runs cannot go on."""
    if not is_store(folder):
        check_starts(runs)
    else:
        store, runs_by_key = Store.open(folder), {run.key: run for run in runs}
        held = {run.key for run in store.runs}
        check_starts([run for run in runs if run.key not in held])
        unfinished = set(store.unfinished_or_all())
        there = {number: runs_by_key[run.key] for number, run in enumerate(store.runs) if run.key in runs_by_key}
        longer = {number for number, run in there.items() if run.settings.steps > store.runs[number].settings.steps}
        now = {number: store.runs[number] for number in there.keys() & unfinished}
        check_saved(store, now | {number: store.extended(number, there[number].settings.steps) for number in longer})
    return Store.take_or_create(folder, runs, **how)


def store_with(
    out: Path, runs: Sequence[Run], *, keep_networks: bool | None, probes: Mapping[str, Any] | None = None
) -> tuple[Store, list[int]]:
    """The store in a folder, taken, with these runs and perhaps others; and the numbers of these runs."""
    store = grown_store(out, runs, keeps_networks=keeps_networks(runs, keep_networks), probes=probes)
    keys = {run.key for run in runs}
    return store, [number for number, run in enumerate(store.runs) if run.key in keys]


def take_store(
    folder: str | PathLike[str],
    steps: int | None = None,
    *,
    trust: bool = False,
    current_code: bool = False,
    placement: Placement | None = None,
) -> Store:
    """The store in a folder, to go on with its runs; `steps` makes them longer.

    `current_code`: with the files of worlds as they are now, not as they were when the runs began.

    A store in which nothing is left to do is only opened, so that its folder stays as it is; it may be read-only.
    Everything is checked before anything is written: a store that cannot go on stays as it was.

    Raises:
        RunError: if there is none, another process trains it, or its runs cannot be made longer.
    """
    opened = Store.open(Path(folder), trust=trust)
    if current_code:
        opened.use_current_files()
    runs, unfinished = opened.runs, set(opened.unfinished_or_all())
    if steps is not None:
        runs = opened.extended_runs(steps)
        unfinished |= {number for number, run in enumerate(runs) if run != opened.runs[number]}
    if not unfinished and not current_code and opened.is_finished():
        return opened
    opened.make_ready(sorted(unfinished))
    unfinished_runs = {number: runs[number] for number in unfinished}
    check_trainable(list(unfinished_runs.values()), placement)
    check_saved(opened, unfinished_runs)
    store = Store.take(Path(folder), trust=trust)
    try:
        if current_code:
            store.use_current_files()
        if steps is not None:
            store.extend(steps)
        store.forget_lost_networks()
    except BaseException:
        store.release()
        raise
    return store


def compare_folder(world: str) -> Path:
    return Path("runs") / re.sub(r"[^\w.-]+", "-", f"compare-{world}")


def comparison_store(folder: Path, runs: Sequence[Run], placement: Placement | None = None) -> Store:
    """The store of a comparison, which holds its runs or some of them.

    Raises:
        RunError: if it holds other runs: then it is another comparison.
    """
    if is_store(folder) and not {run.key for run in Store.open(folder).runs} <= {run.key for run in runs}:
        raise RunError(f"{folder}: holds runs with other settings or seeds; choose another --out")
    check_possible(runs, placement)
    return grown_store(folder, runs)


def reproduction_folder(part: Part, *, quick: bool = False) -> Path:
    """Where the runs of a part of the paper are kept: those of figures 3 and 4 together.

    Not in `results`, where the runs that ship with the repository are.
    """
    name = "grid" if part == "grid" else "curves"
    return Path("runs") / f"reproduce-{'quick-' if quick else ''}{name}"


def reproduction_store(
    part: Part, wanted: Extent, out: Path, *, keep_networks: bool | None = None, precision: str | None = None
) -> tuple[Store, list[int]]:
    """The store for a part of the paper, which may hold other runs too; and the numbers of the runs of the part.

    Runs that are there but shorter are made longer: they go on from where they ended. So that this is possible, the
    figures' runs keep their networks by default, though there are many.

    Args:
        part: of the paper.
        wanted: how much of it.
        out: the folder.
        keep_networks: whether the networks of finished runs are kept. None: for the figures, and for a grid of at
            most 300 runs.
        precision: of matrix products. None: that of runs which are there already, also for new ones of the same world
            if that is one precision; float32 elsewhere.
    """
    from asymrl.report.paper.parts import probes_of, runs_of

    runs = runs_of(part, wanted)
    if precision is not None:
        runs = [_with_precision(run, precision) for run in runs]
    elif is_store(out):
        runs = _with_precisions_of(Store.open(out).runs, runs)
    if keep_networks is None and part != "grid":
        keep_networks = True
    worlds = {run.settings.world for run in runs}
    probes = {world: probe.to_json() for world, probe in probes_of(part, wanted).items() if world in worlds}
    return store_with(out, runs, keep_networks=keep_networks, probes=probes)


def _with_precision(run: Run, precision: str) -> Run:
    return run._replace(settings=replace(run.settings, precision=precision))


def _with_precisions_of(there: Sequence[Run], runs: Sequence[Run]) -> list[Run]:
    """The runs as they are there, and others with the precision of the world's runs there, if these have but one."""
    keys, of_world = {run.key for run in there}, dict[str, set[str]]()
    for run in there:
        of_world.setdefault(run.settings.world, set()).add(run.settings.precision)

    def chosen(run: Run) -> Run:
        known = sorted(of_world.get(run.settings.world, set()))
        same = [_with_precision(run, precision) for precision in known]
        return next((each for each in same if each.key in keys), same[0] if len(same) == 1 else run)

    return [chosen(run) for run in runs]


def check_possible(runs: Sequence[Run], placement: Placement | None = None) -> None:
    """Raises ValueError, before anything is written, unless the runs that the user has asked for can be trained.

    Their worlds must exist, provide what the critics read, and be available to the processes that train them; and the
    runs must fit into memory.
    """
    allow(*(name for run in runs for name in run.settings.code_names))
    for name in {name for run in runs for name in run.settings.user_code}:
        locate_class(name)
    check_trainable(runs, placement)


def check_trainable(runs: Sequence[Run], placement: Placement | None = None) -> None:
    """Like `check_possible`, for the runs of a store."""
    from asymrl.learners.program import program
    from asymrl.learners.state import training_world

    shapes = {settings.shape() for settings in {run.settings for run in runs}}
    for shape in shapes:
        training_world(shape)
        if shape.user_code:
            program(shape)  # raises if the user's own modules do not fit
    if placement is not None and (placement.engine != "local" or placement.processes is not None):
        surroundings_of({shape.world for shape in shapes})
    if placement is None or placement.engine == "local":
        check_memory(shapes)


def check_memory(shapes: Collection[Settings]) -> None:
    """Raises ValueError if a run of one of these shapes does not fit into the memory of this machine's devices."""
    import jax

    from asymrl.runs.devices import MemoryBudget
    from asymrl.settings import DQNSettings

    if not any(isinstance(shape, DQNSettings) for shape in shapes):
        return
    memory = MemoryBudget.of(jax.local_devices()[0])
    for shape in shapes:
        memory.check(shape)


def check_saved(store: Store, runs: Mapping[int, Run]) -> None:
    """Raises RunError, before anything is written, unless these runs can go on from their saved states, if any.

    Args:
        store: that holds them.
        runs: by number; they may be longer than in the store.
    """
    from asymrl.learners.program import program
    from asymrl.runs.states import saved_problem

    for held, saved in store.saved(sorted(runs), say=lambda _: None):  # training them reports what is damaged
        for row, number in enumerate(held):
            if problem := saved_problem(program(runs[number].settings), saved.only([row])):
                raise RunError(
                    f"{store.checkpoints.folder}: the saved state of seed {runs[number].seed} does not fit its "
                    f"settings: {problem}"
                )


def check_starts(runs: Sequence[Run]) -> None:
    """Raises RunError if the networks that runs start from are missing, or do not fit."""
    from asymrl.learners.program import program
    from asymrl.runs.starting import starting_networks

    for name, shape in {(run.settings.start_from, run.settings.shape()) for run in runs}:
        if name is not None:
            starting_networks(name, program(shape))
