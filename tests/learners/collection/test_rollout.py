"""Recorded episodes are what the world and the actor say they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.a2c import A2CState
from asymrl.learners.episodes import Episodes
from asymrl.learners.learner import learner
from asymrl.learners.program import train_once
from asymrl.learners.rollout import roll_out
from asymrl.learners.state import training_world
from asymrl.nn.distributions import NO_ACTION
from asymrl.settings.methods import PAPER_METHODS
from asymrl.worlds.builtin.heaven_hell import HeavenHell
from asymrl.worlds.builtin.rock_sample import SimulatedRockSample
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.probability_tables import Rows
from asymrl.worlds.registry import WORLDS
from asymrl.worlds.world import World
from tests.learners.small import arrays, member, numbers, start, tiny

EPISODES, TIME_LIMIT = 3, 10
EVERYDAY = ("tiger", "car-flag")
WORLDS_TO_TRY = [
    *EVERYDAY,
    *(pytest.param(world, marks=pytest.mark.slow) for world in ("heaven-hell-1", *WORLDS) if world not in EVERYDAY),
]


class Recording(NamedTuple):
    env: World
    runs: A2CState
    greedy: bool
    episodes: Episodes


@pytest.fixture(scope="module", params=WORLDS_TO_TRY)
def recording(request: pytest.FixtureRequest) -> Recording:
    """Episodes of three runs, of which the last is not active. Greedy in one world, sampled in the others."""
    settings = tiny(world=request.param, time_limit=TIME_LIMIT)
    env = training_world(settings)
    runs = start(env, settings, [0, 1, 2])
    greedy = request.param == "car-flag"
    active = jnp.asarray([True, True, False])

    @eqx.filter_jit
    def play(runs: A2CState) -> Episodes:
        return roll_out(env, runs.actor, runs.key, active, episodes=EPISODES, greedy=greedy)

    return Recording(env, runs, greedy, jax.device_get(play(runs)))


def each_episode(recording: Recording) -> list[Episodes]:
    """The episodes of the active runs, one by one, cut to their lengths."""
    return [one_episode(recording.episodes, run, i) for run in range(2) for i in range(EPISODES)]


def one_episode(recorded: Episodes, run: int, i: int) -> Episodes:
    T = int(recorded.lengths[run, i])
    return Episodes(
        observations=jax.tree.map(lambda x: x[: T + 1, run, i], recorded.observations),
        states=jax.tree.map(lambda x: x[: T + 1, run, i], recorded.states),
        actions=recorded.actions[:T, run, i],
        rewards=recorded.rewards[:T, run, i],
        features=recorded.features[:T, run, i],
        lengths=recorded.lengths[run, i],
        truncated=recorded.truncated[run, i],
    )


def test_the_world_agrees(recording: Recording):
    """Taking the recorded actions in the recorded states leads to what was recorded."""
    env = recording.env

    def replay(state: Any, action: Any, next_state: Any) -> Any:
        key = jax.random.key(0)
        return env.step(key, state, action), env.observe(key, state, action, next_state)

    for episode in each_episode(recording):
        before, after = (jax.tree.map(lambda x, s=s: x[s], episode.states) for s in (np.s_[:-1], np.s_[1:]))
        seen = jax.tree.map(lambda x: x[1:], episode.observations)
        if isinstance(env, FiniteWorld):
            S, A = env.D.shape
            going_on = ~env.D[before, episode.actions]
            # Not the dense tables, which would need gigabytes for the largest worlds.
            assert is_possible(env.transitions, before * A + episode.actions, after)[going_on].all()
            assert is_possible(env.observations, episode.actions * (S + 1) + after, seen)[going_on].all()
            np.testing.assert_array_equal(episode.rewards, env.R[before, episode.actions])
            terminated = env.D[before, episode.actions]
        else:
            (states, rewards, terminated), observations = jax.jit(jax.vmap(replay))(before, episode.actions, after)
            if isinstance(env, SimulatedRockSample):  # its sensor may say something else under another key
                observations, seen = (np.minimum(said, 1) for said in (observations, seen))
            for got, want in zip(arrays((states, observations)), arrays((after, seen)), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(episode.rewards, rewards, rtol=1e-6)
        assert not np.asarray(terminated)[:-1].any()
        assert bool(episode.truncated) == (not terminated[-1])
        assert int(episode.lengths) == TIME_LIMIT if episode.truncated else int(episode.lengths) <= TIME_LIMIT


def is_possible(rows: Rows, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Whether each row has an entry in its column."""
    entries = [rows.column[rows.first[r] : rows.first[r + 1]] for r in row]
    return np.array([c in those for those, c in zip(entries, column, strict=True)])


