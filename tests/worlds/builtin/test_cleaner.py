"""Cleaner against its rules written a second time, and its mazes."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

from asymrl.worlds import Cleaner
from asymrl.worlds.builtin.cleaner import PAPER_MAZE, parse_maze, random_maze
from tests.oracles import cleaner as oracle
from tests.oracles.cleaner import Cleaning, Maze

ROOM_WITH_PILLAR = """
######
#....#
#.##.#
#....#
######
"""
ONE_CELL = "###\n#.#\n###"
MAZES: dict[str, dict] = {
    "paper": {},
    "seed": {"maze_seed": 3},
    "wide": {"maze_seed": 8, "height": 5, "width": 9},
    "drawing": {"maze": ROOM_WITH_PILLAR},
    "one cell": {"maze": ONE_CELL},
    "ends": {"maze": ROOM_WITH_PILLAR, "end_when_clean": True},
}
BATCH = 16
UP, DOWN, LEFT, RIGHT = range(4)


@functools.cache
def world(kind: str) -> Cleaner:
    return Cleaner(**MAZES[kind])


@functools.cache
def maze(kind: str) -> Maze:
    """The maze as the oracle reads it: from the drawing, or from the walls that the world reports."""
    if kind == "paper":
        return Maze(oracle.PAPER_MAZE)
    if "maze" in MAZES[kind]:
        return Maze(tuple(MAZES[kind]["maze"].split()))
    return Maze(tuple("".join("#" if wall else "." for wall in row) for row in world(kind).walls))


@functools.cache
def compiled(kind: str):
    env = world(kind)

    def one(latent, action):
        key = jax.random.key(0)
        state = env.from_latent(latent)
        step = env.step(key, state, action)
        seen = env.observe(key, state, action, step.state)
        return env.latent(state), env.first_observation(key, state), step, env.latent(step.state), seen

    return jax.jit(jax.vmap(one))


@st.composite
def situations(draw, floor: list[oracle.Cell]) -> tuple[Cleaning, int]:
    """A state with a few dirty or a few clean cells, and an action."""
    some = draw(st.frozensets(st.sampled_from(floor)))
    dirty = draw(st.sampled_from([some, frozenset(floor) - some]))
    robots = draw(st.tuples(st.sampled_from(floor), st.sampled_from(floor)))
    return Cleaning(dirty, robots), draw(st.integers(0, 15))


@pytest.mark.parametrize("kind", MAZES)
@settings(max_examples=15, phases=[Phase.generate])  # a failure names its state, so a batch need not be shrunk
@given(data=st.data())
def test_steps(kind, data):
    rules = maze(kind)
    pairs = data.draw(st.lists(situations(rules.floor()), min_size=BATCH, max_size=BATCH))
    latents = np.stack([rules.latent(state) for state, _ in pairs])
    actions = np.array([action for _, action in pairs], np.int32)
    before, first, step, after, seen = jax.device_get(compiled(kind)(latents, actions))
    np.testing.assert_array_equal(before, latents)
    for i, (state, action) in enumerate(pairs):
        expected, reward = rules.step(state, action)
        case = f"action {action} in {state}"
        np.testing.assert_array_equal(after[i], rules.latent(expected), err_msg=case)
        np.testing.assert_array_equal(seen[i], rules.observe(expected), err_msg=case)
        np.testing.assert_array_equal(first[i], rules.observe(state), err_msg=case)
        assert step.reward[i] == reward, case
        assert step.terminated[i] == (kind == "ends" and not expected.dirty), case


@pytest.mark.parametrize("kind", MAZES)
def test_the_start(kind):
    env, rules = world(kind), maze(kind)

    def begin(key):
        state = env.reset(key)
        return env.latent(state), env.first_observation(key, state)

    latents, seen = jax.jit(jax.vmap(begin))(jax.random.split(jax.random.key(0), 3))
    for i in range(3):
        np.testing.assert_array_equal(latents[i], rules.latent(rules.start()))
        np.testing.assert_array_equal(seen[i], rules.observe(rules.start()))


@functools.cache
def compiled_episode(length: int, end_when_clean: bool = False):
    """Compiled: the rewards and ends of a list of joint actions in the paper's maze."""
    env = Cleaner(end_when_clean=end_when_clean)

    def one(state, action):
        step = env.step(jax.random.key(0), state, action)
        return step.state, (step.reward, step.terminated)

    def episode(actions):
        state, (rewards, ends) = jax.lax.scan(one, env.reset(jax.random.key(0)), actions)
        return env.latent(state), rewards, ends

    return jax.jit(episode)


