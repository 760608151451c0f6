"""Makes one store of the runs in several: of each run the longest version, its curve and what was measured.

    python scripts/collect_results.py NEW_FOLDER SOURCE [SOURCE ...] [--until STEPS]

For results that were trained in pieces, or made longer elsewhere, as those in `results/`. Networks are left behind.
Versions of a run differ in their length, the numbers of points and the precision only; of equally long ones, that of
the last source counts. With `--until`, longer runs count as they were after so many steps, also those that were
interrupted later.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from asymrl.learners.state import METRICS
from asymrl.runs.files import RunError
from asymrl.runs.result_files import PROBES_FILE, read_table
from asymrl.runs.runs import MAY_GROW, Run
from asymrl.runs.store import Store
from asymrl.runs.tables import COMPLETE, RunResult


def identity(run: Run) -> tuple[object, ...]:
    """What versions of a run share."""
    ignored = (*MAY_GROW, "precision")
    return (run.seed, *((name, value) for name, value in asdict(run.settings).items() if name not in ignored))


def cut(run: Run, result: RunResult, until: int) -> tuple[Run, RunResult]:
    """The run as it was after so many steps; unchanged if it is not longer, or its curve ends before them."""
    steps, points, curve = run.settings.steps, run.settings.log_points, result.curve
    timestep, episode, update = (METRICS.index(name) for name in ("timestep", "episode", "update"))
    interval = steps // points
    if steps <= until or curve is None or curve[-1, timestep] < until - interval:
        return run, result
    if until % interval:
        raise RunError(f"{until} steps are between two points of a curve; give a multiple of {interval}")
    kept = curve[curve[:, timestep] < until]
    last = kept[-1]
    settings = replace(run.settings, steps=until, log_points=until // interval)
    # What it had counted then is not known, only what it had at the last point before.
    counters = {"timesteps": until, "episodes": int(last[episode]), "updates": int(last[update])}
    recent = {f"recent_{name}": float(last[METRICS.index(name)]) for name in ("return", "length")}
    seconds = result.seconds * until / max(result.timesteps, until)
    as_it_was = result._replace(status=COMPLETE, curve=kept, seconds=seconds, **counters, **recent)
    return Run(settings, run.seed), as_it_was


def collect(out: Path, sources: Sequence[Path], until: int | None = None) -> Store:
    """A new store with the finished runs of all sources. Raises RunError if one is not there, or `out` is.

    `until`: longer runs count as they were after so many steps.
    """
    best: dict[tuple[object, ...], tuple[Run, RunResult]] = {}
    probes, names = {}, ()
    for source in sources:
        store = Store.open(source)
        probes |= store.probes
        if (source / PROBES_FILE).is_file():
            names = tuple(read_table(source, PROBES_FILE)["probe"].cast(str).unique(maintain_order=True))
        for number, result in store.results().items():
            run = store.runs[number]
            if until is not None:
                run, result = cut(run, result, until)
            known = best.get(identity(run))
            if result.is_over and (known is None or known[0].settings.steps <= run.settings.steps):
                best[identity(run)] = run, result
    collected = Store.create(out, [run for run, _ in best.values()], keeps_networks=False, probes=probes)
    try:
        collected.write_tables({number: result for number, (_, result) in enumerate(best.values())}, names)
        collected.checkpoints.folder.rmdir()  # there is nothing to go on with
    finally:
        collected.release()
    return collected


@dataclass(frozen=True)
class Collect:
    """Make one store of the runs in several."""

    out: tyro.conf.Positional[Path]
    """The new folder."""
    sources: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="SOURCE ...")]
    """Folders with runs."""
    until: int | None = None
    """Cut longer runs after so many steps."""


def main() -> int:
    wanted = tyro.cli(Collect)
    try:
        store = collect(wanted.out, wanted.sources, wanted.until)
    except RunError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{wanted.out}: {len(store)} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
