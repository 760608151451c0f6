"""Networks whose actions, or observations, are vectors of indices."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.nn.agent import Actor, Architecture
from asymrl.nn.distributions import NO_ACTION
from asymrl.nn.features import EMBEDDING_SIZE, action_features, state_features
from asymrl.worlds import Box, Discrete, MultiDiscrete

SPACE = MultiDiscrete((3, 2, 4))
T, E = 4, 2


@pytest.mark.parametrize(("kind", "each"), [("categorical", [EMBEDDING_SIZE] * 3), ("feature-vector", [3, 2, 4])])
def test_each_entry_has_features_of_its_own(kind: str, each: list[int]):
    phi = action_features(jax.random.key(0), SPACE, kind)
    assert phi.size == sum(each)
    cuts = np.cumsum(each)[:-1]

    def entries(*action: int) -> list[np.ndarray]:
        return np.split(np.asarray(phi(jnp.asarray(action))), cuts)

    one, other = entries(2, 1, 3), entries(2, 0, 3)
    assert [np.array_equal(a, b) for a, b in zip(one, other, strict=True)] == [True, False, True]
    if kind == "feature-vector":
        np.testing.assert_array_equal(np.concatenate(one), [0, 0, 1, 0, 1, 0, 0, 0, 1])


@pytest.mark.parametrize("kind", ["categorical", "feature-vector"])
def test_projections_are_products(kind: str):
    phi = action_features(jax.random.key(0), SPACE, kind)
    weight = jax.random.normal(jax.random.key(1), (phi.size, 5))
    actions = jnp.asarray(np.array(list(np.ndindex(*SPACE.sizes)), np.int32))
    expected = phi(actions) @ weight
    np.testing.assert_allclose(phi.project(actions, weight), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(phi.prepared(weight)(actions), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("observations", [Discrete(5), Box((5,)), SPACE])
def test_acting_and_learning_see_the_same_policy(observations: Discrete | Box | MultiDiscrete):
    actor = Actor(jax.random.key(0), SPACE, observations, Architecture(memory_size=8, hidden=(8,)))
    rng = np.random.default_rng(0)
    before = rng.integers(SPACE.sizes, size=(T, E, 3)).astype(np.int32)
    before[0] = NO_ACTION
    seen = rng.integers(2, size=(T, E, *observations.shape)).astype(observations.dtype)

    @eqx.filter_jit
    def both(actor: Actor) -> tuple[list[jax.Array], jax.Array]:
        carry, acting = actor.history.memory.initial(E), []
        for t in range(T):
            carry, _, logits = actor.step(carry, jnp.asarray(before[t]), jnp.asarray(seen[t]))
            acting.append(logits)
        return acting, actor.policy(actor.history.sequence(jnp.asarray(before), jnp.asarray(seen)))

    acting, learning = both(actor)
    assert learning.shape == (T, E, 9)
    np.testing.assert_allclose(np.stack(acting), learning, rtol=1e-4, atol=1e-5)


def test_before_the_first_action_its_features_are_zeros():
    actor = Actor(jax.random.key(0), SPACE, Discrete(5), Architecture(memory_size=8, hidden=(8,)))
    history, seen = actor.history, jnp.asarray([3])
    weight, bias = history.memory.projection()
    expected = history.phi_o(seen) @ weight[history.phi_a.size :] + bias[None]
    got = history.project(jnp.full((1, 3), NO_ACTION), seen)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    assert np.abs(history.project(jnp.zeros((1, 3), jnp.int32), seen) - expected).max() > 0.1


def test_a_state_may_be_a_vector_of_indices_too():
    phi = state_features(jax.random.key(0), SPACE)
    assert phi(jnp.zeros((7, 3), jnp.int32)).shape == (7, 3 * EMBEDDING_SIZE)
