"""Pictures in letters: the true state on the left, the observation on the right."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from asymrl.draw import draw_text
from asymrl.worlds import make
from asymrl.worlds.builtin.cleaner import CleanerState
from tests.draw.panels import lines, ring, rooms, seen_in


def test_text_of_heaven_hell():
    env = make("heaven-hell-3")
    assert draw_text(env, 0, 15) == lines("""
        heaven-hell-3, at the start
        state                  the agent sees
        + . . . . . -          ? . . . . . ?
              .                      .
              .                      .
              @                      .
              . . . P                . . . P
        cell 0, heaven left    nothing yet
    """)
    assert draw_text(env, 14 + 13, 14, 2) == lines("""
        heaven-hell-3, after E
        state                    the agent sees
        - . . . . . +            ? . . . . . ?
              .                        .
              .                        .
              .                        .
              . . . @                  . . . @
        cell 13, heaven right    priest: heaven right
    """)
    assert draw_text(env, 6, 0, 3, terminated=True).splitlines()[2] == "@ . . . . . -          the episode has ended"


def test_text_of_shopping():
    env = make("shopping-3")
    assert draw_text(env, 3 * 9 + 5, 9 + 5, 0) == lines("""
        shopping-3, after query
        state                        the agent sees
        . $ .                        . $ .
        . . .                        . . .
        . @ .                        . . .
        agent (1, 0), item (1, 2)    item (1, 2)
    """)
    here = draw_text(env, 5 * 9 + 5, 5, 3).splitlines()
    assert here[2:] == [
        ". & .                        . @ .",
        ". . .                        . . .",
        ". . .                        . . .",
        "agent (1, 2), item (1, 2)    agent (1, 2)",
    ]
    assert draw_text(env, 5, 18).endswith("nothing yet")


def test_text_of_car_flag():
    state = np.array([0.5, 0.0125, -1.0], np.float32)
    assert draw_text(make("car-flag"), state, state * [1, 1, 0], 6) == lines("""
        car-flag, after right-high
        state                                the agent sees
        .+...................==@===....-.    .?...................==@===....?.
        position +0.500                      position +0.500
        velocity +0.0125                     velocity +0.0125
        good flag left                       good flag unknown
    """)


def test_text_of_cart_pole():
    state = np.array([-1.2, 0.5, 0.1, -0.2], np.float32)
    assert draw_text(make("cart-pole"), state, state[::2], 1) == lines("""
        cart-pole, after right
        state                                the agent sees
                /                                    /
        --------#------------------------    --------#------------------------
        position −1.200                      position −1.200
        velocity +0.500                      velocity hidden
        angle +5.7°                          angle +5.7°
        turning −11.5°/s                     turning hidden
    """)


def test_text_of_the_cleaner():
    env = make("cleaner", maze="#####\n#...#\n#.#.#\n#####")
    state = CleanerState(jnp.isin(jnp.arange(20), jnp.array([8, 11])), jnp.array([6, 7]))
    assert draw_text(env, state, seen_in(env, state), 3) == lines("""
        cleaner, after up+right
        state            the agent sees
        #####            robot 0  robot 1
        #01*#            # # #    # # #
        #*#.#            # 0 1    0 1 *
        #####            # * #    * # .
        2 dirty cells
    """)
    together = state._replace(robots=jnp.array([6, 6]))
    assert draw_text(env, together, seen_in(env, together)).splitlines()[3].startswith("#&.*#")


def test_text_of_the_rooms():
    env = make("memory-four-rooms-5x5")
    assert draw_text(env, rooms(), seen_in(env, rooms()), 5) == lines("""
        memory-four-rooms-5x5, after turn-right
        state                       the agent sees
        # # # # #                   # # #
        # g . G #                   G ^ B
        # . # > #
        # . . B #
        # # # # #
        agent at row 2, column 3
        good exit green
    """)
    on_beacon = rooms()._replace(position=jnp.array([1, 1]))
    assert "standing on g" in draw_text(env, on_beacon, seen_in(env, on_beacon))


def test_text_of_worlds_with_names():
    assert draw_text(make("tiger"), 1, 0, 0) == lines("""
        tiger, after listen
        state          the agent sees
        tiger-right    obs-left
    """)
    assert draw_text(ring(), 2, 2) == lines("""
        ring, at the start
        state    the agent sees
        s2       nothing yet
    """)
