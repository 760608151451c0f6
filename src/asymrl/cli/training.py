"""What `asymrl train` and `asymrl resume` share: how a training is followed, and what is said at its end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from asymrl.cli.usage import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from asymrl.runs.folder import RunFolder
    from asymrl.runs.listeners import Listener
    from asymrl.runs.trainer import Outcome, Pace


Tracker = Callable[["Path"], "Listener"]


def wanted_trackers(*, tensorboard: bool, wandb: bool) -> list[Tracker]:
    """The trackers that the user asked for. Raises RunError if one is not installed."""
    from asymrl.runs.trackers import TensorBoard, WeightsAndBiases

    wanted = [kind for kind, is_wanted in ((TensorBoard, tensorboard), (WeightsAndBiases, wandb)) if is_wanted]
    for kind in wanted:
        kind.package()
    return [*wanted]


def follow_to_the_end(folder: RunFolder, pace: Pace, trackers: Sequence[Tracker]) -> int:
    """Trains the runs of a folder, reports on them, and returns the exit status.

    0: all runs are complete. 1: some failed, or something could not be written. 128 + n: interrupted by signal n.
    """
    from asymrl.runs.display import display
    from asymrl.runs.files import RunError, StorageError
    from asymrl.runs.listeners import Everyone
    from asymrl.runs.trainer import train_folder

    listener = Everyone([display(), *(tracker(folder.path) for tracker in trackers)])
    try:
        outcome = train_folder(folder, listener, pace)
        if outcome.interrupted is not None:
            print(f"Stopped; everything so far is in {folder.path}. To go on: asymrl resume {folder.path}")
            return 128 + outcome.interrupted
        _report(folder, outcome)
    except RunError as error:
        raise UsageError(str(error)) from error
    except StorageError as error:
        print(f"asymrl: {error}", file=sys.stderr)
        return 1
    finally:
        folder.release()
    return 1 if outcome.failed else 0


def _report(folder: RunFolder, outcome: Outcome) -> None:
    from asymrl.report.summary import next_commands
    from asymrl.training import Result

    result = Result(folder.path, folder.batch, outcome.runs)
    print(f"\n{result.summary()}\n")
    if len(result.metrics):
        print(f"learning curve  {result.plot()}")
    print(f"metrics         {folder.metrics_file}\n\nnext:\n{next_commands(folder.path, folder.batch.first)}")
