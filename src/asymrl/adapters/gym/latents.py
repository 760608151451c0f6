"""Where the latent state of somebody else's environment is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from asymrl.adapters.gym.foreign_spaces import Reading, reading, reading_of_value
from asymrl.adapters.user_code import load_attribute
from asymrl.worlds.spaces import Box

LatentFunction = Callable[[gymnasium.Env], Any]

NOWHERE = (
    "no latent state was found: neither info['state'] nor env.unwrapped.state is there. Put it into the info, or name "
    "a function of the environment that gives it, behind the name of the world (:latent=module:function). Without "
    "one, a2c can be trained"
)


class Latent(NamedTuple):
    """How the latent state is found, what it looks like, and if there is none, why."""

    find: Callable[[gymnasium.Env, dict[str, Any]], Any]
    reading: Reading
    missing: str | None = None


def latent_of(env: gymnasium.Env, info: dict[str, Any], function: LatentFunction | None) -> Latent:
    """Looks for the latent state of an environment that was just reset.

    In this order: the function that the user names, `info["state"]`, `env.unwrapped.state`, and the whole grid of a
    MiniGrid environment.
    """
    if function is not None:
        return Latent(lambda env, info: function(env), reading_of_value(function(env), "the latent state"))
    if info.get("state") is not None:
        return Latent(lambda env, info: info["state"], _reading(env, info["state"], "info['state']"))
    inner: Any = env.unwrapped
    if getattr(inner, "state", None) is not None and not callable(inner.state):
        return Latent(lambda env, info: _inner(env).state, _reading(env, inner.state, "env.unwrapped.state"))
    if hasattr(inner, "grid") and hasattr(inner, "agent_pos") and hasattr(inner, "agent_dir"):
        return Latent(lambda env, info: minigrid_state(_inner(env)), _minigrid_reading(inner))
    empty = np.zeros(0, np.float32)
    return Latent(lambda env, info: empty, Reading(Box((0,)), lambda value: empty), NOWHERE)


def _inner(env: gymnasium.Env) -> Any:
    return env.unwrapped


def _reading(env: gymnasium.Env, value: Any, where: str) -> Reading:
    space = getattr(env.unwrapped, "state_space", None)
    if isinstance(space, gymnasium.Space):
        found = reading(space, where)
        if found is not None:
            return found
    return reading_of_value(value, where)


def minigrid_state(inner: Any) -> dict[str, Any]:
    """Every cell of a MiniGrid environment, and where the agent is and looks."""
    place = np.asarray(inner.agent_pos, np.float32) / np.asarray([inner.width, inner.height], np.float32)
    return {"cells": inner.grid.encode(), "agent": place, "heading": int(inner.agent_dir)}


def _minigrid_reading(inner: Any) -> Reading:
    cells = spaces.Box(0, 255, (inner.width, inner.height, 3), np.uint8)
    found = reading(
        spaces.Dict({"cells": cells, "agent": spaces.Box(0.0, 1.0, (2,)), "heading": spaces.Discrete(4)}), "the grid"
    )
    assert found is not None
    return found


def function_named(name: str) -> LatentFunction:
    """The function `module:function` or `file.py:function`. Raises ValueError if it is not there."""
    module, colon, attribute = name.rpartition(":")
    if not colon:
        raise ValueError(f"latent {name!r}: write module:function or file.py:function")
    return load_attribute(f"latent {name!r}", module, attribute)
