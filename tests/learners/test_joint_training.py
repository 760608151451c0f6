"""Training with actions that have several parts, in compiled worlds and in Gymnasium environments."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from asymrl.envs import Environment, VectorEnvironment
from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.learners.collector import play
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
from asymrl.learners.state import training_world
from asymrl.nn.agent import Actor, Critic
from asymrl.nn.architecture import Architecture
from asymrl.report.films import Film, policy_text, scenes_of
from asymrl.runs.playback import play_back
from asymrl.settings import DQNSettings, Settings
from asymrl.worlds import check
from tests.envs.gym.foreign_envs import Console
from tests.learners.small import member, tiny, tiny_ppo
from tests.worlds.control_panel import ACTIONS, ControlPanel

A2C = tiny(
    method="a2c-asym-hs", world="control-panel", time_limit=2, episodes=32, hidden=(16,), steps=100_000,
    actor_rate=1e-2, critic_rate=1e-2, entropy_weight=0.001, target_period=1,
)  # fmt: skip
PPO = tiny_ppo(
    method="ppo-asym-hs", world="control-panel", time_limit=2, streams=32, rollout=8, minibatches=2, steps=100_000,
    learning_rate=1e-2, hidden=(16,), entropy_weight=0.001, anneal=False,
)  # fmt: skip


def test_a_record_of_actions_is_a_dictionary_in_gymnasium():
    assert check(ControlPanel()).passed
    env = Environment(ControlPanel())
    with pytest.warns(UserWarning, match="symmetric and normalized"):  # it has nothing else to complain about
        check_env(env, skip_render_check=True)
    env.reset(seed=0, options={"state": 3})
    _, reward, *_ = env.step({"amount": np.array([3.0], np.float32), "knob": 1})
    assert reward == 1.0
    with pytest.raises(ValueError, match=r"the action 'amount' has 9.0 at \(0,\), outside \[0, 4\]"):
        env.step({"amount": np.array([9.0], np.float32), "knob": 1})
    envs = VectorEnvironment(ControlPanel(), 2)
    envs.reset(seed=0, options={"state": np.array([3, 0])})
    actions = {"amount": np.array([[3.0], [2.0]], np.float32), "knob": np.array([1, 0])}
    np.testing.assert_allclose(envs.step(actions)[1], [1.0, 0.5])
    with pytest.raises(ValueError, match="the action of environment 1 'knob' is 2, outside"):
        envs.step({**actions, "knob": np.array([0, 2])})


def test_dqn_says_that_it_needs_a_list_of_actions():
    settings = DQNSettings(world="control-panel", time_limit=2, method="adqn")
    with pytest.raises(
        ValueError, match="needs a list of actions in control-panel, but its actions have several parts"
    ):
        training_world(settings, ControlPanel())


def test_people_see_the_units_of_the_environment():
    """In a Gymnasium environment with actions of every kind: numbers in its units, indices that begin where it says."""
    env = from_gymnasium(Console, time_limit=2)
    assert env.action_names == (  # Gymnasium sorts the parts by name
        *("dials.0", "dials.1", "gear", "levers.0.0", "levers.0.1"),
        *("levers.1.0", "levers.1.1", "wheels.0", "wheels.1"),
    )
    shape = Architecture(memory_size=4, hidden=(4,))
    actor = Actor(jax.random.key(0), env.action_space, env.observation_space, shape)
    actor = eqx.tree_at(lambda a: a.log_spread, actor, jnp.full(4, 3.0))  # wide: most numbers lie outside
    settings = tiny(method="a2c", world="console", time_limit=2, memory_size=4, hidden=(4,))
    critic = Critic(jax.random.key(1), env.action_space, env.observation_space, env.latent_space, "h", shape)
    played = play_back(env, settings, actor, critic, seed=1)
    taken = env.act(played.taken(0))
    assert env.make().action_space.contains(taken)
    assert np.abs(played.actions[0, 5:]).max() > 1
    text = list(Film(env, "console", scenes_of(played), played).lines())
    gear, (left, right) = taken["gear"], np.ravel(taken["wheels"])
    for moment in (text[0].split("takes ")[1], text[1].split("after ")[1]):
        assert f" gear {gear}, levers (" in moment
        assert f"), wheels {left:.3g} {right:.3g}\n" in moment
    half = np.exp(3.0) * np.array([5.0, 5.0, 2.0, 5.0])
    described = policy_text(played, env.action_names, 0)
    assert all(f"± {number:.3g}" in described for number in half)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [A2C, PPO])
def test_both_parts_are_learned_from_memory(settings: Settings):
    """The best return is 2; the best single pair of knob and amount gets 0 at each of two steps."""
    env, program = ControlPanel(), Program(settings, ControlPanel())
    runs = program.train(program.start([0, 1]), stack_numbers([settings] * 2), 250)
    keys, everyone = jax.random.split(jax.random.key(0), 2), jnp.ones(2, bool)
    played = play(env, runs.actor, keys, everyone, episodes=32, greedy=True)
    assert float(np.asarray(played.rewards).sum(0).mean()) > 1.5
    episode = play_back(env, settings, member(runs, 0).actor, member(runs, 0).critic, greedy=True)
    assert ACTIONS.problem(episode.taken(0)) is None


@pytest.mark.slow
@pytest.mark.parametrize(("stepping", "learner"), [("in-turn", tiny_ppo), ("in-turn", tiny), ("processes", tiny)])
def test_every_kind_of_action_is_learned_in_gymnasium(stepping: Any, learner: Any):
    env = from_gymnasium(Console, time_limit=4, stepping=stepping)
    more: dict[str, Any] = {"method": "a2c-asym-hs", "episodes": 16, "actor_rate": 3e-3, "target_period": 1}
    if learner is tiny_ppo:
        more = {"method": "ppo-asym-hs", "streams": 16, "rollout": 4, "learning_rate": 3e-3}
    settings = learner(world="console", time_limit=4, steps=100_000, entropy_weight=0.001, **more)
    program = Program(settings, env)
    trainer = program.open(1, jax.local_devices()[0])
    runs, returns = program.start([0]), []
    for updates in (5, 3 if stepping == "processes" else 150):
        runs = trainer.train(runs, stack_numbers([settings]), updates)
        returns.append(float(np.mean(np.asarray(runs.recent_returns))))
    trainer.close()
    assert np.isfinite(returns).all()
    assert stepping == "processes" or returns[1] > returns[0] + 1.0
