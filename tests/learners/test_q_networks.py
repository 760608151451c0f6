"""Losses, gradients and steps of all seven variants, in both layouts, against a NumPy reference in float64."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners import q_networks
from asymrl.learners.episodes import TrainingBatch
from asymrl.learners.q_losses import Variant, estimates, regression
from asymrl.learners.q_networks import QLosses, QNetworks, q_gradient
from asymrl.nn.agent import Actor, Architecture, Critic
from asymrl.nn.distributions import NO_ACTION, Greedy
from asymrl.nn.history import sequence_together
from asymrl.worlds.spaces import Discrete
from tests.learners.small import weights_of
from tests.oracles.networks import Episode, Network
from tests.oracles.q_learning import VARIANTS, QLearner

A, O, S, DISCOUNT = 3, 5, 4, 0.9
SHAPE = Architecture(memory_size=6, hidden=(7,))
LENGTHS, TIME = (4, 2), 6
LAYOUTS = [pytest.param(False, id="separate"), pytest.param(True, id="shared")]


def drawn(model: Any, seed: int) -> Any:
    """The model with weights drawn by NumPy, biases included."""
    rng = np.random.default_rng(seed)
    arrays, static = eqx.partition(model, eqx.is_array)
    arrays = jax.tree.map(lambda leaf: jnp.asarray(0.6 * rng.normal(size=leaf.shape), jnp.float32), arrays)
    return eqx.combine(arrays, static)


def networks(name: str, shared: bool, seed: int) -> QNetworks:
    reads, key, seen = VARIANTS[name][0], jax.random.key(0), Discrete(O, blank=shared)

    def make() -> QNetworks:
        actor = Actor(key, Discrete(A), seen, SHAPE, Greedy(A))
        if not reads:
            return QNetworks(actor, None)
        return QNetworks(
            actor, Critic(key, Discrete(A), seen, Discrete(S), reads, replace(SHAPE, shared_memory=shared), A)
        )

    shapes = eqx.filter_eval_shape(make)
    arrays, static = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), arrays)
    return drawn(eqx.combine(zeros, static), seed)


def reference(name: str, shared: bool, online: QNetworks, target: QNetworks) -> QLearner:
    def both(nets: QNetworks) -> list[Any]:
        return [weights_of(nets.history), {} if nets.privileged is None else weights_of(nets.privileged)]

    network = Network("h", None, A, O - 1 if shared else None)
    return QLearner(name, shared, network, *both(online), *both(target))


def episodes() -> list[Episode]:
    rng = np.random.default_rng(5)
    return [
        Episode(
            np.array([O - 1, *rng.integers(O - 1, size=T)]),
            rng.integers(S, size=T + 1),
            rng.integers(A, size=T),
            rng.normal(size=T).astype(np.float32).astype(np.float64),
            truncated,
        )
        for T, truncated in zip(LENGTHS, (True, False), strict=True)
    ]


def training_batch(given: list[Episode], *, last: bool) -> TrainingBatch:
    """The same as arrays, filled up with numbers that must not matter; with one more observation if `last`."""
    rng = np.random.default_rng(9)

    def rows(part: str, length: int, n: int) -> Any:
        columns = [getattr(episode, part)[:length] for episode in given]
        filled = [np.append(column, rng.integers(n, size=length - len(column))) for column in columns]
        return np.stack(filled, axis=1)

    actions, seen = rows("actions", TIME, A).astype(np.int32), TIME + last
    before = np.concatenate([np.full((1, len(given)), NO_ACTION, np.int32), actions])[:seen]
    lengths = np.array([len(episode.actions) for episode in given], np.int32)
    parts = {
        "before": before,
        "observations": rows("observations", seen, O).astype(np.int32),
        "signal": rows("signals", seen, S).astype(np.int32),
        "actions": actions,
        "rewards": rows("rewards", TIME, 3).astype(np.float32),
        "features": np.zeros((TIME, len(given), 0), np.float32),
        "valid": np.arange(TIME)[:, None] < lengths[None],
        "lengths": lengths,
        "truncated": np.array([episode.truncated for episode in given]),
    }
    return TrainingBatch(**{name: jnp.asarray(part) for name, part in parts.items()})


@functools.cache
def gradient(name: str, shared: bool, last: bool) -> tuple[QLosses, QNetworks]:
    """Of the networks that are drawn with 1, towards targets that are drawn with 2."""
    _, short, reduced = VARIANTS[name]

    @eqx.filter_jit
    def compute(online: QNetworks, target: QNetworks, data: TrainingBatch) -> Any:
        how = {"bootstrap_truncated": last, "halved": shared}
        return q_gradient(online, target, data, Variant(short, reduced), DISCOUNT, **how)

    return compute(networks(name, shared, 1), networks(name, shared, 2), training_batch(episodes(), last=last))


@pytest.mark.parametrize(("shared", "last"), [(False, False), (True, True)], ids=["separate", "shared-bootstrap"])
@pytest.mark.parametrize("name", VARIANTS)
def test_losses_and_gradients_are_those_of_the_reference(name: str, shared: bool, last: bool):
    online, target = networks(name, shared, 1), networks(name, shared, 2)
    losses, found = gradient(name, shared, last)
    expected = reference(name, shared, online, target).losses(episodes(), DISCOUNT, bootstrap_truncated=last)
    np.testing.assert_allclose([losses.history, losses.privileged], expected[:2], rtol=1e-5)
    for model, weights in zip((found.history, found.privileged), expected[2:], strict=True):
        assert (model is None) == (not weights)
        if model is not None:
            for part, value in weights_of(model).items():
                np.testing.assert_allclose(value, weights[part], rtol=1e-4, atol=1e-5, err_msg=part)


@pytest.mark.parametrize(
    ("name", "last", "passes"), [("adqn-vr", False, 2), ("adqn-short", True, 2), ("adqn-state-vr", True, 0)]
)
def test_gradients_are_the_same_if_histories_are_followed_in_one_pass(
    name: str, last: bool, passes: int, monkeypatch: pytest.MonkeyPatch
):
    """As GPUs follow them: those of the networks that learn in one pass, and those of their targets."""
    apart, calls = gradient(name, False, last), []

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return sequence_together(*arguments)

    monkeypatch.setattr(q_networks, "together_on_gpus", lambda function, models: function(True, models))
    monkeypatch.setattr(q_networks, "sequence_together", counted)
    together = gradient.__wrapped__(name, False, last)
    assert len(calls) == passes
    for one, other in zip(jax.tree.leaves(apart), jax.tree.leaves(together), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shared", LAYOUTS)
@pytest.mark.parametrize("name", VARIANTS)
def test_gradients_of_the_reference_are_slopes_of_its_losses(name: str, shared: bool):
    ours = reference(name, shared, networks(name, shared, 1), networks(name, shared, 2))
    given, step = episodes(), 1e-6
    _, _, *gradients = ours.losses(given, DISCOUNT)
    rng = np.random.default_rng(0)
    weights = [ours.history, ours.privileged]
    along = [{part: rng.normal(size=value.shape) for part, value in each.items()} for each in weights]

    def total(sign: int) -> float:
        """What is minimised: the sum of the losses, or if everything is shared, their mean."""
        ours.history, ours.privileged = (
            {part: value + sign * step * along[i][part] for part, value in each.items()}
            for i, each in enumerate(weights)
        )
        history, privileged, _, _ = ours.losses(given, DISCOUNT)
        return history if name == "dqn" else (history + privileged) / (2 if shared else 1)

    slope = (total(1) - total(-1)) / (2 * step)
    expected = sum((gradients[i][part] * along[i][part]).sum() for i in (0, 1) for part in weights[i])
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


def test_the_same_regressions_have_the_same_gradients():
    """Variants that train a network alike: pairs that the authors' program has in common, too."""
    found = {name: gradient(name, False, False)[1] for name in VARIANTS if VARIANTS[name][0] == "hs"}
    pairs = {
        "privileged": [("adqn", "adqn-vr"), ("adqn-short", "adqn-short-vr")],
        "history": [("adqn", "adqn-short"), ("adqn-vr", "adqn-short-vr")],
    }
    for network, same in pairs.items():
        for one, other in same:
            a, b = (weights_of(getattr(found[each], network)) for each in (one, other))
            for part, value in a.items():
                np.testing.assert_allclose(value, b[part], rtol=1e-5, atol=1e-7)
    other = [weights_of(found[name].history)["head.0.bias"] for name in ("adqn", "adqn-vr")]
    assert not np.allclose(other[0], other[1])


