"""What `train`, `resume` and `sweep` print with `--json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asymrl.cli.curve_file import CURVE_FILE
from asymrl.cli.output import print_json
from asymrl.cli.running import PAGE_FILE, Running, Tracker, train_to_the_end
from asymrl.cli.usage import Flag

if TYPE_CHECKING:
    from asymrl.runs.store import Store


@dataclass(frozen=True)
class Training(Running):
    """How runs are trained, by a command whose answer is what they reached."""

    json: Flag = False
    """Print one JSON object at the end for other programs; everything else goes to stderr."""

    def train(
        self,
        store: Store,
        options: Mapping[str, Any],
        trackers: Sequence[Tracker],
        probes: Mapping[str, Any] | None = None,
    ) -> int:
        """Trains the runs of a store that was taken, says what they reached, and returns the exit status."""
        status = train_to_the_end(store, options, trackers, probes=probes, report=self.print_results)
        if self.json:
            print_json(training_answer(store, status, self.report or store.path / PAGE_FILE))
        return status


def training_answer(store: Store, status: int, page: Path) -> dict[str, Any]:
    """What the runs of a store have reached, as data; the fields are described in docs/reference/json.md.

    `page`: where the page about the runs is, if it was written.
    """
    from asymrl.api import Runs
    from asymrl.runs.result_files import METRICS_FILE

    runs = Runs(store.path)
    files = {"metrics": store.path / METRICS_FILE, "curve": store.path / CURVE_FILE, "report": page}
    return {
        "folder": str(store.path),
        "exit_status": status,
        "complete": not store.unfinished(),
        "runs": runs.table.to_dicts(),
        "ranking": runs.ranking().to_dicts(),
        "files": {name: str(path) for name, path in files.items() if path.is_file()},
    }
