"""`asymrl resume`: goes on with any runs that were interrupted, or makes them longer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from asymrl.cli.running import Running, print_results, train_to_the_end
from asymrl.cli.usage import UsageError


@dataclass(frozen=True, kw_only=True)
class Resume(Running):
    """Go on with the runs in a folder, to their end or beyond it.

    For everything that trains: train, sweep, compare and reproduce.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER")]
    """Folder of the runs."""

    steps: int | None = None
    """Train each run for this many steps in all, more than it was started with. None: as it was started."""

    def run(self) -> int:
        from asymrl.engine.files import StorageError
        from asymrl.engine.store import Store
        from asymrl.paper.evaluation import probes_from_json

        options, trackers = self.options(), self.trackers()
        try:
            store = Store.take(self.folder)
        except (ValueError, StorageError) as error:
            raise UsageError(str(error)) from error
        try:
            store.check_world_files()
            if self.steps is not None:
                store.extend(self.steps)
        except (ValueError, StorageError) as error:
            store.release()
            raise UsageError(str(error)) from error
        probes = probes_from_json(store.probes)
        return train_to_the_end(store, options, trackers, probes=probes, report=print_results)
