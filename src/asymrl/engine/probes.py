"""Measurements of the networks themselves, taken again and again while runs train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float

    from asymrl.learning.state import RunState


class Probe(Protocol):
    """Something to ask runs during training, such as the values of a few histories."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the numbers that the probe returns."""
        ...

    @property
    def every(self) -> int:
        """Environment steps of a run between two measurements."""
        ...

    def __call__(self, states: RunState) -> Float[np.ndarray, "run column"]:
        """The numbers, for every run."""
        ...
