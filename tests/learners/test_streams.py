"""What critics are told along pieces of streams: at each step, and after each action."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from asymrl import theory
from asymrl.learners.learner import new_run
from asymrl.learners.signals import critic_signal
from asymrl.learners.streams import Piece, Streams, act_in_streams, follow_signal
from asymrl.worlds import make
from asymrl.worlds.finite import FiniteWorld
from tests.learners.small import tiny_ppo

LIMIT, STREAMS, STEPS = 5, 8, 7
SETTINGS = tiny_ppo(world="heaven-hell-1", method="ppo-asym-hs", time_limit=LIMIT, streams=STREAMS, rollout=STEPS)


@pytest.fixture(scope="module")
def pieces() -> tuple[FiniteWorld, list[Any]]:
    """Two pieces, the second of which goes on where the first ended."""
    env = make(SETTINGS.world, time_limit=LIMIT)
    assert isinstance(env, FiniteWorld)

    @eqx.filter_jit
    def play() -> list[Piece]:
        run, found = new_run(env, SETTINGS, 0), []
        streams = run.streams
        for key in jax.random.split(jax.random.key(1)):
            assert isinstance(streams, Streams)
            streams, piece = act_in_streams(env, run.actor, streams, key, STEPS)
            found.append(piece)
        return found

    found = jax.tree.map(np.asarray, play())
    assert found[0].terminated.any()
    assert found[0].truncated.any()
    assert not found[1].first[0].all()  # so that something has to be carried on
    return env, found


def test_beliefs_go_on_from_piece_to_piece_and_beyond_where_an_episode_is_cut_off(
    pieces: tuple[FiniteWorld, list[Any]],
):
    env, found = pieces
    pomdp, signal = env.pomdp(), critic_signal(env, tiny_ppo(world=env.name, critic_sees="belief+time"))
    carry, histories = signal.initial(STREAMS), [()] * STREAMS
    for piece in found:
        carry, told, after = follow_signal(signal, jax.random.key(2), carry, piece)
        for t in range(STEPS):
            for n in range(STREAMS):
                step = (int(piece.before[t, n]), int(piece.observations[t, n]))
                begun = () if pomdp.first_observation is None else ((None, step[1]),)
                h: Any = begun if piece.first[t, n] else (*histories[n], step)
                histories[n] = h
                np.testing.assert_allclose(told["belief"][t, n], theory.belief_of(pomdp, h), atol=1e-6)
                assert int(told["time"][t, n]) == piece.times[t, n]
                assert int(after["time"][t, n]) == piece.times[t, n] + 1
                if not piece.terminated[t, n]:
                    then = (*h, (int(piece.actions[t, n]), int(piece.next_observations[t, n])))
                    np.testing.assert_allclose(after["belief"][t, n], theory.belief_of(pomdp, then), atol=1e-6)


def test_states_after_an_action_are_those_before_a_new_episode_begins(pieces: tuple[FiniteWorld, list[Any]]):
    env, (piece, _) = pieces
    signal = critic_signal(env, SETTINGS)
    _, told, after = follow_signal(signal, jax.random.key(2), signal.initial(STREAMS), piece)
    np.testing.assert_array_equal(told, piece.states)
    goes_on = ~piece.ended[:-1]
    np.testing.assert_array_equal(after[:-1][goes_on], piece.states[1:][goes_on])
    tables = env.pomdp()
    for t, n in np.argwhere(piece.truncated):
        row = int(piece.states[t, n]) * tables.actions + int(piece.actions[t, n])
        possible = tables.next_state[tables.first[row] : tables.first[row + 1]]
        assert int(after[t, n]) in possible
