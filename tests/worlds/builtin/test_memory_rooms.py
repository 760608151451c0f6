"""Memory-Four-Rooms against its rules written a second time."""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

from asymrl.worlds import MemoryFourRooms
from tests.oracles import memory_rooms as oracle
from tests.oracles.memory_rooms import Agent, Layout
from tests.worlds.chance import assert_rate, assert_uniform

WORLDS = [(5, 5, 6), (7, 7, 6), (7, 7, 8), (9, 9, 6), (5, 9, 8), (11, 7, 6)]  # height, width, actions
BATCH = 24
STARTS = 20_000


@functools.cache
def compiled(height: int, width: int, actions: int):
    env = MemoryFourRooms(height, width, actions=actions)

    def one(latent, action):
        key = jax.random.key(0)
        state = env.from_latent(latent)
        step = env.step(key, state, action)
        seen = env.observe(key, state, action, step.state)
        return env.latent(state), env.first_observation(key, state), step, env.latent(step.state), seen

    return jax.jit(jax.vmap(one))


@st.composite
def situations(draw, height: int, width: int, actions: int) -> tuple[Layout, Agent, int]:
    """A layout, an agent anywhere in it, exits included, and an action."""
    openings = tuple(draw(st.sampled_from(piece)) for piece in oracle.wall_pieces(height, width))
    cells = oracle.free_cells(height, width, openings)
    beacon, good, bad = draw(st.lists(st.sampled_from(cells), min_size=3, max_size=3, unique=True))
    colours = draw(st.lists(st.sampled_from(oracle.PALETTES[4]), min_size=2, max_size=2, unique=True))
    agent = Agent(draw(st.sampled_from(cells)), draw(st.sampled_from(oracle.HEADINGS)))
    layout = Layout(height, width, openings, beacon, good, bad, colours[0], colours[1])
    return layout, agent, draw(st.integers(0, actions - 1))


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray], case: str = "") -> None:
    assert set(one) == set(other)
    for part in one:
        assert one[part].dtype == other[part].dtype
        # Only the agent's coordinates are fractions; they are divided in single precision.
        rounding = 1e-6 if part == "agent" else 0
        np.testing.assert_allclose(one[part], other[part], rtol=0, atol=rounding, err_msg=f"{part}: {case}")


@pytest.mark.parametrize(("height", "width", "actions"), WORLDS)
@settings(max_examples=10, phases=[Phase.generate])  # a failure names its state, so a batch need not be shrunk
@given(data=st.data())
def test_steps(height, width, actions, data):
    cases = data.draw(st.lists(situations(height, width, actions), min_size=BATCH, max_size=BATCH))
    latents = [oracle.latent(layout, agent) for layout, agent, _ in cases]
    stacked = {part: np.stack([latent[part] for latent in latents]) for part in latents[0]}
    taken = np.array([action for *_, action in cases], np.int32)
    outcome = jax.device_get(compiled(height, width, actions)(stacked, taken))
    for i, (layout, agent, action) in enumerate(cases):
        before, first, step, after, seen = jax.tree.map(lambda leaf, i=i: leaf[i], outcome)
        expected, reward, ended = oracle.step(layout, agent, action)
        case = f"action {action}, {agent} in {layout}"
        assert_same(before, latents[i], case)
        assert_same(first, oracle.observe(layout, agent), case)
        assert_same(after, oracle.latent(layout, expected), case)
        assert_same(seen, oracle.observe(layout, expected), case)
        assert step.reward == pytest.approx(reward, abs=1e-6), case
        assert step.terminated == ended, case


