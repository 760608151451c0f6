"""`asymrl sweep`: worlds x methods x settings x seeds, in a folder that knows what is still missing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from asymrl.commands.usage import UsageError, read_toml
from asymrl.paper import tuned

if TYPE_CHECKING:
    from asymrl.sweeps.cells import Cell

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]


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


@dataclass(frozen=True)
class Sweep(Running):
    """Train every world with every method, every setting and every seed; run again, it does what is missing.

    Settings that are not given are those that the paper tuned for the world and method, then the defaults of
    `asymrl train`. What is given here wins over the --config file.
    """

    env: tuple[str, ...] = ()
    """Names of worlds."""
    methods: tuple[str, ...] = ()
    """Names of methods."""
    seeds: int | None = None
    """How many seeds: 0, 1, ... None: 20."""
    first_seed: int = 0
    """The first of them."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE,...")] = ()
    """Settings and their values to try, such as actor_rate=0.001,0.0003 steps=2000000."""
    out: Path | None = None
    """Folder of the sweep."""
    config: Path | None = None
    """A TOML file with env, methods, seeds, out, and a table [set] with lists of values."""
    collect: Flag = False
    """Train nothing; put what is finished together into one table, OUT/results.parquet."""

    def run(self) -> int:
        wanted = self._with_config()
        if wanted.out is None:
            raise UsageError("--out: say in which folder the sweep is kept")
        if wanted.collect:
            return collect(wanted.out)
        try:
            cells = wanted.cells()
        except ValueError as error:
            raise UsageError(str(error)) from error
        return run_cells(wanted.out, cells, wanted, again=f"the same command, or --collect for {wanted.out}")

    def cells(self) -> list[Cell]:
        """The cells that are asked for. Raises ValueError if they can't be."""
        from asymrl.sweeps.cells import product

        if not self.env or not self.methods:
            raise UsageError("name worlds with --env and methods with --methods, or give a --config file")
        axes = dict(axis(text) for text in self.set)
        count = 20 if self.seeds is None else self.seeds
        if count < 1:
            raise UsageError("no seeds: train at least one run")
        seeds = range(self.first_seed, self.first_seed + count)
        return product(self.env, self.methods, axes, seeds, _known_settings)

    def _with_config(self) -> Sweep:
        if self.config is None:
            return self
        found = read_config(self.config)
        axes = tuple(f"{name}={','.join(map(_text, _listed(values)))}" for name, values in found.pop("set", {}).items())
        given = {text.partition("=")[0] for text in self.set}
        changes: dict[str, Any] = {
            name: Path(value) if name == "out" else tuple(value) if isinstance(value, list) else value
            for name, value in found.items()
            if getattr(self, name) == getattr(Sweep(), name)
        }
        kept = tuple(axis for axis in axes if axis.partition("=")[0] not in given)
        return replace(self, **changes, set=(*kept, *self.set))


def _known_settings(world: str, method: str) -> dict[str, Any]:
    """What the world's own file says, or the paper tuned for the world and method."""
    from asymrl.runs.options import settings_from_file

    return {**settings_from_file(world), **(tuned(world, method) or {})}


CONFIG = {"env": list, "methods": list, "seeds": int, "first_seed": int, "out": str, "set": dict}


def read_config(path: Path) -> dict[str, Any]:
    """What a TOML file says about a sweep. Raises UsageError if it can not be read, or says something else."""
    values = read_toml(path)
    for name, value in values.items():
        if name not in CONFIG:
            raise UsageError(f"--config {path}: unknown {name!r}; a sweep has {', '.join(CONFIG)}")
        if not isinstance(value, CONFIG[name]):
            raise UsageError(f"--config {path}: {name} is {value!r}, expected a {CONFIG[name].__name__}")
    return values


def _listed(values: Any) -> Sequence[Any]:
    return values if isinstance(values, list) else [values]


def _text(value: Any) -> str:
    """A TOML value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return ":".join(map(str, value)) if isinstance(value, list) else str(value)


def axis(text: str) -> tuple[str, list[Any]]:
    """The name and the values of `name=value,value`."""
    name, equals, values = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set {text}: write NAME=VALUE or NAME=VALUE,VALUE,...")
    name = name.replace("-", "_")
    found = [_value(part) for part in values.split(",") if part]
    # One hidden layer is a list, too.
    return name, [[value] if name == "hidden" and isinstance(value, int) else value for value in found]


def _value(text: str) -> Any:
    """The value that a text means: a number, true or false, a list of whole numbers such as 64:64, or itself."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    parts = text.split(":")
    return [int(part) for part in parts] if all(part.isdigit() for part in parts) else text


def run_cells(
    out: Path, cells: Sequence[Cell], how: Running, *, again: str, probes: Mapping[str, Any] | None = None
) -> int:
    """Runs a sweep, reports on it, and returns the exit status.

    0: all cells are finished. 1: some failed, or something could not be written. 3: out of time, cells are left.
    128 + n: interrupted by signal n.
    """
    from asymrl.runs.files import RunError, StorageError
    from asymrl.sweeps.display import SweepDisplay, duration
    from asymrl.sweeps.driver import run_sweep

    display = SweepDisplay()
    try:
        engine, size_of, devices = _engine(how, display)
        outcome = run_sweep(
            out, cells, engine, size_of, display=display, minutes=how.minutes, probes=probes, devices=devices
        )
    except (RunError, StorageError, ValueError) as error:
        raise UsageError(str(error)) from error
    rate = outcome.steps / outcome.seconds if outcome.seconds else 0.0
    print(
        f"{outcome.done} of {outcome.cells} cells are finished; "
        f"{outcome.steps:,} steps in {duration(outcome.seconds)} ({rate:,.0f} steps/s with compilation)"
    )
    _print_failures(outcome.failures)
    if outcome.interrupted is not None:
        print(f"Stopped. To go on: {again}")
        return 128 + outcome.interrupted
    if outcome.out_of_time:
        print(f"Out of time. To go on: {again}")
        return OUT_OF_TIME
    return 1 if outcome.failures else 0


OUT_OF_TIME = 3
MOST_SHOWN = 3  # cells that failed for the same reason


def _print_failures(failures: Mapping[str, str]) -> None:
    for reason in dict.fromkeys(failures.values()):
        cells = [cell for cell, why in failures.items() if why == reason]
        more = f" and {len(cells) - MOST_SHOWN} more" if len(cells) > MOST_SHOWN else ""
        print(f"failed: {'; '.join(cells[:MOST_SHOWN])}{more}: {reason}")


def _engine(how: Running, display: Any) -> tuple[Any, Any, int]:
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

        engine = ProcessEngine(how.processes, pace=pace, devices=len(devices))
    return engine, sizes if how.batch is None else fixed_size(how.batch), len(devices)


def collect(out: Path) -> int:
    """Puts the finished cells of a folder together into a table."""
    from asymrl.runs.files import RunError, StorageError

    try:
        from asymrl.sweeps.table import collect_folder

        path, rows, runs = collect_folder(out)
    except (RunError, StorageError) as error:
        raise UsageError(str(error)) from error
    print(f"{path}: {rows:,} rows of {runs:,} runs, {path.stat().st_size / 2**20:.1f} MiB")
    return 0
