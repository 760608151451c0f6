"""Measurements of the networks themselves, taken again and again while a batch trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from jaxtyping import Float, Int

if TYPE_CHECKING:
    from asymrl.learning.state import RunState


class Probe(Protocol):
    """Something to ask a batch of runs during training, such as the values of a few histories."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the numbers that the probe returns."""
        ...

    @property
    def every(self) -> int:
        """Environment steps of a run between two measurements."""
        ...

    def __call__(self, runs: RunState) -> Float[np.ndarray, "run column"]:
        """The numbers, for every run of a batch."""
        ...


class Series:
    """What a probe found so far: `timesteps[point, run]` and `values[point, run, column]`."""

    def __init__(
        self,
        probe: Probe,
        timesteps: Int[np.ndarray, "point run"] | None = None,
        values: Float[np.ndarray, "point run column"] | None = None,
    ):
        self.probe = probe
        self._timesteps = [] if timesteps is None else list(timesteps)
        self._values = [] if values is None else list(values)

    @property
    def next_step(self) -> int:
        """The step that the slowest run must have reached for the next measurement."""
        return len(self._timesteps) * self.probe.every

    def measure(self, runs: RunState, timesteps: Int[np.ndarray, "run"]) -> None:
        """Measures the runs, which are at these timesteps. Further runs, which only fill up a batch, are left out."""
        self._timesteps.append(timesteps.astype(np.int32))
        self._values.append(np.asarray(self.probe(runs), np.float32)[: len(timesteps)])

    def arrays(self) -> dict[str, np.ndarray]:
        """The series, by the names under which it is kept in files."""
        return {"probe_timesteps": np.stack(self._timesteps), "probe_values": np.stack(self._values)}
