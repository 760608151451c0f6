"""Schedules and losses with numbers that one can check by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.losses import critic_loss, negentropy_loss, policy_loss
from asymrl.learners.schedules import scheduled
from asymrl.nn.distributions import Categorical

VALID = jnp.asarray([[True, True], [True, False]])  # episodes of two steps and of one


def weight(name: str, step: int, *, steps: float) -> float:
    return float(scheduled(name, jnp.int32(step), start=1.0, end=0.1, steps=steps))


def test_constant():
    assert [weight("constant", step, steps=10) for step in (0, 5, 1000)] == [1.0, 1.0, 1.0]


def test_linear_reaches_its_end_one_step_early_and_stays_there():
    """The authors count from step 0 to step n - 1."""
    assert weight("linear", 0, steps=11) == 1.0
    np.testing.assert_allclose(weight("linear", 5, steps=11), 0.55, rtol=1e-6)
    np.testing.assert_allclose([weight("linear", step, steps=11) for step in (10, 11, 10**9)], 0.1, rtol=1e-6)
    np.testing.assert_allclose(weight("linear", 3, steps=1), 0.1, rtol=1e-6)


def test_exponential_halves():
    got = [weight("exponential", step, steps=500) for step in (0, 500, 1000, 250)]
    np.testing.assert_allclose(got, [1.0, 0.5, 0.25, 0.5**0.5], rtol=1e-6)


def test_an_unknown_schedule_names_those_that_there_are():
    with pytest.raises(ValueError, match="unknown schedule 'cosine'; choose one of constant, linear, exponential"):
        weight("cosine", 0, steps=1)


def test_the_critic_loss_sums_over_time_and_averages_over_episodes():
    values, targets = jnp.asarray([[1.0, 2.0], [3.0, 99.0]]), jnp.asarray([[0.0, 0.0], [1.0, 0.0]])
    assert float(critic_loss(values, targets, VALID)) == ((1 + 4) + 4) / 2
    gradient = jax.grad(critic_loss)(values, targets, VALID)
    np.testing.assert_array_equal(gradient, [[1.0, 2.0], [2.0, 0.0]])
    np.testing.assert_array_equal(jax.grad(critic_loss, argnums=1)(values, targets, VALID), np.zeros((2, 2)))


def test_the_policy_loss_is_discounted_and_has_no_gradient_to_the_advantages():
    log_chosen = jnp.log(jnp.asarray([[0.5, 0.75], [0.8, 0.5]]))
    advantages = jnp.asarray([[2.0, 3.0], [4.0, 99.0]])
    loss = float(policy_loss(log_chosen, advantages, VALID, 0.9))
    expected = -((2 * np.log(0.5) + 0.9 * 4 * np.log(0.8)) + 3 * np.log(0.75)) / 2
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    for_advantages = jax.grad(policy_loss, argnums=1)(log_chosen, advantages, VALID, 0.9)
    np.testing.assert_array_equal(for_advantages, np.zeros((2, 2)))


def test_the_negative_entropy_is_not_discounted():
    uniform = Categorical(4).negentropy(jnp.zeros((2, 2, 4)))
    np.testing.assert_allclose(negentropy_loss(uniform, VALID), -3 * np.log(4) / 2, rtol=1e-6)
    certain = jnp.broadcast_to(jnp.log(jnp.asarray([1.0, 1e-30, 1e-30, 1e-30])), (2, 2, 4))
    np.testing.assert_allclose(negentropy_loss(Categorical(4).negentropy(certain), VALID), 0.0, atol=1e-6)


def test_a_policy_with_an_impossible_action_has_finite_losses():
    """An action of probability 0 that was not taken: 0 log 0 is 0, and so is its gradient."""
    logits = jnp.asarray([0.0, -1e4])

    def loss(logits: jax.Array) -> jax.Array:
        policy, everywhere = Categorical(2), jnp.broadcast_to(logits, (2, 2, 2))
        log_chosen = policy.log_probability(everywhere, jnp.zeros((2, 2), jnp.int32))
        return policy_loss(log_chosen, jnp.ones((2, 2)), VALID, 0.9) + negentropy_loss(
            policy.negentropy(everywhere), VALID
        )

    value, gradient = jax.value_and_grad(loss)(logits)
    np.testing.assert_allclose([value, *gradient], 0.0, atol=1e-6)