def test_the_actor_agrees(recording: Recording):
    """The recorded features are those of the whole history, and greedy actions the most likely ones."""
    for run in range(2):
        actor, episodes = member(recording.runs, run).actor, of_run(recording.episodes, run)
        valid = np.asarray(episodes.valid())
        before, seen = jax.tree.map(lambda x: x[:-1], (episodes.before(actor.distribution), episodes.observations))
        features = eqx.filter_jit(actor.history.sequence)(before, seen)
        np.testing.assert_allclose(episodes.features[valid], features[valid], rtol=1e-4, atol=1e-5)
        if recording.greedy:
            np.testing.assert_array_equal(episodes.actions[valid], jnp.argmax(actor.head(features), -1)[valid])


def test_nothing_counts_after_the_end_or_without_activity(recording: Recording):
    recorded = recording.episodes
    time = np.arange(recorded.rewards.shape[0])[:, None, None]
    np.testing.assert_array_equal(recorded.rewards[time >= recorded.lengths[None]], 0.0)
    np.testing.assert_array_equal(recorded.lengths[2], 0)
    assert (recorded.lengths[:2] >= 1).all()
    assert (recorded.lengths <= TIME_LIMIT).all()
    first = of_run(recorded, 0)
    np.testing.assert_allclose(first.returns(), recorded.rewards[:, 0].sum(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(first.valid().sum(axis=0), recorded.lengths[0])
    before = first.before(recording.runs.actor.distribution)
    assert (before[0] == NO_ACTION).all()
    np.testing.assert_array_equal(before[1:], recorded.actions[:, 0])


def of_run(recorded: Episodes, run: int) -> Episodes:
    """The episodes of one run. Time comes first, except in the last two parts."""
    parts = jax.tree.map(jnp.asarray, recorded)
    *timed, lengths, truncated = parts
    return Episodes._make([*jax.tree.map(lambda x: x[:, run], timed), lengths[run], truncated[run]])


def test_episodes_differ(recording: Recording):
    if recording.greedy:
        pytest.skip("greedy actors of new runs may well repeat themselves")
    episodes = each_episode(recording)
    assert len({episode.actions.tobytes() for episode in episodes}) > 1


def test_a_world_without_a_time_limit_is_refused():
    nobody: Any = None
    with pytest.raises(ValueError, match="heaven-hell-1: training needs a time limit"):
        roll_out(HeavenHell(1, time_limit=None), nobody, jax.random.key(0)[None], jnp.ones(1, bool), episodes=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "method"),
    [
        *((world, "a2c-asym-hs") for world in WORLDS),
        *((world, method) for world in ("cleaner", "memory-four-rooms-7x7") for method in PAPER_METHODS),
    ],
)
def test_worlds_and_methods_go_together(world: str, method: str):
    """One update with finite losses, after which actor and critic have moved."""
    settings = tiny(world=world, method=method, time_limit=4)
    env = training_world(settings)
    before = start(env, settings, [0])
    after = eqx.filter_jit(lambda runs: train_once(learner(env, settings.shape()), runs, numbers(settings, 1)))(before)
    assert not after.failed.any()
    assert int(after.updates[0]) == 1
    for old, new in ((before.actor, after.actor), (before.critic, after.critic)):
        assert any(not np.array_equal(a, b) for a, b in zip(arrays(old), arrays(new), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["lstm"])
def test_memories_can_be_trained(memory: str):
    settings = tiny(world="heaven-hell-1", memory=memory, time_limit=8)
    for each in (settings, replace(settings, method="a2c-react-2")):
        env = training_world(each)
        step = eqx.filter_jit(lambda runs, env=env, s=each: train_once(learner(env, s.shape()), runs, numbers(s, 1)))
        runs = step(step(start(env, each, [0])))
        assert not runs.failed.any()
        assert int(runs.updates[0]) == 2
