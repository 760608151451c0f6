"""Untrained networks, and what they say after a history when it is computed from scratch, as in training."""

from __future__ import annotations

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from asymrl.learners.learner import new_run
from asymrl.learners.state import RunState, training_world
from asymrl.nn.agent import Actor
from asymrl.nn.distributions import NO_ACTION
from asymrl.settings import A2CSettings
from asymrl.theory import History
from asymrl.worlds import FiniteWorld
from tests.oracles.trajectories import Act

SMALL: dict[str, Any] = {"memory_size": 8, "hidden": (8,), "time_limit": 4}


def untrained(world: str, **changes: Any) -> tuple[FiniteWorld, A2CSettings, RunState]:
    """Random networks, which give every history another value."""
    settings = A2CSettings(world=world, **SMALL | changes)
    made = training_world(settings)
    assert isinstance(made, FiniteWorld)
    return made, settings, new_run(made, settings, 0)


def sequence(h: History, start: int) -> tuple[jax.Array, jax.Array]:
    """The actions before each observation, and the observations, as training gives them: `[time, 1]`."""
    before = jnp.array([[NO_ACTION], *([a] for a, _ in h)], jnp.int32)
    return before, jnp.array([[start], *([o] for _, o in h)], jnp.int32)


@eqx.filter_jit
def _logits(actor: Actor, before: jax.Array, observations: jax.Array) -> jax.Array:
    return actor.policy(actor.history.sequence(before, observations))[-1, 0]


def acts(actor: Actor, start: int) -> Act:
    """pi(. ; h) of the network, for a world that shows the symbol `start` first."""

    @cache
    def act(h: History) -> np.ndarray:
        logits = np.asarray(_logits(actor, *sequence(h, start)), float)
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    return act