def test_idle_actions_change_nothing():
    assert MemoryFourRooms(7).action_names == MemoryFourRooms(7, actions=8).action_names[:6]
    layout = Layout(7, 7, ((3, 1), (3, 5), (1, 3), (5, 3)), (1, 1), (1, 2), (5, 5), 1, 2)
    agent = Agent((2, 1), oracle.HEADINGS[0])
    latent = oracle.latent(layout, agent)
    batch = jax.tree.map(lambda leaf: np.stack([leaf] * BATCH), latent)
    _, _, step, after, _ = jax.device_get(compiled(7, 7, 8)(batch, np.array([6, 7] * (BATCH // 2), np.int32)))
    assert_same(jax.tree.map(lambda leaf: leaf[0], after), latent)
    assert_same(jax.tree.map(lambda leaf: leaf[1], after), latent)
    np.testing.assert_allclose(step.reward, -0.05)
    assert not step.terminated.any()


class Starts(NamedTuple):
    """Many starts, read from their latents: cells are numbered row by row, as in a flattened grid."""

    latents: dict[str, np.ndarray]
    openings: np.ndarray  # [starts, 4], the place of each opening within its piece of wall
    cells: dict[str, np.ndarray]  # of each thing
    ranks: dict[str, np.ndarray]  # the same, counting only the free cells
    free: np.ndarray  # how many free cells there are
    heading: np.ndarray
    colours: np.ndarray  # [starts, 2], good and bad


@functools.cache
def starts(height: int, width: int, colours: int) -> Starts:
    env = MemoryFourRooms(height, width, colours=colours)
    keys = jax.random.split(jax.random.key(7), STARTS)
    # Compiled without optimisation, since that would take longer than all the starts.
    hastily = {"xla_backend_optimization_level": 0}
    begin = jax.jit(jax.vmap(lambda key: env.latent(env.reset(key))), compiler_options=hastily)
    latents = jax.device_get(begin(keys))
    kind, _, colour = (layer.reshape(STARTS, -1) for layer in np.moveaxis(latents["grid"], -1, 0))
    beacon = the_only(kind == oracle.BEACON)
    good_colour = np.take_along_axis(colour, beacon[:, None], 1)
    is_exit = kind == oracle.EXIT
    cells = {
        "agent": the_only(latents["agent_id_grid"].reshape(STARTS, -1) == 1),
        "beacon": beacon,
        "good": the_only(is_exit & (colour == good_colour)),
        "bad": the_only(is_exit & (colour != good_colour)),
    }
    bad_colour = np.take_along_axis(colour, cells["bad"][:, None], 1)
    numbered = np.cumsum(kind != oracle.WALL, axis=1) - 1
    pieces = [[row * width + column for row, column in piece] for piece in oracle.wall_pieces(height, width)]
    return Starts(
        latents=latents,
        openings=np.stack([the_only(kind[:, piece] != oracle.WALL) for piece in pieces], -1),
        cells=cells,
        ranks={thing: numbered[np.arange(STARTS), cell] for thing, cell in cells.items()},
        free=numbered[:, -1] + 1,
        heading=the_only(latents["agent"][:, 2:] == 1),
        colours=np.concatenate([good_colour, bad_colour], -1),
    )


def the_only(marks: np.ndarray) -> np.ndarray:
    """The column of the only mark in each row."""
    assert (marks.sum(-1) == 1).all()
    return marks.argmax(-1)


def layout_at(height: int, width: int, colours: int, i: int) -> tuple[Layout, Agent]:
    """The i-th start in the oracle's words."""
    these = starts(height, width, colours)
    pieces = oracle.wall_pieces(height, width)
    openings = tuple(piece[k] for piece, k in zip(pieces, these.openings[i], strict=True))
    cell = {thing: divmod(int(cells[i]), width) for thing, cells in these.cells.items()}
    good, bad = (int(colour) for colour in these.colours[i])
    layout = Layout(height, width, openings, cell["beacon"], cell["good"], cell["bad"], good, bad)
    return layout, Agent(cell["agent"], oracle.HEADINGS[these.heading[i]])


@pytest.mark.parametrize(("height", "width", "colours"), [(7, 7, 4), (5, 9, 2)])
def test_nothing_else_is_in_a_start(height, width, colours):
    env, latents = MemoryFourRooms(height, width), starts(height, width, colours).latents
    for i in range(200):
        latent = jax.tree.map(lambda leaf, i=i: leaf[i], latents)
        assert_same(latent, oracle.latent(*layout_at(height, width, colours, i)))
        assert env.latent_problem(latent) is None


@pytest.mark.parametrize(("height", "width", "colours"), [(7, 7, 4), (5, 9, 2)])
def test_starts_are_uniform_and_independent(height, width, colours):
    these = starts(height, width, colours)
    sides = (width // 2 - 1, width // 2 - 1, height // 2 - 1, height // 2 - 1)
    free = (height - 3) * (width - 3) + 4
    assert set(these.free) == {free}
    doors = np.ravel_multi_index(tuple(these.openings.T), sides)
    pairs = list(itertools.permutations(oracle.PALETTES[colours], 2))
    pair = np.array([pairs.index((good, bad)) for good, bad in these.colours.tolist()])
    once = (int(np.prod(sides)), 4, len(pairs))
    assert_uniform(np.stack([doors, these.heading, pair], -1), once)
    # A free cell, an opening too, is one number; that number is uniform, whatever else was drawn.
    for rank in these.ranks.values():
        for other, size in zip((doors, these.heading, pair), once, strict=True):
            assert_uniform(np.stack([rank, other], -1), (free, size))
    for one, other in itertools.combinations(these.ranks.values(), 2):
        assert (one != other).all()
        gap = (other - one) % free - 1
        assert_uniform(np.stack([one, gap], -1), (free, free - 1))


@pytest.mark.parametrize(("size", "free", "in_opening"), [(7, 20, 0.2), (9, 40, 0.1)])
def test_free_cells(size, free, in_opening):
    these = starts(size, size, 4)
    assert set(these.free) == {free}
    row, column = np.divmod(these.cells["agent"], size)
    assert_rate(int(((row == size // 2) | (column == size // 2)).sum()), STARTS, in_opening)


def unreachable_fraction(size: int) -> float:
    """The fraction of starts whose good exit can't be reached but over the bad one, by enumeration."""
    lost = total = 0
    for openings in itertools.product(*oracle.wall_pieces(size, size)):
        cells = oracle.free_cells(size, size, openings)
        for bad in cells:
            remaining = set(cells) - {bad}
            total += len(remaining) * (len(remaining) - 1)
            while remaining:
                region = oracle.reachable(size, size, openings, next(iter(remaining)), bad)
                remaining -= region
                lost += len(region) * (len(cells) - 1 - len(region))
    return lost / total


def test_some_starts_can_not_be_solved():
    assert unreachable_fraction(7) == pytest.approx(1536 / 109_440)
    count = 5_000
    lost = 0
    for i in range(count):
        layout, agent = layout_at(7, 7, 4, i)
        lost += layout.good not in oracle.reachable(7, 7, layout.openings, agent.cell, layout.bad)
    assert_rate(lost, count, 1536 / 109_440)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"height": 8}, "odd"),
        ({"height": 3}, "at least 5"),
        ({"height": 7, "width": 6}, "odd"),
        ({"actions": 7}, "choose 6, or 8"),
        ({"colours": 3}, "choose 4 or 2"),
    ],
)
def test_impossible_worlds(options, message):
    with pytest.raises(ValueError, match=message):
        MemoryFourRooms(**options)


def test_impossible_latents_are_refused():
    env = MemoryFourRooms(7)
    layout, agent = layout_at(7, 7, 4, 0)
    latent = oracle.latent(layout, agent)

    def with_cell(cell, thing):
        changed = latent["grid"].copy()
        changed[cell] = thing
        return latent | {"grid": changed}

    off_the_cells = latent["agent"].copy()
    off_the_cells[0] += 0.1
    no_heading = latent["agent"] * np.array([1, 1, 0, 0, 0, 0], np.float32)
    in_the_wall = oracle.latent(layout, Agent((3, 3), agent.heading))
    cases = [
        ("closed", with_cell((0, 0), (oracle.FLOOR, 0, 0))),
        ("type", with_cell((1, 1), (7, 0, 0))),
        ("status", with_cell((1, 1), (oracle.FLOOR, 1, 0))),
        ("beacons", with_cell(layout.beacon, (oracle.FLOOR, 0, 0))),
        ("item", latent | {"item": np.array([1, 0, 0])}),
        ("one-hot", latent | {"agent": off_the_cells}),
        ("one-hot", latent | {"agent": no_heading}),
        ("is in a wall", in_the_wall),
        ("agent_id_grid", latent | {"agent_id_grid": np.zeros((7, 7), np.uint8)}),
        ("keys", {"grid": latent["grid"]}),
    ]
    for message, wrong in cases:
        assert message in (env.latent_problem(wrong) or "accepted"), message
