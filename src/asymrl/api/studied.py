"""Training the runs of a study: its search, then the final runs with what was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from asymrl.api.loaded import Runs, train_taken
from asymrl.api.run_folders import NETWORKS_KEPT, store_with
from asymrl.runs.description import is_store
from asymrl.runs.files import RunError
from asymrl.runs.store import Store, copy_results

if TYPE_CHECKING:
    from asymrl.runs.callback import Callback
    from asymrl.runs.placement import Pace, Placement
    from asymrl.studies.study import Choices, PlannedRun, Study

Phase = Literal["search", "final", "all"]


def study_folder(name: str, *, quick: bool = False) -> Path:
    """Where the runs of a study are kept."""
    return Path("runs") / f"study-{'quick-' if quick else ''}{name}"


def study_stores(
    wanted: Study,
    out: Path,
    phase: Phase = "all",
    *,
    keep_networks: bool | None = None,
    reuse: Sequence[Path] = (),
) -> Iterator[tuple[Store, list[int]]]:
    """The store of a study, phase by phase: taken, with the runs of the phase, and with the numbers of these runs.

    The caller trains and releases the store before asking for the next phase, which depends on the results. A search
    that is over is left out unless it is asked for.

    Raises:
        RunError: if the search has to be over and is not, or is asked for and there is none.
    """
    from asymrl.studies.choosing import choose, undecided

    if keep_networks is None:
        keep_networks = not reuse and wanted.size() <= NETWORKS_KEPT
    if keep_networks and reuse:
        raise RunError(f"{reuse[0]}: the networks of its runs are not copied, so they cannot be kept")
    others = [Store.open(folder) for folder in reuse]

    def taken(planned: Sequence[PlannedRun]) -> tuple[Store, list[int]]:
        store, only = store_with(out, [each.run for each in planned], keep_networks=keep_networks)
        try:
            for other in others:
                copy_results(store, other)
        except BaseException:
            store.release()
            raise
        return store, only

    def decided() -> Choices:
        return choose(wanted, Store.open(out)) if is_store(out) else {}

    searched = wanted.search_runs()
    if phase == "search" and not searched:
        raise RunError(f"this version of the study {wanted.name} has no search: train its final runs")
    if searched and phase != "final" and (phase == "search" or undecided(wanted, decided())):
        yield taken(searched)
    if phase == "search":
        return
    choices = decided()
    if missing := undecided(wanted, choices):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise RunError(f"{out}: the search is not over for {missing[0]}{more}; train it with --phase search first")
    yield taken(wanted.final_runs(choices))


def study(
    name: str,
    worlds: Sequence[str] | None = None,
    *,
    seeds: int | None = None,
    steps: int | None = None,
    arms: Sequence[str] | None = None,
    quick: bool = False,
    phase: Phase = "all",
    out: str | PathLike[str] | None = None,
    keep_networks: bool | None = None,
    display: Callback | None = None,
    pace: Pace | None = None,
    placement: Placement | None = None,
) -> Runs:
    """Trains the runs of a study, its search first.

    Args:
        name: of the study, one of `asymrl.studies.STUDIES`.
        worlds: some of the study's. None: all.
        seeds: how many for each final run. None: as many as the study has.
        steps: of each run. None: as many as the study has.
        arms: their labels, or prefixes of labels, such as "ppo". None: all.
        quick: a version for a quarter of an hour on a laptop, in one world, the study's first if none is named.
        phase: "search", "final" or both.
        out: the folder; by default `runs/study-NAME`. Runs that are there are not trained again.
        keep_networks: whether the networks of finished runs are kept; by default if there are at most 300 runs.
        display: shows progress; by default one that suits the terminal.
        pace: how often to update the display and to write checkpoints.
        placement: where to train.
    """
    plan = wanted_study(name, worlds, seeds, steps, arms, quick=quick)
    folder = Path(out) if out is not None else study_folder(name, quick=quick)
    for store, only in study_stores(plan, folder, phase, keep_networks=keep_networks):
        train_taken(store, display, pace, placement, only=only)
    return Runs(folder)


def wanted_study(
    name: str,
    worlds: Sequence[str] | None = None,
    seeds: int | None = None,
    steps: int | None = None,
    arms: Sequence[str] | None = None,
    *,
    quick: bool = False,
) -> Study:
    """The study, or the part of it that is asked for. Raises ValueError if there is no such study, world or arm."""
    from asymrl.studies.catalogue import study_named

    whole = study_named(name)
    if quick:
        if worlds is not None and len(worlds) != 1:
            raise ValueError(f"{', '.join(worlds) or 'no world'}: the quick version of a study has one world")
        whole, worlds = whole.narrowed(worlds).quick(), None
    return whole.narrowed(worlds, seeds, steps, arms)
