"""What an exported policy must know about actions, so that what it gives can be handed to the environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from asymrl.envs.host import HostWorld
from asymrl.envs.spaces import Box, Space
from asymrl.envs.world import World


def actions_of(env: World) -> dict[str, Any]:
    """The number of the first action; or where actions are vectors, their shape and bounds, None for no bound."""
    space: Space = env.action_space
    if not isinstance(space, Box):
        return {"first": int(env.act(0)) if isinstance(env, HostWorld) else 0}
    low, high = ([_finite(bound) for bound in np.ravel(end)] for end in space.bounds())
    shape = np.shape(env.act(np.zeros(space.shape))) if isinstance(env, HostWorld) else space.shape
    return {"shape": list(shape), "low": low, "high": high}


def _finite(bound: float) -> float | None:
    return float(bound) if np.isfinite(bound) else None
