"""`asymrl convert`: a sweep of an earlier version as a store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from asymrl.cli.usage import UsageError


@dataclass(frozen=True)
class Convert:
    """Make a folder that today's commands read of a sweep that a version before 0.2 has written.

    Folders of single trainings need no conversion.
    """

    old: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="OLD")]
    """Folder of the old sweep; it stays as it is."""
    new: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="NEW")]
    """Folder to make."""

    def run(self) -> int:
        from asymrl.engine.conversion import convert_sweep
        from asymrl.engine.files import StorageError

        try:
            store = convert_sweep(self.old, self.new)
        except (ValueError, StorageError) as error:
            raise UsageError(str(error)) from error
        print(f"{store.path}: {len(store)} runs")
        return 0
