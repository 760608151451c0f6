"""Critics that are told other things than the state, trained on problems whose values are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.a2c import values_and_estimates
from asymrl.learners.episodes import Episodes, training_batch
from asymrl.learners.numbers import numbers_of, stack_numbers
from asymrl.learners.program import Program
from asymrl.learners.signals import critic_signal
from asymrl.nn.distributions import NO_ACTION
from asymrl.worlds import make
from tests.learners import probes
from tests.learners.collection.test_signals import E, Stream, T, stream
from tests.learners.probes import LATER, LEFT, LUCKY, NOW, SEEN, UNLUCKY, VALUES
from tests.learners.small import arrays, assert_close, member, numbers, start, tiny

MEAN = (sum(VALUES) - VALUES[NOW]) / (len(VALUES) - 1)  # over the states that an episode may begin in
COIN_UNKNOWN = tuple(0.0 if s in (LUCKY, UNLUCKY) else v for s, v in enumerate(VALUES))

# What a critic that is told this knows about each state.
KNOWN = {
    "belief": COIN_UNKNOWN,
    "sampled-state": COIN_UNKNOWN,
    "state+time": VALUES,
    "time": tuple(1.0 if s == NOW else MEAN for s in range(len(VALUES))),
}


@pytest.mark.slow
@pytest.mark.parametrize("sees", KNOWN)
def test_values_are_the_known_ones(sees: str):
    world = probes.probes()
    settings = tiny(
        method="a2c-asym-s",
        critic_sees=sees,
        world="probes",
        time_limit=probes.TIME_LIMIT,
        discount=probes.DISCOUNT,
        episodes=32,
        hidden=(16,),
        steps=200_000,
        actor_rate=1e-2,
        critic_rate=1e-2,
        entropy_schedule="constant",
        target_period=1,
    )
    program, runs = Program(settings, world), start(world, settings, [0])
    slower = replace(settings, actor_rate=1e-3, critic_rate=1e-3)
    for stage, updates in ((settings, 200), (slower, 100)):
        runs = program.train(runs, stack_numbers([stage]), updates)
    error = np.abs(values(member(runs, 0), critic_signal(world, settings)) - KNOWN[sees])
    tolerance = np.full(len(VALUES), 0.1)
    tolerance[[LUCKY, UNLUCKY]] = 0.3  # the mean of a few coins
    assert (error <= tolerance).all(), error


def values(run: Any, signal: Any) -> np.ndarray:
    """What a critic says about each state after the first observation, or for NOW, after LATER and going LEFT."""
    states = np.arange(len(SEEN))
    both = np.stack([np.where(states == NOW, LATER, states), states]).astype(np.int32)
    before = np.stack([np.full_like(states, NO_ACTION), np.full_like(states, LEFT)])
    times = np.broadcast_to(np.arange(2)[:, None], both.shape)
    steps = [jnp.asarray(x, jnp.int32) for x in (before, np.array(SEEN)[both], both, times)]
    # A sampled state is put in the place of the true one: the critic is asked about each.
    told = both if signal.random else signal.follow(None, signal.initial(len(SEEN)), jnp.asarray(times == 0), *steps)[1]
    return np.asarray(run.critic(steps[0], steps[1], told))[np.where(states == NOW, 1, 0), states]


def whole_episodes(given: Stream) -> Episodes:
    """Episodes that were cut off where the streams end, with random rewards."""
    steps = len(given.times) - 1
    rewards = jnp.asarray(np.random.default_rng(0).normal(size=(steps, E)), jnp.float32)
    return Episodes(
        observations=given.observations,
        states=given.states,
        actions=jnp.asarray(given.before[1:]),
        rewards=rewards,
        features=jnp.zeros((steps, E, 1)),
        lengths=jnp.full(E, steps),
        truncated=jnp.ones(E, bool),
    )


@pytest.mark.parametrize("bootstrap", [False, True])
def test_a_bootstrap_reads_the_state_that_is_drawn_for_the_next_value(bootstrap: bool):
    """Q = r + gamma V(s'~), where V reads the same s'~ at the next step."""
    env, given = make("tiger", time_limit=T - 1), stream(make("tiger"))
    settings = tiny(
        world="tiger",
        method="a2c-asym-s",
        critic_sees="sampled-state",
        bootstrap_truncated=bootstrap,
        time_limit=T - 1,
    )
    assert not given.first[1:].any()
    run = member(start(env, settings, [0]), 0)
    data = training_batch(env, settings, whole_episodes(given), T - 1, jax.random.key(5))
    V, q = values_and_estimates(run.critic, data, settings, numbers_of(settings))
    here = ahead = np.asarray(run.critic(data.before, data.observations, data.signal))
    if not bootstrap:
        ahead = np.concatenate([ahead, np.zeros((1, E))])
    np.testing.assert_allclose(V, here[: T - 1], atol=1e-6)
    np.testing.assert_allclose(q, data.rewards + settings.discount * ahead[1:], atol=1e-5)


@pytest.mark.slow
def test_what_is_drawn_does_not_depend_on_the_runs_in_other_lanes():
    """All readings at once: finite, and the same alone and beside another run, but for rounding.

    One run and two are compiled to other vector instructions, on some processors. Another draw would change much more.
    """
    env = make("tiger", time_limit=8)
    settings = tiny(world="tiger", critic_sees="belief+sampled-state+time")
    program = Program(settings, env)
    both, alone = (
        program.train(start(env, settings, seeds), numbers(settings, len(seeds)), 3) for seeds in ([4, 7], [7])
    )
    assert int(both.updates[1]) == 3
    assert all(np.isfinite(array).all() for array in arrays((both.actor, both.critic)))
    beside, by_itself = member(both, 1), member(alone, 0)
    np.testing.assert_array_equal(beside.recent_returns, by_itself.recent_returns)
    assert_close((beside.critic, beside.actor), (by_itself.critic, by_itself.actor), rtol=1e-4, atol=1e-6)
