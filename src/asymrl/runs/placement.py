"""Where and how runs are trained. Results do not depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LONGEST_CALL = 2.0  # seconds, of a training program


@dataclass(frozen=True)
class Placement:
    """Where runs are trained. Results do not depend on it."""

    engine: Literal["local", "ray"] = "local"
    """Where to train: on the devices of this machine, or on a Ray cluster (pip install "asymrl[ray]")."""
    ray_address: str | None = None
    """Address of the Ray cluster. None: the one that this machine belongs to, or a new one."""
    lanes: int | None = None
    """Runs that a pool trains together. None: 1 on a core, as many as are worthwhile on an accelerator."""
    workers: int | None = None
    """Concurrent pools on each device. None: one per core of a CPU, 5 on an accelerator."""
    processes: int | None = None
    """Run each pool in its own process, this many at a time. On NVIDIA GPUs they share the device through MPS, which
    makes many small pools faster. None: pools are threads of this process."""

    def __post_init__(self) -> None:
        for name in ("lanes", "workers", "processes"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} is {value}; at least 1 is needed")


@dataclass(frozen=True)
class Pace:
    """How often runs are shown and written down, and what is kept of them. Results do not depend on it."""

    refresh_seconds: float = 1.5
    """Seconds between two updates of the display and the tables."""
    checkpoint_seconds: float | None = 60.0
    """Seconds between two checkpoints. None: never."""
    keep_states: bool = True
    """Whether the networks of runs that are over are kept."""

    def __post_init__(self) -> None:
        if not self.refresh_seconds > 0:
            raise ValueError(f"refresh_seconds is {self.refresh_seconds}; it must be a positive number")
        if self.checkpoint_seconds is not None and not self.checkpoint_seconds >= 0:
            raise ValueError(f"checkpoint_seconds is {self.checkpoint_seconds}; it cannot be negative")

    @property
    def call_seconds(self) -> float:
        """How long a call of a training program should take. Ctrl-C waits for its end."""
        return min(self.refresh_seconds, LONGEST_CALL)
