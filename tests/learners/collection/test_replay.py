"""The replay against a list of episodes, from which the oldest are taken while there are too many steps."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from asymrl.learners.episodes import Episodes
from asymrl.learners.replay import Replay, ReplayLayout, finite_rewards, smallest_type
from asymrl.worlds.registry import make
from asymrl.worlds.world import World
from tests.learners.probes import REWARDS, SEEN, probes

LIMIT, CAPACITY, DRAWN = 5, 17, 300


class Past(NamedTuple):
    """What the list holds of an episode."""

    observations: tuple[int, ...]
    states: tuple[int, ...]
    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    truncated: bool


WORLD = probes().with_time_limit(LIMIT)
LAYOUTS = {last: ReplayLayout(WORLD, CAPACITY, with_states=True, with_last=last) for last in (False, True)}


def _add(last: bool) -> Any:
    return jax.jit(LAYOUTS[last].add)


ADD = {last: _add(last) for last in LAYOUTS}
DRAW = {last: jax.jit(lambda key, replay, last=last: LAYOUTS[last].draw(key, replay, DRAWN)) for last in LAYOUTS}


def random_episode(rng: np.random.Generator, length: int, *, last: bool) -> tuple[Past, Episodes]:
    """An episode as the list has it, and as a roll-out gives it: with anything behind its end."""
    states = rng.integers(len(SEEN), size=LIMIT + 4)
    actions = rng.integers(2, size=LIMIT + 3)
    seen, rewards = np.array(SEEN)[states], np.array(REWARDS, np.float32)[states[:-1], actions]
    truncated = bool(rng.integers(2))
    rows = length + last
    past = Past(
        tuple(seen[:rows].tolist()),
        tuple(states[:rows].tolist()),
        tuple(actions[:length].tolist()),
        tuple(rewards[:length].tolist()),
        truncated and last,
    )
    seen, states, actions, rewards = (jnp.asarray(part)[:, None] for part in (seen, states, actions, rewards))
    lengths, cut = jnp.asarray([length], jnp.int32), jnp.asarray([truncated])
    return past, Episodes(seen, states, actions, rewards, jnp.zeros((LIMIT, 1, 0)), lengths, cut)


def read(drawn: Episodes, i: int, *, last: bool) -> Past:
    length = int(drawn.lengths[i])
    parts = (drawn.observations, drawn.states, drawn.actions, drawn.rewards)
    rows = [np.asarray(part)[: length + (last if k < 2 else 0), i].tolist() for k, part in enumerate(parts)]
    return Past(*map(tuple, rows), truncated=bool(drawn.truncated[i]))


def fill(seed: int, steps: list[tuple[int, bool]], *, last: bool) -> tuple[list[Past], Replay]:
    """The list and the replay after episodes of these lengths, where those that were not wanted are left out."""
    rng, pasts, replay = np.random.default_rng(seed), [], LAYOUTS[last].empty()
    for length, wanted in steps:
        past, episodes = random_episode(rng, length, last=last)
        replay = ADD[last](replay, episodes, jnp.bool_(wanted))
        if wanted:
            pasts.append(past)
            while sum(len(each.observations) for each in pasts) > CAPACITY:
                pasts.pop(0)
    return pasts, replay


episodes_to_add = st.lists(st.tuples(st.integers(1, LIMIT), st.booleans()), max_size=40)


@settings(max_examples=20)
@given(episodes_to_add, st.integers(0, 2**20), st.booleans())
def test_holds_the_episodes_that_a_list_would(steps: list[tuple[int, bool]], seed: int, last: bool):
    pasts, replay = fill(seed, steps, last=last)
    assert int(replay.episodes) == len(pasts)
    assert int(replay.rows) == sum(len(past.observations) for past in pasts)
    if pasts:
        drawn = DRAW[last](jax.random.key(seed), replay)
        # So many draws from at most 17 episodes miss none, but for one time in 10^6.
        assert {read(drawn, i, last=last) for i in range(DRAWN)} == set(pasts)


def test_every_episode_is_as_likely_as_any_other_whatever_its_length():
    pasts, replay = fill(3, [(5, True), (1, True), (4, True), (1, True)], last=False)
    drawn = DRAW[False](jax.random.key(0), replay)
    counts = Counter(read(drawn, i, last=False) for i in range(DRAWN))
    assert len(set(pasts)) == 4
    # The standard deviation of each count is 7.5.
    np.testing.assert_allclose([counts[past] for past in pasts], DRAWN / 4, atol=30)


def test_after_the_end_stands_the_last_step_again():
    _, replay = fill(1, [(2, True)], last=False)
    drawn = DRAW[False](jax.random.key(0), replay)
    assert drawn.observations.shape == (LIMIT + 1, DRAWN)
    assert drawn.actions.shape == drawn.rewards.shape == (LIMIT, DRAWN)
    for part in (drawn.observations, drawn.states, drawn.actions, drawn.rewards):
        np.testing.assert_array_equal(part[2:], np.broadcast_to(part[1], part[2:].shape))


def test_values_come_back_as_the_world_gave_them():
    world = make("memory-four-rooms-7x7", time_limit=3)
    layout = ReplayLayout(world, 10, with_states=True, with_last=True)
    episode, seen = jax.jit(world.begin)(jax.random.key(0))
    seen, states = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * 4)[:, None], (seen, episode.state))
    actions, rewards = jnp.asarray([[2], [0], [1]]), jnp.asarray([[0.25], [-1.5], [5.0]])
    played = Episodes(seen, states, actions, rewards, jnp.zeros((3, 1, 0)), jnp.asarray([3]), jnp.asarray([True]))
    replay = jax.jit(lambda: layout.add(layout.empty(), played, jnp.bool_(True)))()
    drawn = jax.jit(lambda: layout.draw(jax.random.key(0), replay, 1))()
    jax.tree.map(np.testing.assert_array_equal, drawn, played)
    assert replay.observations["grid"].dtype == np.uint8


@pytest.mark.parametrize(("n", "expected"), [(2, np.uint8), (256, np.uint8), (257, np.uint16), (70_000, np.int32)])
def test_the_smallest_type_that_holds_the_indices(n: int, expected: type):
    assert smallest_type(n) == expected
    assert np.array(n - 1).astype(expected) == n - 1


def test_a_step_of_a_finite_world_takes_four_bytes():
    world = make("heaven-hell-3")
    replay = jax.eval_shape(ReplayLayout(world, 1000, with_states=True, with_last=False).empty)
    each = (replay.observations, replay.latents, replay.actions, replay.rewards)
    assert [(leaf.shape, leaf.dtype) for leaf in each] == [((1000,), np.uint8)] * 4
    np.testing.assert_array_equal(finite_rewards(world), [-1, 0, 1])


def test_rewards_of_other_worlds_are_numbers():
    assert finite_rewards(make("car-flag")) is None


def test_a_replay_must_have_room_for_an_episode():
    with pytest.raises(
        ValueError, match="replay_steps is 4; an episode of 5 steps has no room in it, so give at least 5"
    ):
        ReplayLayout(WORLD, 4, with_states=False, with_last=False)


def test_states_are_kept_in_their_smaller_form():
    """The cleaner's, of 177 bytes, as they are: its critic reads 845 numbers. What is drawn is the same either way."""
    world = make("cleaner", time_limit=4)
    layout = ReplayLayout(world, 20, with_states=True, with_last=False)
    assert not layout.keeps_latents
    assert ReplayLayout(make("heaven-hell-3"), 100, with_states=True, with_last=False).keeps_latents
    episodes = _cleaner_episode(world)
    replay = layout.add(layout.empty(), episodes, jnp.bool_(True))
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(replay.latents))
    assert size == 20 * 177
    drawn = layout.draw(jax.random.key(0), replay, 1)
    latents = [jax.vmap(jax.vmap(world.latent))(each.states)[:4] for each in (drawn, episodes)]
    np.testing.assert_array_equal(*latents)
    assert len(np.unique(latents[0][:, 0], axis=0)) > 2


def _cleaner_episode(world: World) -> Episodes:
    """An episode of four steps, in which both robots move."""
    episode, seen = world.begin(jax.random.key(1))
    states, observations, rewards, actions = [episode.state], [seen], [], []
    for action in (1, 4, 1, 4):
        episode, after = world.advance(jax.random.key(2), episode, jnp.int32(action))
        states, observations = [*states, episode.state], [*observations, after.observation]
        rewards, actions = [*rewards, after.reward], [*actions, jnp.int32(action)]
    parts = (observations, states, actions, rewards)
    seen, was, done, earned = (jax.tree.map(lambda *leaves: jnp.stack(leaves)[:, None], *part) for part in parts)
    return Episodes(seen, was, done, earned, jnp.zeros((4, 1, 0)), jnp.asarray([4]), jnp.asarray([True]))
