"""Makes one store of the runs in several: of each run the longest version, its curve and what was measured.

    python scripts/collect_results.py NEW_FOLDER SOURCE [SOURCE ...]

For results that were trained in pieces, or made longer elsewhere, as those in `results/`. Networks are left behind.
Versions of a run differ in their length, the numbers of points and the precision only; of equally long ones, that of
the last source counts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from asymrl.stores.files import RunError
from asymrl.stores.result_files import PROBES_FILE, read_table
from asymrl.stores.runs import MAY_GROW, Run
from asymrl.stores.store import Store
from asymrl.stores.tables import RunResult


def identity(run: Run) -> tuple[object, ...]:
    """What versions of a run share."""
    ignored = (*MAY_GROW, "precision")
    return (run.seed, *((name, value) for name, value in asdict(run.settings).items() if name not in ignored))


def collect(out: Path, sources: Sequence[Path]) -> Store:
    """A new store with the finished runs of all sources. Raises RunError if one is not there, or `out` is."""
    best: dict[tuple[object, ...], tuple[Run, RunResult]] = {}
    probes, names = {}, ()
    for source in sources:
        store = Store.open(source)
        probes |= store.probes
        if (source / PROBES_FILE).is_file():
            names = tuple(read_table(source, PROBES_FILE)["probe"].cast(str).unique(maintain_order=True))
        for number, result in store.results().items():
            run = store.runs[number]
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


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    out, *sources = map(Path, sys.argv[1:])
    try:
        store = collect(out, sources)
    except RunError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{out}: {len(store)} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
