"""Memories: acting step by step and learning from whole episodes are the same function of the past."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.nn.gru import Gru
from asymrl.nn.lstm import Lstm
from asymrl.nn.memory import Feedforward, Memory, Window
from tests.nn.memories import inputs

T, E, INPUTS, SIZE = 6, 3, 5, 4


def memories() -> dict[str, Memory]:
    keys = jax.random.split(jax.random.key(0), 3)
    gru, lstm = Gru(keys[0], INPUTS, SIZE), Lstm(keys[1], INPUTS, SIZE)
    return {
        "gru": gru,
        "lstm": lstm,
        "the last 1": Window(gru, 1),
        "the last 3": Window(gru, 3),
        "the last 20": Window(lstm, 20),
        "none": Feedforward(keys[2], INPUTS, SIZE),
    }


MEMORIES = memories()
XS = jnp.asarray(np.random.default_rng(0).normal(size=(T, E, INPUTS)), jnp.float32)


@eqx.filter_jit
def sequence(memory: Memory, xs: jax.Array) -> jax.Array:
    return inputs.sequence(memory, xs)


@eqx.filter_jit
def step(memory: Memory, carry: Any, x: jax.Array) -> tuple[Any, jax.Array]:
    return inputs.step(memory, carry, x)


@pytest.fixture(params=MEMORIES)
def memory(request: pytest.FixtureRequest) -> Memory:
    return MEMORIES[request.param]


def step_by_step(memory: Memory, xs: jax.Array) -> np.ndarray:
    carry, features = memory.initial(xs.shape[1]), []
    for x in xs:
        carry, feature = step(memory, carry, x)
        features.append(np.asarray(feature))
    return np.stack(features)


def test_steps_and_sequences_agree(memory: Memory):
    features = sequence(memory, XS)
    assert features.shape == (T, E, memory.size)
    np.testing.assert_allclose(step_by_step(memory, XS), features, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_known_features_are_taken_as_they_are(name: str):
    """Given what it would compute, learning from an episode gives that back, and the same gradient."""
    memory = MEMORIES[name]

    @jax.jit
    def with_and_without(xs: jax.Array) -> Any:
        known = inputs.sequence(memory, xs)
        given = lambda xs: memory.follow(inputs.project(memory, xs), known=known)  # noqa: E731
        with_it = jax.grad(lambda xs: jnp.sum(jnp.sin(given(xs))))(xs)
        without = jax.grad(lambda xs: jnp.sum(jnp.sin(inputs.sequence(memory, xs))))(xs)
        return given(xs), with_it, without, known

    given, with_it, without, known = with_and_without(XS)
    np.testing.assert_allclose(given, known, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(with_it, without, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("t", [0, 2, T - 1])
def test_the_past_alone_counts(memory: Memory, t: int):
    """An input changes nothing before its time, nor other episodes, but its own moment."""
    features, changed = sequence(memory, XS), sequence(memory, XS.at[t, 1].add(1.0))
    np.testing.assert_array_equal(changed[:t], features[:t])
    np.testing.assert_array_equal(changed[:, [0, 2]], features[:, [0, 2]])
    assert not np.array_equal(changed[t, 1], features[t, 1])


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("inner", ["gru", "lstm"])
def test_a_window_is_a_new_memory_for_every_moment(inner: str, length: int):
    """The last inputs, with zero vectors before the first, taken in from nothing."""
    memory = MEMORIES[inner]
    padded = jnp.concatenate([jnp.zeros((length - 1, E, INPUTS)), XS])
    expected = np.stack([np.asarray(sequence(memory, padded[t : t + length]))[-1] for t in range(T)])
    np.testing.assert_allclose(sequence(Window(memory, length), XS), expected, rtol=1e-5, atol=1e-6)


def test_a_window_forgets():
    window = Window(MEMORIES["gru"], 2)
    features, changed = sequence(window, XS), sequence(window, XS.at[1].add(1.0))
    same = [t for t in range(T) if np.array_equal(features[t], changed[t])]
    assert same == [0, 3, 4, 5]


def test_lstm_by_hand():
    """One step from nothing."""
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    lstm, x = MEMORIES["lstm"], np.asarray(XS[0, 0], np.float64)
    i, _, g, o = np.split(x @ np.asarray(lstm.projection()[0], np.float64) + np.asarray(lstm.projection()[1]), 4)
    np.testing.assert_allclose(sequence(lstm, XS)[0, 0], sigmoid(o) * np.tanh(sigmoid(i) * np.tanh(g)), rtol=1e-5)
