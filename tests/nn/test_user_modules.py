"""Modules of the user's own for observations, states and memories."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.export.policy_graph import build_graph
from asymrl.nn.agent import Actor, Critic
from asymrl.nn.architecture import Architecture
from asymrl.nn.user_modules import UserFeatures, UserMemory
from asymrl.worlds.spaces import Box, Discrete, Image, Record
from tests.nn.memories import inputs

SPACE = Record((("place", Box((2,))), ("sign", Discrete(3))))
UNSEEN = {"secret": jnp.zeros((4, 5, 7))}


class Mixed(eqx.Module):
    """Two numbers and a sign as one vector."""

    table: jax.Array
    layer: eqx.nn.MLP  # holds functions, too

    def __init__(self, space: Any, key: Any):
        assert space == SPACE
        self.table = jax.random.normal(key, (3, 2))
        self.layer = eqx.nn.MLP(2, 3, 4, 1, key=key)

    def __call__(self, value: Any) -> Any:
        assert set(value) == {"place", "sign"}
        return jnp.concatenate([self.layer(value["place"]), self.table[value["sign"]]])


class Counting(eqx.Module):
    """How many inputs there were, the last one, and their sum: a state with parts of several shapes."""

    weight: jax.Array

    def __init__(self, size: int, key: Any):
        self.weight = jax.random.normal(key, (size,))

    def initial(self) -> Any:
        return {"count": jnp.zeros(()), "both": jnp.zeros((2, *self.weight.shape))}

    def step(self, state: Any, x: Any) -> Any:
        count = state["count"] + 1
        both = jnp.stack([x, state["both"][1] + x])
        return {"count": count, "both": both}, self.weight * both[1] / count


def shape_of(**more: Any) -> Architecture:
    classes = {"a.py:Mixed": Mixed, "a.py:Counting": Counting}
    return Architecture(memory_size=6, hidden=(4,), load=lambda what, name: classes[name], **more)


def test_features_are_those_of_each_value_alone():
    features = UserFeatures(jax.random.key(0), SPACE, Mixed, "a.py:Mixed")
    assert features.size == 5
    rng = np.random.default_rng(0)
    value = {"place": jnp.asarray(rng.normal(size=(4, 5, 2)), jnp.float32), "sign": jnp.ones((4, 5), jnp.int32)}
    found = features(value | UNSEEN)  # what is not in the space does not reach the module
    assert found.shape == (4, 5, 5)
    module = Mixed(SPACE, jax.random.key(0))
    alone = module({name: part[2, 3] for name, part in value.items()})
    np.testing.assert_allclose(found[2, 3], alone, rtol=1e-5)
    gradient = eqx.filter_grad(lambda features: jnp.sum(features(value)))(features)
    assert np.abs(gradient.arrays.table).max() > 0


def test_ways_to_use_a_memory_agree():
    """Step by step, over whole episodes, and over streams in which an episode begins in the middle."""
    memory = UserMemory(jax.random.key(0), 3, 6, Counting, "a.py:Counting")
    xs = jax.random.normal(jax.random.key(1), (5, 2, 3))
    whole = inputs.sequence(memory, xs)
    carry, steps = memory.initial(2), []
    for x in xs:
        carry, features = inputs.step(memory, carry, x)
        steps.append(features)
    np.testing.assert_allclose(whole, jnp.stack(steps), rtol=1e-5, atol=1e-6)
    first = jnp.asarray([[True, False], [False, False], [False, True], [False, False], [False, False]])
    _, streams = memory.follow_from(memory.begin_streams(2), first, inputs.project(memory, xs))
    np.testing.assert_allclose(streams[:, 0], whole[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(streams[2:, 1], inputs.sequence(memory, xs[2:])[:, 1], rtol=1e-5, atol=1e-6)
    x = np.asarray(inputs.project(memory, xs), np.float64)
    expected = np.asarray(memory.arrays.weight) * x.cumsum(0) / np.arange(1, 6)[:, None, None]
    np.testing.assert_allclose(whole, expected, rtol=1e-4, atol=1e-5)


def test_actor_and_critic_are_built_of_them():
    shape = shape_of(observation_features="a.py:Mixed", memory="a.py:Counting", state_features="a.py:Mixed")
    actor = Actor(jax.random.key(0), Discrete(2), SPACE, shape)
    assert isinstance(actor.history.phi_o, UserFeatures)
    assert isinstance(actor.history.memory, UserMemory)
    assert actor.history.seen_parts == ("place", "sign")
    critic = Critic(jax.random.key(1), Discrete(2), SPACE, SPACE, "hs", shape)
    seen = {"place": jnp.ones((3, 1, 2)), "sign": jnp.zeros((3, 1), jnp.int32)}
    assert critic(jnp.zeros((3, 1), jnp.int32), seen, seen).shape == (3, 1)
    assert [part.name for part in build_graph(actor, SPACE).parts] == ["observation/place", "observation/sign"]


def test_names_that_are_neither_a_memory_nor_a_class_are_refused():
    for name in ("gruu", "gru:lstm"):
        with pytest.raises(ValueError, match=f"memory '{name}' is not one of gru, lstm, none"):
            Architecture(name)
    with pytest.raises(ValueError, match=r"observation_features 'Waves': write FILE\.py:CLASS"):
        Architecture(observation_features="Waves")


class Numpy(Mixed):
    constant: Any

    def __init__(self, space: Any, key: Any):
        super().__init__(space, key)
        self.constant = np.ones(3)


class Whole(Mixed):
    steps: Any

    def __init__(self, space: Any, key: Any):
        super().__init__(space, key)
        self.steps = jnp.arange(3)


class Square(Mixed):
    def __call__(self, value: Any) -> Any:
        return jnp.ones((2, 2))


class Failing(Mixed):
    def __call__(self, value: Any) -> Any:
        return value["nothing"]


class Forgetful(Counting):
    def step(self, state: Any, x: Any) -> Any:
        return state["count"], x


class Narrow(Counting):
    def step(self, state: Any, x: Any) -> Any:
        return state, x[:2]


@pytest.mark.parametrize(
    ("made_by", "message"),
    [
        (Numpy, r"f\.py:X: constant is an array of NumPy"),
        (Whole, "f.py:X: steps is an array of int32, and only floats are learned"),
        (Square, r"f.py:X: __call__ gives float32\[2, 2\], expected a vector of floats"),
        (Failing, "f.py:X: __call__ fails: KeyError: 'nothing'"),
        (lambda space: None, "f.py:X: cannot be made from Record and a key: TypeError"),
        (lambda space, key: jnp.sin, "f.py:X: "),
    ],
)
def test_features_that_do_not_fit_are_refused_in_a_line(made_by: Any, message: str):
    with pytest.raises(ValueError, match=message) as caught:
        UserFeatures(jax.random.key(0), SPACE, made_by, "f.py:X")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("made_by", "message"),
    [
        (Forgetful, "step gives another kind of state than initial"),
        (Narrow, r"step gives features float32\[2\], expected 6 numbers"),
        (lambda size, key: Mixed(SPACE, key), "f.py:X: a memory needs the method initial"),
    ],
)
def test_memories_that_do_not_fit_are_refused_in_a_line(made_by: Any, message: str):
    with pytest.raises(ValueError, match=message):
        UserMemory(jax.random.key(0), 3, 6, made_by, "f.py:X")


def test_pictures_are_bytes_for_a_module_of_the_user():
    space = Image(shape=(4, 5, 3))

    class Mean(eqx.Module):
        def __init__(self, space: Any, key: Any):
            pass

        def __call__(self, value: Any) -> Any:
            assert value.dtype == jnp.uint8
            return value.astype(jnp.float32).mean((0, 1))

    features = UserFeatures(jax.random.key(0), space, Mean, "f.py:Mean")
    np.testing.assert_allclose(features(jnp.full((2, 4, 5, 3), 7, jnp.uint8)), np.full((2, 3), 7.0))


def test_attention_as_a_memory_of_a_user():
    """The example: each step weighs all steps of its episode so far, and nothing else."""
    path = Path(__file__).parents[2] / "examples" / "attention_memory.py"
    memory = UserMemory(jax.random.key(0), 3, 6, runpy.run_path(str(path))["Attention"], "a.py:Attention")
    xs = jax.random.normal(jax.random.key(1), (5, 2, 3))
    found, module = inputs.sequence(memory, xs), memory.module
    x = np.asarray(inputs.project(memory, xs), np.float64)[:, 0]
    queries, keys, values = (x @ np.asarray(weight) for weight in (module.queries, module.keys, module.values))
    for t in range(5):
        scores = np.exp(keys[: t + 1] @ queries[t] / 6**0.5)
        attended = scores @ values[: t + 1] / scores.sum()
        expected = np.maximum(np.maximum(attended, 0) @ np.asarray(module.out), 0)
        np.testing.assert_allclose(found[t, 0], expected, rtol=1e-4, atol=1e-5)
