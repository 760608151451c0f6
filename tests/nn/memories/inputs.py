"""Memories given inputs that are not projected yet."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from asymrl.nn.memory import Memory


def project(memory: Memory, xs: jax.Array) -> jax.Array:
    """What a memory takes in."""
    weight, bias = memory.projection()
    y = xs @ weight
    return y + jnp.broadcast_to(bias, y.shape)


def sequence(memory: Memory, xs: jax.Array) -> jax.Array:
    """The feature after each input, from an empty memory."""
    return memory.follow(project(memory, xs))


def step(memory: Memory, carry: Any, x: jax.Array) -> tuple[Any, jax.Array]:
    """Takes in one more input."""
    return memory.advance(carry, project(memory, x))
