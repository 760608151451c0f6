"""The panels of a picture, and small worlds to draw."""

from __future__ import annotations

import textwrap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from asymrl.draw import draw_frame
from asymrl.worlds import FiniteWorld, World, make
from asymrl.worlds.builtin.memory_rooms import BEACON, EXIT, FLOOR, WALL, RoomsState


def ring(name: str = "ring", states: int = 3) -> FiniteWorld:
    forward = np.roll(np.eye(states), 1, axis=1)[:, None]
    seen = np.full((1, states, 2), 0.5)
    return FiniteWorld.from_tables(name, forward, seen, np.zeros((states, 1)), np.full(states, 1 / states))


def left_and_right(frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two panels, without title and caption."""
    middle = frame.shape[1] // 2
    return frame[55:395, :middle], frame[55:395, middle:]


def which_differ(name: str, one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[bool, bool]:
    """Whether the left and the right panel differ between two pairs of state and observation."""
    env = make(name)
    (left, right), (other_left, other_right) = (left_and_right(draw_frame(env, *pair)) for pair in (one, other))
    return bool((left != other_left).any()), bool((right != other_right).any())


def centre_of(panel: np.ndarray, colour: str) -> tuple[float, float]:
    """Mean column and row of the pixels of a colour."""
    rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    rows, columns = np.nonzero((panel == rgb).all(-1))
    assert rows.size, f"no pixel has the colour {colour}"
    return float(columns.mean()), float(rows.mean())


def seen_in(env: World, state: Any) -> Any:
    return env.first_observation(jax.random.key(0), state)


def lines(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def rooms(heading: int = 1) -> RoomsState:
    kind = np.full((5, 5), FLOOR, np.uint8)
    kind[[0, -1]] = kind[:, [0, -1]] = WALL
    kind[2, 2] = WALL
    kind[1, 1], kind[1, 3], kind[3, 3] = BEACON, EXIT, EXIT
    colour = np.zeros((5, 5), np.uint8)
    colour[1, 1], colour[1, 3], colour[3, 3] = 2, 2, 3
    return RoomsState(jnp.asarray(kind), jnp.asarray(colour), jnp.array([2, 3]), jnp.int32(heading))
