"""What an exported policy must know about the environment, so that it reads and gives what the environment does."""

from __future__ import annotations

from typing import Any

import numpy as np

from asymrl.worlds.spaces import Box, Space
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World


def actions_of(env: World) -> dict[str, Any]:
    """The number of the first action; or where actions are vectors, their form and bounds, None for no bound."""
    space: Space = env.action_space
    if not isinstance(space, Box):
        return {"first": int(env.act(0)) if isinstance(env, SteppedWorld) else 0}
    ends = (np.broadcast_to(np.asarray(end, np.float64), space.shape).ravel() for end in (space.low, space.high))
    low, high = ([_finite(bound) for bound in end] for end in ends)
    taken = env.act(np.zeros(space.shape)) if isinstance(env, SteppedWorld) else np.zeros(space.shape, np.float32)
    return {"shape": list(taken.shape), "dtype": str(taken.dtype), "low": low, "high": high}


def reading_of(env: World) -> list[dict[str, Any]]:
    """How parts of what the environment shows become the network's inputs; see `Conversion`.

    What is not in the list is read as it is.
    """
    return [part._asdict() for part in env.conversions] if isinstance(env, SteppedWorld) else []


def _finite(bound: float) -> float | None:
    return float(bound) if np.isfinite(bound) else None
