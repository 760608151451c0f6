"""Updates with a number of steps: the rounds that they play, and what they learn from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.learners import a2c
from asymrl.learners.compiled import CompiledProgram
from asymrl.learners.episodes import Episodes
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.rollout import roll_out
from asymrl.learners.rounds import Rounds, most_rounds, roll_out_rounds, round_keys
from asymrl.learners.state import keys_of
from asymrl.learners.stepped import SteppedProgram
from asymrl.settings import A2CSettings
from asymrl.worlds import make
from tests.envs.gym.foreign_envs import Guess
from tests.learners.small import arrays, assert_close, member, start

WORLD = make("cart-pole", time_limit=15)
SETTINGS = A2CSettings(
    "cart-pole", memory_size=4, hidden=(4,), time_limit=15, episodes=2, update_steps=70, steps=10_000, log_points=4
)
SEEDS = (0, 1, 2)
BY_RUN = (1, 1, 1, 1, 1, 0, 0)  # where the axis of runs is in each part of `Episodes`


def as_one_round(rounds: Rounds, run: int) -> Episodes:
    """All episodes of a run side by side, with an axis of one run."""
    count = int(rounds.wanted[:, run].sum())

    def joined(leaf: Any, axis: int) -> Any:
        parts = [jnp.take(leaf[r], jnp.asarray([run]), axis=axis) for r in range(count)]
        return jnp.concatenate(parts, axis=axis + 1)

    return Episodes(
        *(jax.tree.map(lambda leaf, i=i: joined(leaf, BY_RUN[i]), part) for i, part in enumerate(rounds.episodes))
    )


@pytest.fixture(scope="module")
def played() -> tuple[Any, Rounds]:
    runs = start(WORLD, SETTINGS, SEEDS)
    active = jnp.asarray([True, True, False])
    play = jax.jit(lambda keys: roll_out_rounds(WORLD, SETTINGS, runs.actor, keys, active))
    return runs, play(keys_of(runs))


def test_rounds_are_played_until_there_are_enough_steps(played: tuple[Any, Rounds]):
    _, rounds = played
    lengths = np.asarray(rounds.episodes.lengths).sum(axis=2)
    wanted = np.asarray(rounds.wanted)
    assert not wanted[:, 2].any(), "the third run is over"
    for run in (0, 1):
        count = int(wanted[:, run].sum())
        assert wanted[:count, run].all()
        assert lengths[:count, run].sum() >= 70 > lengths[: count - 1, run].sum()
    assert 1 < int(rounds.used()) < most_rounds(SETTINGS)


def test_a_round_is_what_its_key_makes_it(played: tuple[Any, Rounds]):
    runs, rounds = played
    again = roll_out(WORLD, runs.actor, round_keys(keys_of(runs), 1), rounds.wanted[1], episodes=2)
    at = rounds.at(jnp.int32(1))
    np.testing.assert_array_equal(at.lengths[rounds.wanted[1]], again.lengths[rounds.wanted[1]])
    np.testing.assert_array_equal(at.rewards[:, rounds.wanted[1]], again.rewards[:, rounds.wanted[1]])


def test_an_update_learns_as_from_all_episodes_at_once(played: tuple[Any, Rounds]):
    """The same episodes side by side, in one round of an update without a number of steps."""
    runs, rounds = played
    numbers = stack_numbers([SETTINGS, SETTINGS, replace(SETTINGS, steps=1)])
    runs = eqx.tree_at(lambda r: r.timesteps, runs, jnp.asarray([0, 0, 5]))  # the third run is over
    nothing = jnp.full((3, 2), jnp.nan)
    learned = jax.jit(lambda r: arrays_of(a2c.update_from(WORLD, SETTINGS, numbers, runs, r, nothing)))(rounds)
    run = 1
    episodes = as_one_round(rounds, run)
    plain = replace(SETTINGS, update_steps=None, episodes=int(episodes.lengths.shape[1]))
    one = jax.tree.map(lambda leaf: leaf[run : run + 1] if hasattr(leaf, "shape") else leaf, runs)
    settled = stack_numbers([plain]), one
    alone = jax.jit(lambda e: arrays_of(a2c.update_from(WORLD, plain, *settled, e, nothing[:1])))(episodes)
    assert_close(member(learned, run), member(alone, 0), rtol=2e-4, atol=2e-6)
    timesteps = learned[2]
    assert int(timesteps[0]) >= 70
    assert int(timesteps[2]) == 5


def arrays_of(runs: Any) -> Any:
    """What is compared: the networks and the counters."""
    return runs.actor, runs.critic, runs.timesteps, runs.episodes, runs.recent_returns


@pytest.mark.slow
@pytest.mark.parametrize("normalise", [False, True])
def test_a_run_depends_on_itself_alone_and_is_resumed(normalise: bool):
    settings = replace(SETTINGS, normalise_observations=normalise, normalise_rewards=normalise)
    program = CompiledProgram(settings, WORLD)
    numbers = stack_numbers([settings] * 3)
    together = program.train(program.start(SEEDS), numbers, 6)
    resumed = program.train(program.train(program.start(SEEDS), numbers, 2), numbers, 4)
    for one, other in zip(arrays(together), arrays(resumed), strict=True):
        np.testing.assert_array_equal(one, other)
    alone = program.train(program.start([2]), stack_numbers([settings]), 6)
    assert_close(member(together.actor, 2), member(alone.actor, 0), rtol=1e-3, atol=1e-5)
    assert (np.asarray(together.timesteps) >= 6 * 70).all()
    assert not together.failed.any()


@pytest.mark.slow
def test_environments_in_python():
    settings = A2CSettings("guess", memory_size=4, hidden=(4,), time_limit=5, episodes=2, update_steps=20, steps=1000)
    program = SteppedProgram(settings, from_gymnasium(Guess, time_limit=5))
    runs = program.train(program.start([0, 1]), stack_numbers([settings] * 2), 2)
    # Each episode has 3 steps, a round 6, an update 4 rounds.
    assert runs.timesteps.tolist() == [48, 48]
    assert runs.episodes.tolist() == [16, 16]


def test_impossible_numbers_of_steps_are_refused():
    with pytest.raises(ValueError, match="update_steps is 0"):
        A2CSettings(update_steps=0)
    assert most_rounds(replace(SETTINGS, update_steps=3)) == 2
    assert most_rounds(replace(SETTINGS, update_steps=10_000)) == 16
