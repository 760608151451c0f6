"""Actions that are vectors of indices: Gymnasium environments that have them as worlds, and worlds as environments."""

from __future__ import annotations

from types import SimpleNamespace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from asymrl.envs import Environment, VectorEnvironment
from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.envs.gymnax_world import GymnaxWorld, space_of
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
from asymrl.settings import A2CSettings
from asymrl.worlds import MultiDiscrete
from tests.envs.gym.foreign_envs import Keys, Switches
from tests.learners.small import start
from tests.worlds.dials import Dials


def test_an_environments_actions_are_counted_from_zero():
    switches, keys = from_gymnasium(Switches), from_gymnasium(Keys)
    assert switches.action_space == MultiDiscrete((3, 2))
    assert switches.action_names == ("a0", "a1")
    assert keys.action_space == MultiDiscrete((2, 2, 2, 2))
    for index in np.ndindex(3, 2):
        action = switches.act(np.array(index, np.int32))
        assert Switches.action_space.contains(action)
        assert action.tolist() == [index[0] - 1, index[1] + 5]
    np.testing.assert_array_equal(keys.act(np.array([1, 0, 0, 1])), [[1, 0], [0, 1]])
    assert Keys.action_space.contains(keys.act(np.array([1, 0, 0, 1])))


def test_it_is_learned_to_set_both():
    """Knowing nothing, one gets (1/3 + 1/2) / 2."""
    given = A2CSettings(world="switches", method="a2c-asym-hs", memory_size=8, hidden=(16,), time_limit=1, episodes=16,
                     steps=100_000, actor_rate=0.01, critic_rate=0.01, entropy_weight=0.01)  # fmt: skip
    prog = Program(given.shape(), from_gymnasium(Switches, time_limit=1))
    runs = prog.train(start(prog.world, prog.settings, [0]), stack_numbers([given]), 200)
    played = prog.collector().play(runs.actor, jax.random.key(0)[None], np.array([True]), episodes=16, greedy=True)
    assert played.actions.shape == (1, 1, 16, 2)
    assert played.rewards.mean() > 0.9


def test_a_world_is_an_environment():
    env = Environment(Dials())
    assert env.action_space == gymnasium.spaces.MultiDiscrete([3, 2])
    env.reset(seed=0, options={"state": 5})  # that is, 2 and 1
    for action, expected in (([2, 1], 1.0), ([2, 0], 0.5), ([0, 0], 0.0)):
        seen, reward, terminated, truncated, _ = env.step(np.array(action))
        assert (seen, reward, terminated) == (6, expected, False)
    assert truncated
    check_env(Environment(Dials()), skip_render_check=True)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([0, 2], r"dials: the action has 2 at \(1,\), outside 0..1"),
        ([0], r"dials: the action has shape \(1,\), expected \(2,\)"),
        ([0.0, 1.0], "dials: the action has dtype float64, expected integers"),
    ],
)
def test_an_action_outside_of_the_space_is_refused(action: list, message: str):
    env = Environment(Dials())
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(np.array(action))


def test_many_at_once():
    envs = VectorEnvironment(Dials(), 2, render_mode="ansi")
    envs.reset(options={"state": np.array([0, 3])})  # 0 and 0, 1 and 1
    _, rewards, *_ = envs.step(np.array([[0, 0], [0, 1]]))
    np.testing.assert_array_equal(rewards, [1.0, 0.5])
    texts = envs.render()
    assert texts is not None
    assert texts[1].startswith("dials, after 0, 1")
    with pytest.raises(ValueError, match=r"the action of environment 1 has 2 at \(1,\)"):
        envs.step(np.array([[0, 0], [0, 2]]))


class Doors:
    """With gymnax's functions: a grid of two doors, each to be opened or not."""

    default_params = SimpleNamespace(max_steps_in_episode=2)

    def reset_env(self, key, params):
        return jnp.zeros(1), {"open": jnp.int32(0)}

    def step_env(self, key, state, action, params):
        after = {"open": state["open"] + action[0, 0] + 2 * action[0, 1]}
        return jnp.zeros(1), after, jnp.sum(action), False, {}

    def action_space(self, params):
        return SimpleNamespace(nvec=np.array([[2, 2]]), shape=(1, 2))

    def observation_space(self, params):
        return SimpleNamespace(low=0.0, high=1.0, shape=(1,))


def test_gymnax_spaces_with_several_numbers():
    world = GymnaxWorld(Doors())
    assert world.action_space == MultiDiscrete((2, 2))
    step = world.step(jax.random.key(0), world.reset(jax.random.key(0)), jnp.asarray([0, 1]))
    assert (int(step.state.state["open"]), float(step.reward)) == (2, 1.0)
    with pytest.raises(ValueError, match="it: SimpleNamespace spaces are not supported"):
        space_of(SimpleNamespace(), "it")
