"""The compiled belief filter against exact arithmetic, after every history of small problems."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl import theory
from asymrl.worlds.critic_inputs import BeliefFilter
from asymrl.worlds.pomdp import Pomdp
from tests.oracles.trajectories import random_pomdp
from tests.theory.exact.worlds import problem

PROBLEMS: dict[str, Pomdp] = {
    "random": random_pomdp(11, S=4),
    "shows-first": random_pomdp(12, S=4, shows_first=True),
    **{name: problem(name) for name in ("tiger", "good-bad", "heaven-hell-1", "shopping-2")},
}


@pytest.mark.parametrize("dense", [True, False], ids=["matrices", "outcomes"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_beliefs_are_exact_after_every_history(name: str, dense: bool):
    pomdp = PROBLEMS[name]
    filtered = BeliefFilter(pomdp, largest_table=1 << 20 if dense else 0)
    shown = 0 if pomdp.first_observation is None else 1
    histories = [h for h, _ in theory.realisable(pomdp, 3) if len(h) == 3 + shown]
    assert len(histories) > 5
    pairs = jnp.asarray([[(0 if a is None else a, o) for a, o in h] for h in histories])

    def follow(h: jax.Array) -> jax.Array:
        belief = filtered.begin(h[0, 1])
        return jax.lax.scan(lambda b, pair: (filtered(b, pair[0], pair[1])[0], 0.0), belief, h[shown:])[0]

    beliefs = jax.jit(jax.vmap(follow))(pairs)
    np.testing.assert_allclose(beliefs, [theory.belief_of(pomdp, h) for h in histories], atol=1e-6)


@pytest.mark.parametrize("dense", [True, False], ids=["matrices", "outcomes"])
def test_an_impossible_observation_leaves_zeros(dense: bool):
    """In the good state of good-bad nothing but GOOD is ever seen."""
    filtered = BeliefFilter(PROBLEMS["good-bad"], largest_table=1 << 20 if dense else 0)
    belief, probability = filtered(jnp.array([1.0, 0.0]), jnp.int32(0), jnp.int32(1))
    np.testing.assert_array_equal(belief, [0.0, 0.0])
    assert probability == 0
    after, probability = filtered(belief, jnp.int32(0), jnp.int32(0))
    np.testing.assert_array_equal(after, [0.0, 0.0])
    assert probability == 0
