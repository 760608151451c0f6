"""How sweeps are run from the command line: where, for how long, and what is said in the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from asymrl.cli.usage import UsageError

if TYPE_CHECKING:
    from asymrl.sweeps.cells import Cell


@dataclass(frozen=True)
class Running:
    """How a sweep is run; what comes out does not depend on it."""

    engine: Literal["local", "ray"] = "local"
    """Where to train: on the devices of this machine, or on a Ray cluster (pip install "asymrl[ray]")."""
    ray_address: str | None = None
    """Address of the Ray cluster. None: the one that this machine belongs to, or one made for the occasion."""
    minutes: float | None = None
    """Stop after so many minutes, with a checkpoint, to fit into the slots of a queue. None: at the end."""
    checkpoint: Literal["auto", "none"] = "auto"
    """Whether batches in flight are kept, so that a killed sweep goes on with them."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints of a batch."""
    refresh_seconds: float = 2.0
    """Seconds between two looks at a batch."""
    batch: int | None = None
    """Most runs in a batch. None: measured."""
    workers: int | None = None
    """Batches to train at the same time on each device. None: 1 on a CPU, 5 on an accelerator."""
    processes: int | None = None
    """Train each batch in a process of its own, so many at a time. On NVIDIA GPUs they share the device through MPS,
    which makes many small batches faster. None: in threads of this process."""


def run_cells(
    out: Path,
    cells: Sequence[Cell],
    how: Running,
    *,
    probes: Mapping[str, Any] | None = None,
    urgent: Callable[[str, str], bool] | None = None,
) -> int:
    """Runs a sweep, reports on it, and returns the exit status.

    `urgent`: which worlds and methods are served first where processes share a device.

    0: all cells are finished. 1: some failed, or something could not be written. 3: out of time, cells are left.
    128 + n: interrupted by signal n.
    """
    from asymrl.engine.wording import duration, thousands
    from asymrl.runs.files import RunError, StorageError
    from asymrl.sweeps.display import SweepDisplay
    from asymrl.sweeps.driver import run_sweep

    display = SweepDisplay()
    try:
        engine, size_of, devices = _engine(how, display, urgent)
        outcome = run_sweep(
            out, cells, engine, size_of, display=display, minutes=how.minutes, probes=probes, devices=devices
        )
    except (RunError, StorageError, ValueError) as error:
        raise UsageError(str(error)) from error
    rate = outcome.steps / outcome.seconds if outcome.seconds else 0.0
    print(
        f"{outcome.done} of {outcome.cells} cells are finished; "
        f"{thousands(outcome.steps)} steps in {duration(outcome.seconds)} ({thousands(rate)} steps/s with compilation)"
    )
    _print_failures(outcome.failures)
    if outcome.interrupted is not None:
        print("Stopped. To go on: the same command")
        return 128 + outcome.interrupted
    if outcome.out_of_time:
        print("Out of time. To go on: the same command")
        return OUT_OF_TIME
    return 1 if outcome.failures else 0


OUT_OF_TIME = 3
MOST_SHOWN = 3  # cells that failed for the same reason


def _print_failures(failures: Mapping[str, str]) -> None:
    for reason in dict.fromkeys(failures.values()):
        cells = [cell for cell, why in failures.items() if why == reason]
        more = f" and {len(cells) - MOST_SHOWN} more" if len(cells) > MOST_SHOWN else ""
        print(f"failed: {'; '.join(cells[:MOST_SHOWN])}{more}: {reason}")


def _engine(how: Running, display: Any, urgent: Callable[[str, str], bool] | None) -> tuple[Any, Any, int]:
    """The engine, how it sizes batches, and how many devices it has."""
    from asymrl.sweeps.engine import Pace
    from asymrl.sweeps.planner import Sizes, fixed_size

    if how.workers is not None and how.workers < 1:
        raise UsageError(f"--workers {how.workers}: at least one batch must be trained")
    pace = Pace(how.checkpoint_seconds if how.checkpoint == "auto" else None, how.refresh_seconds)
    if how.engine == "ray":
        from asymrl.sweeps.cluster import RayEngine

        engine = RayEngine(address=how.ray_address, workers=how.workers, pace=pace)
        return engine, fixed_size(how.batch or engine.batch), engine.slots
    if how.processes is not None:
        # The memory of the devices is for the other processes.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    from asymrl.sweeps.local import LocalEngine

    engine = LocalEngine(workers=how.workers, pace=pace)
    devices, at_once = engine.devices, engine.workers + engine.waiting
    sizes = Sizes(engine.cache, devices[0], how.processes or at_once, display.say)
    if how.processes is not None:
        from asymrl.sweeps.processes import ProcessEngine

        goes_first = None if urgent is None else lambda task: urgent(task.batch.first.world, task.batch.first.method)
        engine = ProcessEngine(
            how.processes, pace=pace, devices=len(devices), platform=devices[0].platform, urgent=goes_first
        )
    return engine, sizes if how.batch is None else fixed_size(how.batch), len(devices)


def collect(out: Path) -> int:
    """Puts the finished cells of a folder together into a table."""
    from asymrl.engine.wording import plural
    from asymrl.runs.files import RunError, StorageError

    try:
        from asymrl.sweeps.table import collect_folder

        path, rows, runs = collect_folder(out)
    except (RunError, StorageError) as error:
        raise UsageError(str(error)) from error
    print(f"{path}: {plural('row', rows)} of {plural('run', runs)}, {path.stat().st_size / 2**20:.1f} MiB")
    return 0
