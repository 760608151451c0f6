"""Worlds whose actions are vectors, as Gymnasium environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from asymrl.envs import Environment, VectorEnvironment
from asymrl.envs.gymnax_world import GymnaxWorld
from tests.envs.gym.slider import Slider


@pytest.fixture(scope="module")
def world() -> GymnaxWorld:
    return GymnaxWorld(Slider())


def test_an_action_moves_the_world_as_its_equations_say(world: GymnaxWorld):
    env = Environment(world)
    assert env.action_space == gymnasium.spaces.Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))
    env.reset(seed=0, options={"state": np.array([0.5, 0.2], np.float32)})
    seen, reward, terminated, truncated, info = env.step(np.array([-1.0, 0.5], np.float32))
    np.testing.assert_allclose(info["state"], [0.55, 0.05], rtol=1e-6)  # (0.2 - 0.1) * 0.5, then 0.5 + 0.05
    np.testing.assert_allclose(seen, [0.55], rtol=1e-6)
    assert reward == pytest.approx(-0.55)
    assert not terminated
    assert not truncated
    with pytest.warns(UserWarning, match="symmetric and normalized"):  # it has nothing else to complain about
        check_env(Environment(world), skip_render_check=True)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([0.0], r"Slider: the action has shape \(1,\), expected \(2,\)"),
        ([0.0, 1.5], r"Slider: the action has 1.5 at \(1,\), outside \[0, 1\]"),
        ([np.nan, 0.0], "not finite"),
    ],
)
def test_an_action_outside_of_the_space_is_refused(world: GymnaxWorld, action: list[float], message: str):
    env = Environment(world)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(np.array(action))


def test_many_at_once_do_what_each_does_alone(world: GymnaxWorld):
    envs, alone = VectorEnvironment(world, 2, render_mode="ansi"), [Environment(world) for _ in range(2)]
    envs.reset(seed=3)
    for i, env in enumerate(alone):
        env.reset(seed=3 + i)
    actions = np.array([[1.5, 0.9], [-0.5, 0.3]], np.float32)
    for _ in range(3):
        seen, rewards, *_ = envs.step(actions)
        for i, env in enumerate(alone):
            one, reward, *_ = env.step(actions[i])
            np.testing.assert_allclose(seen[i], one, rtol=1e-6)
            assert rewards[i] == pytest.approx(reward)
    texts = envs.render()
    assert texts is not None
    assert "1.5, 0.9" in texts[0]
    with pytest.raises(ValueError, match=r"the action of environment 1 has 3\.0"):
        envs.step(np.array([[0.0, 0.0], [3.0, 0.0]], np.float32))
    with pytest.raises(ValueError, match=r"the action of environment 0 has shape \(\), expected \(2,\)"):
        envs.step(np.zeros(2, np.float32))
