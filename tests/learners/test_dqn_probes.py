"""Each variant of the DQN family, trained on problems whose values are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
from asymrl.nn.distributions import NO_ACTION
from asymrl.settings import DQNSettings
from asymrl.settings.methods import DQN_METHODS
from tests.learners import probes
from tests.learners.probes import DISCOUNT, LATER, LEFT, LUCKY, NOW, REWARDS, SEEN, UNLUCKY
from tests.learners.small import member

FAST = ("adqn-vr",)
OPEN = np.setdiff1d(np.arange(len(SEEN)), [LUCKY, UNLUCKY])  # states that the history knows
# Q of the best policy: the reward, and where there is a next step, its discounted value of 1.
KNOWN = np.array(REWARDS, float)
KNOWN[LATER] += DISCOUNT


def read(run: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Both networks' values of each action in each state, seen first, or for NOW, after LATER and going LEFT."""
    states = np.arange(len(SEEN))
    first = np.where(states == NOW, LATER, states)
    signals = jnp.asarray(np.stack([first, states]), jnp.int32)
    seen = jnp.asarray(np.array(SEEN)[np.stack([first, states])], jnp.int32)
    before = jnp.asarray(np.stack([np.full_like(states, NO_ACTION), np.full_like(states, LEFT)]), jnp.int32)
    time = np.where(states == NOW, 1, 0)
    of_history, of_privileged = run.networks.values(before, seen, signals)
    privileged = None if of_privileged is None else np.asarray(of_privileged)[time, states]
    return np.asarray(of_history)[time, states], privileged


@pytest.mark.parametrize("method", [m if m in FAST else pytest.param(m, marks=pytest.mark.slow) for m in DQN_METHODS])
def test_values_are_the_known_ones(method: str):
    settings = DQNSettings(
        world="probes",
        method=method,
        memory_size=8,
        hidden=(32,),
        time_limit=probes.TIME_LIMIT,
        discount=DISCOUNT,
        steps=10_000,
        log_points=10,
        episodes=32,
        replay_steps=1_000,
        prefill=400,
        train_ratio=100.0,
        exploration_end=1.0,  # all actions everywhere
        target_period=1,
    )
    program = Program(settings, probes.probes())
    runs: Any = program.start([0])
    for rate, updates in ((5e-3, 600), (5e-4, 400)):
        runs = program.train(runs, stack_numbers([replace(settings, learning_rate=rate)]), updates)
    of_history, of_privileged = read(member(runs, 0))
    np.testing.assert_allclose(of_history[OPEN], KNOWN[OPEN], atol=0.1)
    # One history, so one value: the mean of a coin, as far as the replay tells.
    np.testing.assert_array_equal(of_history[LUCKY], of_history[UNLUCKY])
    assert np.abs(of_history[LUCKY]).max() < 0.4
    if of_privileged is not None:
        np.testing.assert_allclose(of_privileged, KNOWN, atol=0.1)
