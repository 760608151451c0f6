"""An exported policy is the agent: the same probabilities through whole episodes, whatever it sees and remembers."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.envs import Environment
from asymrl.export.numpy_policy import NumpyPolicy
from asymrl.export.onnx_policy import OnnxPolicy
from asymrl.export.policy_files import PolicyFacts, save_npz, save_onnx
from asymrl.export.policy_graph import build_graph
from asymrl.export.saving import largest_difference
from asymrl.nn.agent import Actor, Architecture
from asymrl.nn.distributions import NO_ACTION
from asymrl.nn.normalised import Moments, normalised_by
from asymrl.runs.policy import ActorPolicy
from asymrl.worlds import Box, Discrete, Indices, Record, make
from tests.export.twins import TIME_LIMIT, exported, small_actor

MEMORIES = [
    ("gru", None),
    ("lstm", None),
    ("none", None),
    ("gru", 1),
    ("gru", 4),
]
# Embeddings with and without a blank row, one-hot actions with a flat vector, and an embedded grid.
WORLDS = ["heaven-hell-3", "tiger", "good-bad", "car-flag", "cleaner", "memory-four-rooms-7x7"]
ENDINGS = [".npz", ".onnx"]


def check(world: str, memory: str, window: int | None, folder: Path) -> None:
    env = make(world, time_limit=TIME_LIMIT)
    actor = small_actor(env, memory, window)
    agent = ActorPolicy(env, actor)
    for ending in ENDINGS:
        twin = exported(env, actor, folder / f"policy{ending}")
        assert largest_difference(agent, twin, episodes=2) <= 1e-5


@pytest.mark.parametrize(("memory", "window"), MEMORIES)
def test_every_memory(memory: str, window: int | None, tmp_path: Path):
    check("heaven-hell-3", memory, window, tmp_path)


@pytest.mark.parametrize("world", WORLDS[1:])
def test_every_kind_of_world(world: str, tmp_path: Path):
    check(world, "gru", None, tmp_path)


def test_normalised_observations(tmp_path: Path):
    """What was measured is a part of the file."""
    env = make("cart-pole", time_limit=TIME_LIMIT)
    shape = Architecture(memory_size=8, hidden=(8,), normalise_observations=True)
    actor = Actor(jax.random.key(0), env.action_space, env.observation_space, shape)
    moments = Moments(jnp.float32(9), jnp.asarray([0.03, 0.2]), jnp.asarray([1e-5, 0.01]))
    agent = ActorPolicy(env, normalised_by(actor, moments))
    assert largest_difference(agent, exported(env, actor, tmp_path / "other.npz"), episodes=2) > 1e-3
    for ending in ENDINGS:
        twin = exported(env, normalised_by(actor, moments), tmp_path / f"policy{ending}")
        assert largest_difference(agent, twin, episodes=2) <= 1e-5


def test_a_difference_is_found(tmp_path: Path):
    env = make("tiger", time_limit=TIME_LIMIT)
    other = exported(env, small_actor(env, seed=1), tmp_path / "policy.npz")
    assert largest_difference(ActorPolicy(env, small_actor(env)), other, episodes=1) > 1e-3


@pytest.mark.parametrize(("memory", "window"), [("gru", None), ("lstm", 3)])
def test_steps_agree_with_the_whole_sequence_that_learning_sees(memory: str, window: int | None, tmp_path: Path):
    env = make("car-flag", time_limit=TIME_LIMIT)
    actor = small_actor(env, memory, window)
    twin = exported(env, actor, tmp_path / "policy.npz")
    twin.generator = np.random.default_rng(0)
    game = Environment(env)
    observation, _ = game.reset(seed=4)
    seen, before, shares = [], [], []
    for _ in range(TIME_LIMIT):
        seen.append(observation)
        before.append(twin.previous_action)
        memory_before = dict(twin._memory)
        shares.append(twin.observe(observation))
        twin._memory = memory_before  # as if it had not looked
        observation, *_ = game.step(twin.act(observation))
    features = actor.history.sequence(jnp.asarray(before)[:, None], jnp.asarray(np.array(seen))[:, None])
    expected = jax.nn.softmax(actor.head(features))[:, 0]
    assert before[0] == NO_ACTION
    np.testing.assert_allclose(np.array(shares), expected, atol=1e-5)


@pytest.mark.parametrize("ending", ENDINGS)
def test_observations_made_of_parts(ending: str, tmp_path: Path):
    """A record of an index, an array of indices, floats, and a record within it."""
    inner = Record((("z", Box((2,))), ("a", Discrete(4))))
    space = Record((("where", Indices(5, (2, 2))), ("speed", Box((3,))), ("inner", inner), ("word", Discrete(3, True))))
    actor = Actor(jax.random.key(0), Discrete(3), space, Architecture("gru", 8, hidden=(8,)))
    path = tmp_path / f"policy{ending}"
    graph = build_graph(actor, space)
    (save_npz if ending == ".npz" else save_onnx)(path, graph, PolicyFacts("parts", "a2c", ("x", "y", "z"), {}, 0))
    twin = (NumpyPolicy if ending == ".npz" else OnnxPolicy)(path)
    generator = np.random.default_rng(0)
    carry, before = actor.history.memory.initial(1), NO_ACTION
    for _ in range(5):
        seen = {
            "where": generator.integers(5, size=(2, 2)).astype(np.uint8),
            "speed": generator.normal(size=3).astype(np.float32),
            "inner": {"z": generator.normal(size=2).astype(np.float32), "a": np.int64(generator.integers(4))},
            "word": np.int64(generator.integers(3)),
        }
        batched = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], seen)
        carry, _, logits = actor.step(carry, jnp.array([before]), batched)
        np.testing.assert_allclose(twin.observe(seen), jax.nn.softmax(logits)[0], atol=1e-5)
        before = twin.previous_action = int(generator.integers(3))


def test_onnx_plays_episodes_side_by_side(tmp_path: Path):
    import onnxruntime

    env = make("heaven-hell-3", time_limit=TIME_LIMIT)
    for memory in ("gru", "lstm"):
        alone = exported(env, small_actor(env, memory), tmp_path / "policy.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
        seen = np.array([[15, 1, 2, 3], [15, 11, 12, 14], [15, 0, 0, 1]])  # [episode, time]
        actions = np.array([[-1, 0, 0, 0], [-1, 1, 2, 2], [-1, 3, 3, 0]])
        state = {name: np.zeros((3, *shape), np.float32) for name, shape in alone.about["memory"]}
        names = ["probabilities", *(f"next_{name}" for name in state)]
        together = np.zeros((3, 4))
        for t in range(4):
            inputs = {"observation": seen[:, t], "previous_action": actions[:, t], **state}
            shares, *after = map(np.asarray, session.run(names, inputs))
            state = dict(zip(state, after, strict=True))
            together = shares
        for e in range(3):
            alone.reset()
            for t in range(3):
                alone.previous_action = int(actions[e, t])
                alone.observe(seen[e, t])
            alone.previous_action = int(actions[e, 3])
            np.testing.assert_allclose(together[e], alone.observe(seen[e, 3]), atol=1e-6)
