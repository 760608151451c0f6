"""Mazes: drawings and random ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymrl.worlds.cleaner import PAPER_MAZE, parse_maze, random_maze
from tests.oracles import cleaner as oracle


def test_the_paper_maze():
    expected = np.array([[mark == "#" for mark in row] for row in oracle.PAPER_MAZE])
    np.testing.assert_array_equal(parse_maze(PAPER_MAZE), expected)


def test_drawings_may_be_indented():
    np.testing.assert_array_equal(parse_maze("\n   ####\n   #..#\n   ####\n\n"), parse_maze("####\n#..#\n####"))


@pytest.mark.parametrize(
    ("drawing", "message"),
    [
        ("", "at least 3 rows and 3 columns"),
        ("###\n#.#", "at least 3 rows and 3 columns"),
        ("##\n##\n##", "at least 3 rows and 3 columns"),
        ("####\n#..#\n###", "row 2 has 3 cells, row 0 has 4; make all rows equally long"),
        ("####\n\n#..#\n####", "row 1 has 0 cells, row 0 has 4"),
        ("####\n#.x#\n####", "'x' at row 1, column 2; use '#' for wall and '.' for floor"),
        ("####\n#. #\n####", "' ' at row 1, column 2"),
        ("##.#\n#..#\n####", "row 0, column 2 is an opening in the outer wall; close it with '#'"),
        ("####\n#...\n####", "row 1, column 3 is an opening in the outer wall"),
        ("####\n##.#\n####", "row 1, column 1 is a wall, but both robots start there"),
        ("#####\n#.#.#\n#####", "the floor at row 1, column 3 can't be reached from row 1, column 1"),
    ],
)
def test_malformed_drawings(drawing, message):
    with pytest.raises(ValueError) as caught:
        parse_maze(drawing)
    assert str(caught.value).startswith("maze: ")
    assert message in str(caught.value)


odd = st.integers(1, 8).map(lambda half: 2 * half + 1)


@given(seed=st.integers(0, 2**40), height=odd, width=odd)
def test_a_random_maze_is_a_tree(seed, height, width):
    walls = random_maze(seed, height, width)
    assert walls.shape == (height, width)
    drawing = "\n".join("".join("#" if wall else "." for wall in row) for row in walls)
    np.testing.assert_array_equal(parse_maze(drawing), walls)  # so it is closed and all of it can be reached
    floors = np.sum(~walls)
    passages = np.sum(~walls[1:] & ~walls[:-1]) + np.sum(~walls[:, 1:] & ~walls[:, :-1])
    assert passages == floors - 1
    assert floors == 2 * (height // 2) * (width // 2) - 1


def test_a_seed_is_a_maze():
    np.testing.assert_array_equal(random_maze(3), random_maze(3))
    assert len({random_maze(seed).tobytes() for seed in range(20)}) == 20


@pytest.mark.parametrize(("height", "width"), [(4, 5), (5, 4), (1, 5), (5, 1), (-3, 5)])
def test_impossible_sizes(height, width):
    with pytest.raises(ValueError, match=f"size {height}x{width}; height and width must be odd and at least 3"):
        random_maze(0, height, width)


def test_impossible_seed():
    with pytest.raises(ValueError, match="seed -1"):
        random_maze(-1)
