"""T-maze against its rules written a second time, and its returns in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from asymrl.kernels.world_rules import deterministic_table
from asymrl.runs.options import world_settings
from asymrl.theory.solvers import best_memoryless, best_open_loop, solve
from asymrl.worlds import TMaze, make
from tests.oracles import t_maze


@pytest.mark.parametrize("n", [1, 2, 10])
def test_tables(n: int):
    env, rules = TMaze(n), t_maze.tables(n)
    for table in ("T", "O", "R", "D"):
        np.testing.assert_array_equal(getattr(env, table), getattr(rules, table).astype(getattr(env, table).dtype))
    np.testing.assert_array_equal(env.start, rules.start)
    assert (env.latent_space.n, env.observation_space.n) == (rules.states, rules.observations)


def test_rewards_are_options():
    env = make("t-maze-3:goal=1,wrong=-1,bump=-0.5")
    assert isinstance(env, TMaze)
    np.testing.assert_array_equal(env.R, t_maze.tables(3, goal=1, wrong=-1, bump=-0.5).R)


def test_only_the_start_tells_the_sides_apart():
    env, cells = TMaze(6), 7
    assert env.first_observations is not None
    first = env.first_observations.dense()
    for side, seen in ((0, t_maze.UP), (1, t_maze.DOWN)):
        assert first[side * cells].tolist() == np.eye(4)[seen].tolist()
    np.testing.assert_array_equal(env.O[:, 1:cells], env.O[:, cells + 1 :])
    assert (env.O[:, 0] != env.O[:, cells]).any()


@pytest.mark.parametrize(("n", "discount"), [(1, 0.98), (5, 0.9), (10, 0.98), (10, 1.0), (120, 0.98)])
def test_the_optimum_in_closed_form(n: int, discount: float):
    # n moves to the junction and one turn, which has the only reward: 4 for who remembers, 1.95 on average for others.
    pomdp = TMaze(n).pomdp()
    best = solve(pomdp, discount=discount)
    assert best.kind == "exact"
    assert best.value == pytest.approx(4 * discount**n, rel=1e-12)
    horizon = pomdp.time_limit
    assert horizon is not None
    assert best_open_loop(pomdp, horizon, discount).value == pytest.approx(1.95 * discount**n, rel=1e-12)


def test_the_last_observation_is_not_enough():
    # To carry the cue through the corridor takes memory; standing still with one of the cues costs and wins nothing.
    pomdp = TMaze(3).pomdp()
    assert best_memoryless(pomdp, 100, 0.98, starts=2).value == pytest.approx(1.95 * 0.98**3, abs=1e-4)


def test_the_goal_is_within_every_time_limit_but_those_that_forbid_it():
    for n in (1, 10, 49, 50, 300):
        assert TMaze(n).time_limit == max(100, 2 * (n + 1))
    assert TMaze(300, time_limit=7).time_limit == 7
    assert TMaze(3, time_limit=None).time_limit is None
    assert solve(TMaze(5, time_limit=6).pomdp()).value == pytest.approx(4 * 0.98**5)
    assert solve(TMaze(5, time_limit=5).pomdp()).value == 0


def test_runs_use_its_own_discount_and_time_limit():
    assert world_settings("t-maze-300") == {"discount": 0.98, "time_limit": 602}
    assert world_settings("t-maze-3:time_limit=9,discount=0.5") == {"discount": 0.5, "time_limit": 9}


def test_an_episode_is_a_walk_on_a_table():
    assert deterministic_table(TMaze(4)) is not None


def test_signals():
    signals = TMaze(4).signals()
    states = np.arange(10)
    assert signals["goal-side"].of(states).tolist() == [0] * 5 + [1] * 5
    assert signals["position"].of(states).tolist() == [0, 1, 2, 3, 4] * 2
