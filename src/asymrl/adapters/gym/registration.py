"""Registers the worlds with Gymnasium. Imports no JAX: that happens when an environment is made."""

from __future__ import annotations

import gymnasium

from asymrl.worlds.names import GYMNASIUM_NAMES

TIME_LIMIT = 100


def register_worlds() -> None:
    """Adds `asymrl/HeavenHell-3-v0` and the others to Gymnasium's registry, once."""
    for name, gymnasium_name in GYMNASIUM_NAMES.items():
        gymnasium_id = f"asymrl/{gymnasium_name}-v0"
        if gymnasium_id not in gymnasium.registry:
            gymnasium.register(
                gymnasium_id,
                entry_point="asymrl.adapters.gym.single:Environment",
                vector_entry_point="asymrl.adapters.gym.vector:VectorEnvironment",
                max_episode_steps=TIME_LIMIT,
                # Gymnasium applies its own limit, so that `max_episode_steps` can also lengthen an episode.
                kwargs={"world": name, "time_limit": None},
            )