def test_targets_of_three_numbers():
    """One step of each kind by hand: Q' of the history prefers action 1 at the second time."""
    of_history = jnp.asarray([[[0.0, 0.0]], [[1.0, 2.0]]])
    of_privileged = jnp.asarray([[[3.0, 4.0]], [[10.0, 20.0]]])
    rewards, goes_on = jnp.asarray([[0.5], [0.25]]), jnp.asarray([[True], [False]])

    def of(variant: Variant, privileged: Any) -> list[Any]:
        return [
            None if y is None else y[:, 0].tolist()
            for y in estimates(variant, rewards, of_history, privileged, goes_on, 0.5)
        ]

    assert of(Variant(), None) == [[1.5, 0.25], None]
    assert of(Variant(), of_privileged) == [[10.5, 0.25], [10.5, 0.25]]
    assert of(Variant(reduced=True), of_privileged) == [[[3.0, 4.0], [10.0, 20.0]], [10.5, 0.25]]
    assert of(Variant(short=True), of_privileged) == [[10.5, 0.25], [1.5, 0.25]]
    assert of(Variant(short=True, reduced=True), of_privileged) == [[[3.0, 4.0], [10.0, 20.0]], [1.5, 0.25]]


def test_an_episode_counts_the_same_whatever_its_length():
    values = jnp.asarray([[[1.0, 9.0], [3.0, 9.0]], [[1.0, 9.0], [9.0, 9.0]]])
    valid, actions = jnp.asarray([[True, True], [True, False]]), jnp.zeros((2, 2), jnp.int32)
    # (1 + 1) / 2 of the first episode and 9 / 1 of the second.
    assert regression(values, actions, jnp.zeros((2, 2)), valid) == (1 + 9) / 2
    # Over both actions: (1 + 81) / 2 at both steps of the first, (9 + 81) / 2 of the second.
    assert regression(values, actions, jnp.zeros((2, 2, 2)), valid) == (41 + 45) / 2
