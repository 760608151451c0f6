"""Pictures of T-maze and RockSample: what is hidden shows on the left only."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.draw import draw_frame, draw_text, style
from asymrl.worlds import World, make
from asymrl.worlds.builtin.rock_sample import RoverState
from tests.draw.panels import centre_of, left_and_right, lines, which_differ

GOOD, BAD = 1, 2


@pytest.mark.parametrize(
    ("name", "one", "other", "observation"),
    [
        ("t-maze-10", 3, 11 + 3, 2),  # in the corridor, with the goal in the north or in the south
        ("t-maze-10", 3, 4, 2),
        ("t-maze-60", 3, 40, 2),
        ("rock-sample-4-4", 2 * 16 + 1, 2 * 16 + 2, 0),  # another rock is good
        ("rock-sample-4-4", 2 * 16, 3 * 16, 0),  # another cell
    ],
)
def test_a_hidden_difference_shows_in_the_state_only(name: str, one: Any, other: Any, observation: Any):
    assert which_differ(name, (one, observation), (other, observation)) == (True, False)


@pytest.mark.parametrize(
    ("name", "state", "one", "other"),
    [
        ("t-maze-10", 0, 0, 1),
        ("t-maze-10", 0, 2, 3),
        ("rock-sample-4-4", 40, GOOD, BAD),
        ("rock-sample-4-4", 40, 0, GOOD),
        ("rock-sample-4-4:position=true", 40, 3 * 2, 3 * 3),
    ],
)
def test_another_observation_shows_in_the_view_only(name: str, state: Any, one: Any, other: Any):
    assert which_differ(name, (state, one), (state, other)) == (False, True)


@pytest.mark.parametrize(("state", "is_north"), [(5, True), (11 + 5, False)])
def test_the_goal_is_drawn_on_its_side(state: int, is_north: bool):
    left, _ = left_and_right(draw_frame(make("t-maze-10"), state, 2))
    goal, wrong = centre_of(left, style.GREEN), centre_of(left, style.VERMILION)
    assert (goal[1] < wrong[1]) is is_north
    assert goal[0] == pytest.approx(wrong[0], abs=6)


def test_rocks_are_drawn_with_x_to_the_right_and_y_upwards():
    env = make("rock-sample-2-1:layout_seed=0")
    (x, y) = env.terrain.rocks[0]  # pyright: ignore[reportAttributeAccessIssue]
    left, right = left_and_right(draw_frame(env, 0, 0))  # the rock is bad
    column, row = centre_of(left, style.VERMILION)
    assert (column > left.shape[1] / 2) == (x == 1)
    assert (row < left.shape[0] / 2) == (y == 1)
    assert not (right == [0xD5, 0x5E, 0x00]).all(-1).any(), "the view tells that the rock is bad"


def test_tables_and_simulation_look_the_same():
    tabled, simulated = make("rock-sample-4-4"), make("rock-sample-4-4:simulated=true")
    state = RoverState(jnp.int32(6), jnp.array([True, False, False, True]))
    one, other = draw_frame(tabled, 6 * 16 + 0b1001, BAD, 5), draw_frame(simulated, state, BAD, 5)
    np.testing.assert_array_equal(one, other)
    assert draw_text(tabled, 6 * 16 + 0b1001, BAD, 5) == draw_text(simulated, state, BAD, 5)


def text(env: World, *moment: Any) -> list[str]:
    return draw_text(env, *moment).splitlines()


def test_text_of_t_maze():
    env = make("t-maze-5")
    assert draw_text(env, 0, 0) == lines("""
        t-maze-5, at the start
        state                 the agent sees
                  +           goal north
        @ . . . . .
                  -
        cell 0, goal north
    """)
    assert text(env, 6 + 5, 3, 1)[2:] == [
        "          -           junction",
        ". . . . . @",
        "          +",
        "cell 5, goal south",
    ]
    assert text(make("t-maze-40"), 41 + 2, 2, 1)[3].startswith("..@.." + 36 * ".")


def test_text_of_rock_sample():
    env = make("rock-sample-4-4")
    assert draw_text(env, 2 * 16 + 0b0101, GOOD, 5) == lines("""
        rock-sample-4-4, after check-1
        state                the agent sees
        . + . . >            . ? . . >
        @ . . . >            . . . . >
        . . - + >            . . ? ? >
        . - . . >            . ? . . >
        agent (0, 2)         sensor: good
        rocks 1+ 2- 3+ 4-
    """)
    shown = text(make("rock-sample-4-4:position=true"), 2 * 16, 3 * 2, None)
    assert shown[3] == "@ . . . >            @ . . . >"
    assert shown[-2:] == ["agent (0, 2)         agent (0, 2)", "rocks 1- 2- 3- 4-    sensor: -"]
