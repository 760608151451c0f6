"""Registers the worlds with Gymnasium. Imports no JAX: that happens when an environment is made."""

from __future__ import annotations

import gymnasium

from asymrl.names import GYMNASIUM_NAMES

TIME_LIMIT = 100


def register_worlds() -> None:
    """Adds `asymrl/HeavenHell-3-v0` and the others to Gymnasium's registry, once."""
    for name, gymnasium_name in GYMNASIUM_NAMES.items():
        gymnasium_id = f"asymrl/{gymnasium_name}-v0"
        if gymnasium_id not in gymnasium.registry:
            gymnasium.register(
                gymnasium_id,
                entry_point="asymrl.gym.single:make_environment",
                vector_entry_point="asymrl.gym.vector:make_vector_environment",
                max_episode_steps=TIME_LIMIT,
                kwargs={"world": name},
            )
