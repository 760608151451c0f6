"""PPO in worlds of every kind: the probes, environments that run in Python, vectors of actions, and other critics."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.learners.learner import new_run
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
from asymrl.learners.state import training_world
from asymrl.settings import PPOSettings
from asymrl.settings.methods import PPO_METHODS, method
from asymrl.worlds.stepped_world import SteppedWorld
from tests.envs.gym.foreign_envs import Aim
from tests.learners import probes
from tests.learners.probes import ACTIONS, LUCKY, SEEN, UNLUCKY, VALUES
from tests.learners.small import assert_same, member, tiny_ppo
from tests.learners.test_probes import read
from tests.worlds.dials import Dials

LIMIT = 11


SLOW_PROBES = [pytest.param(name, marks=pytest.mark.slow) for name in PPO_METHODS if name != "ppo-asym-hs"]


@pytest.mark.parametrize("name", ["ppo-asym-hs", *SLOW_PROBES])
def test_the_probes(name: str):
    """Known values and best actions: see `probes`."""
    world, seeds = probes.probes(), (0, 1)
    settings = tiny_ppo(
        hidden=(16,),
        time_limit=probes.TIME_LIMIT,
        steps=64 * 2 * 300,
        method=name,
        world="probes",
        discount=probes.DISCOUNT,
        streams=64,
        rollout=2,
        epochs=2,
        minibatches=1,
        learning_rate=2e-2,
        clip_norm=None,
        normalise_advantages=False,
        clip_values=False,
        value_weight=1.0,
        entropy_weight=0.02,
    )
    program = Program(settings, world)
    runs = program.train(program.start(seeds), stack_numbers([settings] * len(seeds)), 300)
    values, policy = (np.stack(parts) for parts in zip(*(read(member(runs, i)) for i in seeds), strict=True))
    for state, action in ACTIONS.items():
        assert (policy[:, state, action] > 0.9).all(), f"state {state}: {policy[:, state]}"
    secret = [LUCKY, UNLUCKY]
    open_to_all = np.setdiff1d(np.arange(len(SEEN)), secret)
    np.testing.assert_allclose(values[:, open_to_all], np.tile(np.array(VALUES)[open_to_all], (2, 1)), atol=0.15)
    if "s" in method(name).reads:
        np.testing.assert_allclose(values[:, secret], [[1.0, -1.0]] * 2, atol=0.1)
    else:
        np.testing.assert_array_equal(values[:, LUCKY], values[:, UNLUCKY])
        assert np.abs(values[:, secret]).max() < 0.5


def cart_pole() -> SteppedWorld:
    return from_gymnasium(lambda: gymnasium.make("CartPole-v1"), name="cart-pole", time_limit=LIMIT)


POLE = tiny_ppo(world="cart-pole", time_limit=LIMIT, method="ppo-asym-hs", streams=2, minibatches=1, rollout=8)


@pytest.fixture(scope="module")
def poles() -> Any:
    """Two runs after three updates, with nothing in between."""
    program, numbers = Program(POLE.shape(), cart_pole()), stack_numbers([POLE] * 2)
    return program.train(program.start([1, 2]), numbers, 3)


def test_an_interrupted_run_in_python_goes_on_bit_for_bit(poles: Any):
    """New environments play the current episodes again, from their seeds."""
    program, numbers = Program(POLE.shape(), cart_pole()), stack_numbers([POLE] * 2)
    runs = program.start([1, 2])
    for _ in range(3):
        trainer = program.open(2, jax.local_devices()[0])
        runs = trainer.train(runs, numbers, 1)
        trainer.close()
    assert np.asarray(runs.streams.episode.t).max() > 0  # pyright: ignore[reportAttributeAccessIssue]
    assert_same(runs, poles)


def test_streams_in_python_are_whole_episodes(poles: Any):
    """24 steps per stream: episodes that lasted until they were cut off or the pole fell."""
    for i in range(2):
        run = member(poles, i)
        count, running = int(run.episodes), int(np.asarray(run.streams.episode.t).sum())
        assert int(run.timesteps) == 48 == np.asarray(run.recent_lengths)[:count].sum() + running
        # Each step that a pole stands is worth 1.
        np.testing.assert_array_equal(run.recent_returns[:count], run.recent_lengths[:count])
        np.testing.assert_array_equal(run.streams.returns, run.streams.episode.t)


@pytest.mark.slow
def test_vectors_of_actions_are_learned():
    """The best point is (7, -1); a policy that stays in the middle of its box has a return of -0.41."""
    settings = tiny_ppo(
        world="aim",
        time_limit=2,
        steps=64 * 4 * 60,
        method="ppo",
        memory="none",
        streams=64,
        rollout=4,
        minibatches=2,
        learning_rate=1e-2,
        entropy_weight=0.0,
    )
    program = Program(settings.shape(), from_gymnasium(Aim, time_limit=2))
    runs = program.train(program.start([0]), stack_numbers([settings]), 60)
    assert float(np.mean(runs.recent_returns)) > -0.2


@pytest.mark.slow
def test_vectors_of_indices_are_learned():
    """Two dials are to be set as was shown at the start; chance alone sets 0.42 of them right, 1.25 in three steps."""
    settings = tiny_ppo(
        world="dials",
        time_limit=3,
        method="ppo-asym-hs",
        memory_size=16,
        hidden=(16,),
        streams=64,
        rollout=6,
        minibatches=2,
        learning_rate=1e-2,
        steps=64 * 6 * 80,
    )
    program = Program(settings, Dials())
    runs = program.train(program.start([0]), stack_numbers([settings]), 80)
    assert float(np.mean(runs.recent_returns)) > 2.0


KINDS = {
    "shared": {"shared_memory": True},
    "no memory": {"actor_memory": "none", "critic_memory": "gru"},
    "belief": {"critic_sees": "belief"},
    "sampled states": {"critic_sees": "sampled-state+time", "method": "ppo-asym-s"},
    "window": {"method": "ppo-react-2"},
    "lstm": {"memory": "lstm", "method": "ppo-asym-s"},
    "whole episodes": {"whole_episodes": 4, "method": "ppo-asym-s"},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_networks_are_trained(kind: str):
    """Two updates and then two, or four at once; every weight learns."""
    given = {"world": "heaven-hell-1", "method": "ppo-asym-hs", "rollout": 6, "epochs": 1} | KINDS[kind]
    settings = tiny_ppo(**given)
    program, numbers = Program(settings), stack_numbers([settings])
    first = jax.tree.map(np.asarray, jax.tree.leaves((program.start([0]).actor, program.start([0]).critic)))
    runs = program.train(program.start([0]), numbers, 4)
    assert not runs.failed.any()
    for old, new in zip(first, jax.tree.leaves((runs.actor, runs.critic)), strict=True):
        assert not np.array_equal(old, new)
    twice = program.train(program.train(program.start([0]), numbers, 2), numbers, 2)
    assert_same(twice, runs)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"minibatches": 3}, "minibatches is 3; it must divide streams, which is 4"),
        ({"minibatches": 3, "whole_episodes": 4}, "minibatches is 3; it must divide whole_episodes, which is 4"),
        ({"rollout": 0}, "rollout is 0; it must be a positive number"),
        ({"clip_ratio": -1.0}, "clip_ratio is -1.0; it must be a positive number"),
        ({"gae_lambda": 2.0}, "gae_lambda is 2.0; it must lie between 0 and 1"),
        (
            {"shared_memory": True, "actor_memory": "lstm"},
            "actor_memory 'lstm' and critic_memory 'gru' cannot be shared",
        ),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        PPOSettings(**wrong)


def test_a_run_is_a_run_of_ppo():
    settings = tiny_ppo(world="heaven-hell-1")
    run = new_run(training_world(settings), settings, 0)
    assert run.streams.returns.shape == (4,)  # pyright: ignore[reportAttributeAccessIssue]
