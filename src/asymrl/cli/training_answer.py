"""What `train`, `resume` and `sweep` print with `--json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asymrl.cli.output import print_json
from asymrl.cli.running import Running, Tracker, train_to_the_end
from asymrl.cli.usage import Flag

if TYPE_CHECKING:
    from asymrl.stores.store import Store


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
            print_json(training_answer(store, status))
        return status


def training_answer(store: Store, status: int) -> dict[str, Any]:
    """What the runs of a store have reached, as data; the fields are described in docs/reference/json.md."""
    from asymrl.api import Runs

    runs = Runs(store.path)
    files = {name: store.path / file for name, file in (("metrics", "metrics.parquet"), ("curve", "curve.png"))}
    return {
        "folder": str(store.path),
        "exit_status": status,
        "complete": not store.unfinished(),
        "runs": runs.table.to_dicts(),
        "ranking": runs.ranking().to_dicts(),
        "files": {name: str(path) for name, path in files.items() if path.is_file()},
    }
