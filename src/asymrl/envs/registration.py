"""Registers the worlds with Gymnasium. Imports no JAX: that happens when an environment is made."""

from __future__ import annotations

import re

import gymnasium

from asymrl.worlds.registry import WORLDS, usual_time_limit


def gymnasium_id(world: str) -> str:
    """The id of a world in Gymnasium: `asymrl/HeavenHell-3-v0` for `heaven-hell-3`."""
    name = re.sub(r"-?\b([a-z])", lambda match: match[1].upper(), world)
    return f"asymrl/{name}-v0"


def register_worlds() -> None:
    """Adds `asymrl/HeavenHell-3-v0` and the others to Gymnasium's registry, once."""
    for world in WORLDS:
        if gymnasium_id(world) not in gymnasium.registry:
            gymnasium.register(
                gymnasium_id(world),
                entry_point="asymrl.envs.gymnasium_out:Environment",
                vector_entry_point="asymrl.envs.gymnasium_out:VectorEnvironment",
                max_episode_steps=usual_time_limit(world),
                # Gymnasium applies its own limit, so that `max_episode_steps` can also lengthen an episode.
                kwargs={"world": world, "time_limit": None},
            )
