"""The reference itself: its hand-written gradients against numerical ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.oracles.networks import Episode, Network, Weights
from tests.oracles.update import Learner, Rules

SIZE, EMBEDDING, ACTIONS, OBSERVATIONS, STATES = 3, 2, 3, 4, 5


def some_weights(rng: np.random.Generator, reads: str, outputs: int) -> Weights:
    shapes: dict[str, tuple[int, ...]] = {}
    if "h" in reads:
        shapes |= {"phi_a": (ACTIONS, EMBEDDING), "phi_o": (OBSERVATIONS, EMBEDDING)}
        shapes |= {"gru.input_weight": (2 * EMBEDDING, 3 * SIZE), "gru.hidden_weight": (SIZE, 3 * SIZE)}
        shapes |= {"gru.input_bias": (3 * SIZE,), "gru.hidden_bias": (3 * SIZE,)}
    if "s" in reads:
        shapes["phi_s"] = (STATES, EMBEDDING)
    read = SIZE * ("h" in reads) + EMBEDDING * ("s" in reads)
    shapes |= {
        "head.0.weight": (read, 4),
        "head.0.bias": (4,),
        "head.1.weight": (4, outputs),
        "head.1.bias": (outputs,),
    }
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def numerical_gradient(loss: Callable[[Weights], float], weights: Weights) -> Weights:
    """By central differences."""
    gradient = {name: np.zeros_like(value) for name, value in weights.items()}
    for name, value in weights.items():
        for index in np.ndindex(value.shape):
            step = np.zeros_like(value)
            step[index] = 1e-5
            difference = loss(weights | {name: value + step}) - loss(weights | {name: value - step})
            gradient[name][index] = difference / 2e-5
    return gradient


def assert_agree(by_hand: Weights, numerical: Weights) -> None:
    for name, gradient in numerical.items():
        np.testing.assert_allclose(by_hand[name], gradient, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("reads", ["h", "s", "hs"])
def test_gradients_of_networks(reads: str, window: int | None):
    rng = np.random.default_rng(0)
    network = Network(reads, window, ACTIONS, blank=None)
    weights = some_weights(rng, reads, outputs=2)
    T = 5
    episode = Episode(
        observations=rng.integers(OBSERVATIONS, size=T + 1),
        signals=rng.integers(STATES, size=T + 1),
        actions=rng.integers(ACTIONS, size=T),
        rewards=rng.normal(size=T),
        truncated=False,
    )
    of_outputs = rng.normal(size=(T, 2))
    _, tape = network.forward(weights, episode, T)
    by_hand = network.backward(weights, tape, of_outputs)
    numerical = numerical_gradient(lambda w: (network.forward(w, episode, T)[0] * of_outputs).sum(), weights)
    assert_agree(by_hand, numerical)


def test_gradients_of_losses():
    rng = np.random.default_rng(1)
    episodes = [
        Episode(
            rng.integers(OBSERVATIONS, size=T + 1),
            rng.integers(STATES, size=T + 1),
            rng.integers(ACTIONS, size=T),
            rng.normal(size=T),
            truncated=False,
        )
        for T in (4, 2)
    ]
    policy, value = Network("h", None, ACTIONS, None), Network("hs", None, ACTIONS, None)
    actor, critic = some_weights(rng, "h", ACTIONS), some_weights(rng, "hs", 1)
    learner = Learner(policy, value, actor, critic, target=some_weights(rng, "hs", 1))
    rules = Rules()

    def with_actor(weights: Weights) -> float:
        policy_loss, negentropy, _ = Learner(policy, value, weights, critic, critic).actor_losses(episodes, 0.3, rules)
        return policy_loss + 0.3 * negentropy

    def with_critic(weights: Weights) -> float:
        return Learner(policy, value, actor, weights, learner.target).critic_loss(episodes, rules)[0]

    assert_agree(learner.actor_losses(episodes, 0.3, rules)[2], numerical_gradient(with_actor, actor))
    assert_agree(learner.critic_loss(episodes, rules)[1], numerical_gradient(with_critic, critic))
