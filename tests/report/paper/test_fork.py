"""The four histories of figure 4, walked in the world itself."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from asymrl import make
from asymrl.nn.distributions import NO_ACTION
from asymrl.report.paper.fork import PAIRS, ForkProbe, exact_values, walks
from asymrl.settings import A2CSettings
from tests.runs.engine.stores import random_states

KEY = jax.random.key(0)


@pytest.mark.parametrize("walk", range(4))
def test_the_walks_are_what_the_world_shows(walk: int):
    env, found = make("heaven-hell-4"), walks(4)
    state = jax.numpy.int32([0, 18, 0, 18][walk])
    assert found.before[0, walk] == NO_ACTION
    assert found.observations[0, walk] == env.first_observation(KEY, state)
    for t in range(1, found.at[walk] + 1):
        action = int(found.before[t, walk])
        step = env.step(KEY, state, action)
        assert not step.terminated
        assert found.observations[t, walk] == env.observe(KEY, state, action, step.state)
        assert found.states[t, walk] == step.state
        state = step.state
    # At the fork, cell 4, with heaven in the west or in the east; 4 or 14 actions after the start.
    assert (int(state), found.at[walk]) == [(4, 4), (22, 4), (4, 14), (22, 14)][walk]
    assert ((17 in found.observations[:, walk]), (18 in found.observations[:, walk])) == [
        (False, False), (False, False), (True, False), (False, True),
    ][walk]  # fmt: skip


def test_exact_values_count_the_actions_to_heaven():
    env, move_there = make("heaven-hell-4"), {"straight": [3] * 5, "asking": [1] * 5 + [2] * 4 + [3] * 4 + [0] * 5}
    for side, after_priest in ((0, "left-priest"), (0, "left")):
        state, value = jax.numpy.int32(18 * side + 4), 0.0
        actions = move_there["straight"] if after_priest == "left-priest" else move_there["asking"] + [3] * 5
        for t, action in enumerate(actions):
            step = env.step(KEY, state, jax.numpy.int32(action))
            value, state = value + 0.99**t * float(step.reward), step.state
        assert value == pytest.approx(exact_values(4)[after_priest])
    assert exact_values(4)["left"] == pytest.approx(0.801631, abs=1e-6)
    assert exact_values(4)["right-priest"] == pytest.approx(0.960596, abs=1e-6)
    assert exact_values(3)["right"] == pytest.approx(0.842943, abs=1e-6)


@pytest.mark.parametrize(
    ("method", "alike"),
    [
        ("a2c", [("left", "right")]),
        ("a2c-asym-s", [("left", "left-priest"), ("right", "right-priest")]),
        ("a2c-asym-hs", []),
    ],
)
def test_a_critic_tells_apart_what_it_can(method: str, alike: list[tuple[str, str]]):
    settings = A2CSettings(world="heaven-hell-4", method=method, memory_size=8, hidden=(8,), time_limit=20)
    values = ForkProbe(n=4, every=1)(random_states(settings, [0, 1]))
    assert values.shape == (2, 4)
    for i, first in enumerate(PAIRS):
        for j, second in enumerate(PAIRS[:i]):
            same = np.allclose(values[:, i], values[:, j], rtol=1e-5)
            assert same == ((second, first) in alike), (first, second)
