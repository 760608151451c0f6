"""Exported policies over vectors of actions, and in other people's environments."""

from __future__ import annotations

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.envs.gymnax_world import GymnaxWorld
from asymrl.export.policy_files import actions_of
from asymrl.export.saving import largest_difference
from asymrl.nn.agent import Actor, Architecture
from asymrl.nn.distributions import Greedy
from asymrl.nn.normalised import Moments, NormalisedSymbols, normalised_by, normalised_parts
from asymrl.runs.policy import ActorPolicy
from asymrl.worlds import World, make
from asymrl.worlds.stepped_world import SteppedWorld
from tests.envs.gym.foreign_envs import Aim, Console, Guess, Keys, Medley, Switches
from tests.envs.gym.slider import Slider
from tests.export.twins import TIME_LIMIT, exported, small_actor
from tests.worlds.dials import Dials

ENDINGS = [".npz", ".onnx"]


def agent_of(env: World, memory: str = "gru") -> Actor:
    """An actor whose spreads are all different, so that none can be mistaken for another."""
    actor = small_actor(env, memory)
    if actor.log_spread is None:
        return actor
    spreads = jnp.linspace(-1.0, 0.5, actor.log_spread.size)
    return eqx.tree_at(lambda a: a.log_spread, actor, spreads)


@pytest.fixture(scope="module")
def slider() -> World:
    return GymnaxWorld(Slider(), time_limit=TIME_LIMIT)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_a_policy_over_vectors_is_the_agent(slider: World, tmp_path: Path, ending: str, memory: str):
    actor = agent_of(slider, memory)
    twin = exported(slider, actor, tmp_path / f"policy{ending}")
    assert largest_difference(ActorPolicy(slider, actor), twin, episodes=2) <= 1e-5
    other = ActorPolicy(slider, small_actor(slider, memory, seed=1))
    assert largest_difference(other, twin, episodes=1) > 1e-3


def foreign(name: str) -> SteppedWorld:
    own = {"aim": Aim, "guess": Guess, "medley": Medley, "switches": Switches, "keys": Keys}
    own |= {"console": Console}
    env = from_gymnasium(own[name], time_limit=TIME_LIMIT) if name in own else make(name, time_limit=TIME_LIMIT)
    assert isinstance(env, SteppedWorld)
    return env


