"""Each method, trained on problems whose values and best actions are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
from asymrl.nn.distributions import NO_ACTION
from asymrl.settings.methods import PAPER_METHODS, method
from tests.learners import probes
from tests.learners.probes import ACTIONS, LATER, LEFT, LUCKY, NOW, SEEN, UNLUCKY, VALUES
from tests.learners.small import member, start, tiny

SEEDS = (0, 1)


class Trained(NamedTuple):
    """Values and policy in each state of the probes, `[run, state]` and `[run, state, action]`."""

    method: str
    values: np.ndarray
    policy: np.ndarray


@pytest.fixture(scope="module", params=[*PAPER_METHODS[:-1], pytest.param(PAPER_METHODS[-1], marks=pytest.mark.slow)])
def trained(request: pytest.FixtureRequest) -> Trained:
    world = probes.probes()
    settings = tiny(
        method=request.param,
        world="probes",
        time_limit=probes.TIME_LIMIT,
        discount=probes.DISCOUNT,
        episodes=32,
        hidden=(16,),
        steps=200_000,
        actor_rate=1e-2,
        critic_rate=1e-2,
        entropy_weight=0.1,  # keeps both actions in use where neither is better
        entropy_schedule="constant",
        target_period=1,
    )
    program, runs = Program(settings, world), start(world, settings, SEEDS)
    slower = replace(settings, actor_rate=1e-3, critic_rate=1e-3)
    for stage, updates in ((settings, 200), (slower, 100)):
        runs = program.train(runs, stack_numbers([stage] * len(SEEDS)), updates)
    readings = [read(member(runs, i)) for i in range(len(SEEDS))]
    return Trained(request.param, *(np.stack(parts) for parts in zip(*readings, strict=True)))


def read(run: Any) -> tuple[np.ndarray, np.ndarray]:
    """What a run thinks of each state: after the first observation, or for NOW, after LATER and going LEFT."""
    states = np.arange(len(SEEN))
    first = np.where(states == NOW, LATER, states)
    signals = jnp.asarray(np.stack([first, states]), jnp.int32)
    seen = jnp.asarray(np.array(SEEN)[np.stack([first, states])], jnp.int32)
    before = jnp.asarray(np.stack([np.full_like(states, NO_ACTION), np.full_like(states, LEFT)]), jnp.int32)
    time = np.where(states == NOW, 1, 0)
    values = run.critic(before, seen, signals)
    policy = jax.nn.softmax(run.actor.head(run.actor.history.sequence(before, seen)))
    return np.asarray(values)[time, states], np.asarray(policy)[time, states]


def test_values_are_the_known_ones(trained: Trained):
    open_to_all = np.setdiff1d(np.arange(len(SEEN)), [LUCKY, UNLUCKY])
    known = np.tile(np.array(VALUES)[open_to_all], (len(SEEDS), 1))
    np.testing.assert_allclose(trained.values[:, open_to_all], known, atol=0.05)


def test_only_critics_that_read_the_state_know_what_is_hidden(trained: Trained):
    values = trained.values[:, [LUCKY, UNLUCKY]]
    if "s" in method(trained.method).reads:
        np.testing.assert_allclose(values, [[1.0, -1.0]] * len(SEEDS), atol=0.05)
    else:
        # One history, so one value: the mean of a coin, as far as the last episodes tell.
        np.testing.assert_array_equal(values[:, 0], values[:, 1])
        assert np.abs(values).max() < 0.3


def test_actions_are_the_right_ones(trained: Trained):
    for state, action in ACTIONS.items():
        assert (trained.policy[:, state, action] > 0.95).all(), f"state {state}: {trained.policy[:, state]}"
