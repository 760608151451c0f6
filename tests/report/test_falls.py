"""Falls on made-up curves."""

from __future__ import annotations

import numpy as np
import polars as pl

from asymrl.report.falls import falls_of, falls_table


def curve(*returns: float) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(1, len(returns) + 1) * 10, np.asarray(returns)


def test_a_run_that_never_solved_its_task_cannot_fall():
    found = falls_of(*curve(0.0, 0.9, 0.2, 0.6))
    assert np.isnan(found.solved)
    assert found[1:] == ((), 0, 0)


def test_a_fall_is_from_above_one_bound_to_below_the_other():
    # Solved at 20; at 30 between the bounds, which is neither; below at 40.
    found = falls_of(*curve(0.0, 1.0, 0.6, 0.4, 0.3))
    assert found.solved == 20
    assert found.at == (40,)
    assert found.solved_steps == 20  # from 20 to 40
    assert found.lost_steps == 20  # from 30 to 50


def test_a_run_falls_again_only_after_it_has_recovered():
    # Below, between, below again is one fall; after 0.95 it is another.
    found = falls_of(*curve(1.0, 0.1, 0.8, 0.1, 0.95, 1.0, 0.0))
    assert found.at == (20, 70)
    assert found.solved_steps == 10 + 20
    assert found.lost_steps == 30


def test_a_table_has_a_row_for_each_run_and_leaves_out_the_first_episodes():
    points = [
        # The first two episodes both reached heaven: that is not a solved task.
        *((0, t, episode, value) for t, episode, value in [(0, 2, 1.0), (10, 120, 0.1), (20, 300, 0.2)]),
        *((1, t, episode, value) for t, episode, value in [(0, 2, 0.0), (10, 120, 1.0), (20, 300, 0.2)]),
    ]
    table = pl.DataFrame(points, schema=["seed", "timestep", "episode", "return"], orient="row")
    found = falls_table(table.reverse())
    assert found["seed"].to_list() == [0, 1]
    assert found["solved"].to_list() == [None, 10]
    assert found["at"].to_list() == [[], [20]]
    assert found["falls"].to_list() == [0, 1]
    assert found["solved_steps"].to_list() == [0, 10]