# Vectors, indices that begin elsewhere than at 0, a tuple, a dictionary with symbols and pictures, and everything else.
FOREIGN = ["aim", "guess", "medley", "switches", "keys", "console", "CartPole-v1", "Pendulum-v1", "Blackjack-v1"]
FOREIGN += ["minigrid:MiniGrid-MemoryS7-v0"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_normalised_symbols(tmp_path: Path, ending: str):
    """They are one-hot in the file, with the moments that were measured."""
    env = foreign("medley")
    shape = Architecture(memory_size=8, hidden=(8,), normalise_observations=True)
    actor = Actor(jax.random.key(0), env.action_space, env.observation_space, shape)
    assert any(isinstance(part, NormalisedSymbols) for part in normalised_parts(actor))
    size = sum(part.size for part in normalised_parts(actor))
    chances = jnp.linspace(0.1, 0.9, size)
    known = normalised_by(actor, Moments(jnp.float32(9), chances, chances * (1 - chances)))
    assert largest_difference(ActorPolicy(env, known), exported(env, actor, tmp_path / "other.npz"), episodes=2) > 1e-4
    twin = exported(env, known, tmp_path / f"policy{ending}")
    assert largest_difference(ActorPolicy(env, known), twin, episodes=2) <= 1e-5


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", FOREIGN)
def test_a_policy_acts_in_a_gymnasium_environment(tmp_path: Path, ending: str, name: str):
    """In a plain loop it sees what the environment shows, gives what it takes, and does what the actor does."""
    if name.startswith("minigrid"):
        pytest.importorskip("minigrid")
    env = foreign(name)
    actor = agent_of(env)
    twin = exported(env, actor, tmp_path / f"policy{ending}")
    agent = ActorPolicy(env, actor, np.random.default_rng(0))
    assert largest_difference(agent, twin, episodes=2) <= 1e-5
    twin.generator = np.random.default_rng(0)
    game = env.make()
    taken = []
    for seed in range(3):
        for policy in (twin, agent):
            policy.reset()
        observation, _ = game.reset(seed=seed)
        for _ in range(TIME_LIMIT):
            action = twin.act(observation)
            for one, other in zip(*map(jax.tree.leaves, (action, agent.act(observation))), strict=True):
                np.testing.assert_allclose(one, other, atol=1e-5)
            assert game.action_space.contains(action)
            taken.append([np.asarray(leaf).tolist() for leaf in jax.tree.leaves(action)])
            observation, _, terminated, truncated, _ = game.step(action)
            if terminated or truncated:
                break
    assert any(each != taken[0] for each in taken)


def test_what_the_environment_shows_is_converted(tmp_path: Path):
    """The inputs of a step, worked out by hand."""
    twin = exported(foreign("medley"), agent_of(foreign("medley")), tmp_path / "policy.npz")
    parts = {
        "picture": np.full((40, 40), 51, np.uint8),
        "dials": np.array([1, 2]),
        "bits": np.array([[0, 1], [1, 1]], np.int8),
        "levels": np.array([-5, 0, 5], np.int16),
        "exact": np.array([[0.5], [-1.0]]),
        "frames": np.arange(360, dtype=np.uint8).reshape(3, 12, 10),
    }
    inputs = twin._read((6, parts))
    np.testing.assert_array_equal(inputs["observation/0"], [1])
    np.testing.assert_array_equal(inputs["observation/1/picture"], np.full((1, 40, 40, 1), 51))
    np.testing.assert_array_equal(inputs["observation/1/frames"], [parts["frames"].transpose(1, 2, 0)])
    np.testing.assert_array_equal(inputs["observation/1/dials"], [[2, 0]])
    np.testing.assert_array_equal(inputs["observation/1/bits"], [[0, 1, 1, 1]])
    np.testing.assert_array_equal(inputs["observation/1/levels"], [[0, 5, 10]])
    np.testing.assert_array_equal(inputs["observation/1/exact"], [[0.5, -1.0]])


def test_actions_are_placed_and_clipped(slider: World, tmp_path: Path):
    twin = exported(slider, agent_of(slider), tmp_path / "policy.npz")
    # The bounds are [-2, 2] and [0, 1].
    np.testing.assert_allclose(twin.to_env(np.array([0.5, 0.0])), [1.0, 0.5])
    np.testing.assert_allclose(twin.to_env(np.array([-3.0, 1.0])), [-2.0, 1.0])
    twin.actions = {"shape": [1, 2], "low": [None, 0.0], "high": [1.0, 4.0]}
    np.testing.assert_allclose(twin.to_env(np.array([-7.0, 0.5])), [[-7.0, 3.0]])  # as it is, where a bound is missing
    np.testing.assert_allclose(twin.to_env(np.array([7.0, 9.0])), [[1.0, 4.0]])


def test_the_first_action_may_have_another_number(tmp_path: Path):
    env = foreign("guess")
    assert actions_of(env) == {"first": 1}
    twin = exported(env, agent_of(env), tmp_path / "policy.npz")
    assert twin.to_env(0) == 1


def test_vectors_of_indices_take_the_form_of_the_environment(tmp_path: Path):
    switches, keys = (
        exported(env, agent_of(env), tmp_path / "policy.npz") for env in map(foreign, ("switches", "keys"))
    )
    assert switches.sizes == [3, 2]
    np.testing.assert_array_equal(switches.previous_action, [-1, -1])
    np.testing.assert_array_equal(switches.to_env([0, 1]), [-1, 6])
    np.testing.assert_array_equal(keys.to_env([0, 1, 1, 0]), [[0, 1], [1, 0]])
    assert keys.to_env([0, 1, 1, 0]).dtype == np.int8


def test_an_action_with_parts_takes_the_form_of_the_environment(tmp_path: Path):
    twin = exported(foreign("console"), agent_of(foreign("console")), tmp_path / "policy.npz")
    # Choices: two dials, gear, two bits. Numbers: two levers, two wheels. Gymnasium sorts the parts by name.
    np.testing.assert_array_equal(twin.previous_action, [-1, -1, -1, -1, -1, 0, 0, 0, 0])
    action = twin.to_env([1, 2, 2, 1, 0, 0.3, -0.3, 0.5, -9.0])
    np.testing.assert_allclose(action["wheels"], [[1.0, 0.0]])  # the second is clipped
    assert action["gear"] == 1
    np.testing.assert_array_equal(action["levers"][0], [1, 0])
    np.testing.assert_array_equal(action["levers"][1], [2, -2])  # rounded
    assert action["levers"][1].dtype == np.int16
    np.testing.assert_array_equal(action["dials"], [[5, 2]])


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_compiled_world_with_vectors_of_indices(tmp_path: Path, ending: str):
    env = Dials(time_limit=TIME_LIMIT)
    actor = agent_of(env)
    twin = exported(env, actor, tmp_path / f"policy{ending}")
    assert largest_difference(ActorPolicy(env, actor), twin, episodes=2) <= 1e-5
    assert largest_difference(ActorPolicy(env, small_actor(env, seed=1)), twin, episodes=1) > 1e-3


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_greedy_policy_gives_values_and_takes_the_best_action(tmp_path: Path, ending: str):
    env = make("tiger", time_limit=TIME_LIMIT)
    shape = Architecture(memory_size=8, hidden=(8,))
    actor = Actor(jax.random.key(0), env.action_space, env.observation_space, shape, Greedy(3))
    twin = exported(env, actor, tmp_path / f"policy{ending}")
    agent = ActorPolicy(env, actor, np.random.default_rng(0))
    assert largest_difference(agent, twin, episodes=2) <= 1e-5
    agent.reset()
    twin.reset()
    twin.generator = np.random.default_rng(1)
    values = agent.observe(2)
    assert values.sum() < 0.5  # not probabilities
    agent.reset()
    assert twin.act(2) == agent.act(2) == values.argmax()


def test_vectors_in_onnx_have_documented_names(slider: World, tmp_path: Path):
    exported(slider, agent_of(slider), tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    inputs = {each.name: (each.type, each.shape) for each in session.get_inputs()}
    assert inputs["previous_action"] == ("tensor(float)", ["episode", 2])
    assert [each.name for each in session.get_outputs()] == ["mean", "spread", "action", "next_memory/hidden"]
    given = {"observation": np.zeros((3, 1)), "previous_action": np.zeros((3, 2)), "memory/hidden": np.zeros((3, 8))}
    mean, spread, action, _ = map(
        np.asarray, session.run(None, {name: x.astype(np.float32) for name, x in given.items()})
    )
    assert mean.shape == (3, 2)
    np.testing.assert_allclose(action, np.clip(np.array([0, 0.5]) + np.array([2, 0.5]) * mean, [-2, 0], [2, 1]), 1e-5)
    np.testing.assert_allclose(spread, np.exp([[-1.0, 0.5]] * 3), rtol=1e-6)
