"""`asymrl resume`: goes on with runs that were interrupted, or makes them longer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from asymrl.cli.usage import UsageError


@dataclass(frozen=True)
class Resume:
    """Go on with the runs in a folder from their last checkpoint, to their end or beyond it."""

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of the runs, as asymrl train has named it."""

    steps: int | None = None
    """Train each run for this many steps in all, more than it was started with. None: as it was started."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints."""
    refresh_seconds: float = 1.5
    """Seconds between two updates of the display and of the metrics."""
    tensorboard: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Also write for TensorBoard, into the folder of the runs."""
    wandb: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Also report to Weights & Biases."""

    def run(self) -> int:
        from asymrl.cli.training import follow_to_the_end, wanted_trackers
        from asymrl.runs.files import StorageError
        from asymrl.runs.folder import RunFolder
        from asymrl.runs.trainer import Pace

        try:
            pace = Pace(self.refresh_seconds, self.checkpoint_seconds)
            trackers = wanted_trackers(tensorboard=self.tensorboard, wandb=self.wandb)
            folder = RunFolder.take(self.run_folder)
            if self.steps is not None:
                folder.extend(self.steps)
        except (ValueError, StorageError) as error:
            raise UsageError(str(error)) from error
        return follow_to_the_end(folder, pace, trackers)