def run(actions: list[int], end_when_clean: bool = False):
    episode = compiled_episode(len(actions), end_when_clean)
    latent, rewards, ends = jax.device_get(episode(jnp.array(actions, jnp.int32)))
    return latent.reshape(13, 13, 5), rewards, ends


def both_ways(bump_first: bool) -> list[int]:
    """Robot 0 walks half of the tour through the maze, robot 1 the other half from its end."""
    rules = Maze(oracle.PAPER_MAZE)
    forwards, backwards = oracle.tour(rules, backwards=False), oracle.tour(rules, backwards=True)
    half = len(forwards) // 2
    walk = [4 * one + other for one, other in zip(forwards[:half], backwards[:half], strict=True)]
    return [4 * UP + UP] * bump_first + walk


def test_the_paper_maze_is_a_tree_of_71_cells():
    rules = Maze(oracle.PAPER_MAZE)
    assert len(rules.floor()) == 71
    assert len(oracle.tour(rules, backwards=False)) == 2 * 70


def test_a_fixed_list_of_71_actions_cleans_everything():
    plan = both_ways(bump_first=True)
    latent, rewards, ends = run(plan)
    assert len(plan) == 71
    assert rewards[0] == 1, "both robots bump where they start; one of them cleans the cell"
    assert rewards.sum() == 71
    assert set(rewards.tolist()) <= {0, 1, 2}
    assert latent[..., 2].sum() == 0
    assert not ends.any()
    _, _, ends = run(plan, end_when_clean=True)
    last = int(np.flatnonzero(rewards)[-1])
    assert ends.tolist() == [t >= last for t in range(71)]


def test_the_start_cell_is_cleaned_only_by_bumping_or_coming_back():
    latent, rewards, _ = run(both_ways(bump_first=False))
    assert rewards.sum() == 70
    assert latent[1, 1].tolist() == [0, 0, 1, 0, 0], "the start cell is still dirty, and nobody is there"
    _, back_and_forth, _ = run([4 * DOWN + DOWN, 4 * UP + DOWN, 4 * UP + UP])
    assert back_and_forth.tolist() == [1, 2, 0], "robot 0 comes back to a dirty start cell"
    _, bump, _ = run([4 * LEFT + LEFT, 4 * LEFT + RIGHT])
    assert bump.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maze": "###\n#.#"}, "at least 3 rows"),
        ({"maze": ROOM_WITH_PILLAR, "maze_seed": 3}, "maze_seed"),
        ({"maze_seed": 3, "height": 6}, "odd"),
    ],
)
def test_impossible_mazes(options, message):
    with pytest.raises(ValueError, match=message):
        Cleaner(**options)


def test_impossible_latents_are_refused():
    env, rules = world("drawing"), maze("drawing")
    latent = rules.latent(rules.start())
    assert env.latent_problem(latent) is None
    moved_wall = latent.reshape(5, 6, 5).copy()
    moved_wall[0, 0] = [1, 0, 0, 0, 0]
    two_robots = latent.reshape(5, 6, 5).copy()
    two_robots[1, 2, 3] = 1
    no_robot = latent.reshape(5, 6, 5).copy()
    no_robot[..., 4] = 0
    in_the_wall = no_robot.copy()
    in_the_wall[0, 0, 4] = 1
    both = latent.reshape(5, 6, 5).copy()
    both[1, 1, 0] = 1
    for wrong in (moved_wall, two_robots, no_robot, in_the_wall, both, latent / 2, latent[:-1]):
        assert env.latent_problem(wrong.reshape(-1)) is not None


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
        ("#####\n#.#.#\n#####", "the floor at row 1, column 3 cannot be reached from row 1, column 1"),
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
