"""Memory-Four-Rooms: find the beacon, remember its colour, leave through the exit of that colour."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from asymrl.worlds.spaces import Box, Discrete, Indices, Place, Record
from asymrl.worlds.world import DEFAULT_TIME_LIMIT, Action, Signal, Step, World

FLOOR, WALL, EXIT, BEACON = 2, 3, 4, 10  # types of objects, gridverse's numbers
KINDS = 11  # the indices of types, states and colours are all below this
COLOUR_SETS = {4: (1, 2, 3, 4), 2: (3, 4)}  # red, green, blue, yellow, or only the last two
FORWARD, BACKWARD, MOVE_LEFT, MOVE_RIGHT, TURN_LEFT, TURN_RIGHT = range(6)

# Headings are counted clockwise, north 0; the latent lists them north, south, east, west.
DIRECTIONS = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])
HEADING_IN_LATENT = np.array([0, 2, 1, 3])
TURNS_OF_MOVE = np.array([0, 2, 3, 1])  # forward, backward, left, right of the heading
# The view, as seen by an agent that looks up: (cells ahead, cells to the right).
VIEW = np.array([[[1, -1], [1, 0], [1, 1]], [[0, -1], [0, 0], [0, 1]]])


class RoomsState(NamedTuple):
    """The object in each cell and its colour (fixed during an episode), and the agent."""

    kind: UInt8[Array, "H W"]
    colour: UInt8[Array, "H W"]
    position: Int[Array, "2"]  # row, column
    heading: Int[Array, ""]


class MemoryFourRooms(World):
    """Memory-Four-Rooms-HxW (paper, appendix "Memory-Four-Rooms").

    One wall row and one wall column make four rooms; each of the four wall pieces has one opening. The agent,
    a beacon and two exits are on different cells; the good exit has the beacon's colour. The agent observes the
    2 x 3 cells in front of and beside it, in channels type, state (always 0) and colour. Every step costs 0.05;
    entering an exit ends the episode with +5 or -5. Not every start can be solved, since an exit may block an opening.

    `actions=8` adds the paper's two actions without effect; `colours=2` uses blue and yellow only.
    """

    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    actions: int = eqx.field(static=True)
    colours: int = eqx.field(static=True)
    name: str = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    time_limit: int | None = eqx.field(static=True)

    def __init__(
        self,
        height: int = 7,
        width: int | None = None,
        *,
        actions: int = 6,
        colours: int = 4,
        discount: float = 0.99,
        time_limit: int | None = DEFAULT_TIME_LIMIT,
    ):
        width = height if width is None else width
        name = f"memory-four-rooms-{height}x{width}"
        if min(height, width) < 5 or height % 2 == 0 or width % 2 == 0:
            raise ValueError(f"{name}: height and width must be odd and at least 5, e.g. memory-four-rooms-7x7")
        if actions not in (6, 8):
            raise ValueError(f"{name}: {actions} actions; choose 6, or 8 with the paper's two idle ones")
        if colours not in COLOUR_SETS:
            raise ValueError(f"{name}: {colours} colours; choose 4 or 2")
        self.height, self.width = height, width
        self.actions, self.colours = actions, colours
        self.name = name
        self.discount = discount
        self.time_limit = time_limit

    @property
    def action_names(self) -> tuple[str, ...]:
        names = ("forward", "backward", "left", "right", "turn-left", "turn-right", "actuate", "pick-n-drop")
        return names[: self.actions]

    @property
    def observation_space(self) -> Record:
        return Record((("grid", Indices(KINDS, (2, 3, 3))), ("item", Indices(KINDS, (3,)))))

    @property
    def latent_space(self) -> Record:
        H, W = self.height, self.width
        return Record(
            (
                ("grid", Indices(KINDS, (H, W, 3), fixed=True)),
                ("agent", Box((6,), -1.0, 1.0)),
                ("item", Indices(KINDS, (3,))),
                ("agent_id_grid", Place(shape=(H, W), margin=1)),
            )
        )

    def signals(self) -> dict[str, Signal]:
        def beacon_colour(latent: dict[str, Array]) -> Int[Array, "..."]:
            grid = latent["grid"]
            colours = jnp.where(grid[..., 0] == BEACON, grid[..., 2], 0)
            return jnp.max(colours, axis=(-2, -1)).astype(jnp.int32)

        return super().signals() | {
            "beacon-colour": Signal(beacon_colour, Discrete(5), "the colour of the beacon and the good exit"),
        }

    def reset(self, key: PRNGKeyArray) -> RoomsState:
        H, W = self.height, self.width
        rooms = _room_cells(H, W)
        free = len(rooms) + 4  # the cells of the rooms and the four openings
        palette = jnp.asarray(COLOUR_SETS[self.colours], jnp.uint8)
        choices = np.array(
            [W // 2 - 1] * 2 + [H // 2 - 1] * 2 + [free, free - 1, free - 2, free - 3]
            + [4, self.colours, self.colours - 1]
        )  # fmt: skip
        # Half the cost of randint, which draws every number twice; probabilities are off by less than 1e-5.
        draws = (jax.random.uniform(key, choices.shape) * choices).astype(jnp.int32)

        left, right, top, bottom = draws[0] + 1, draws[1] + W // 2 + 1, draws[2] + 1, draws[3] + H // 2 + 1
        middle = jnp.int32(H // 2), jnp.int32(W // 2)
        openings = jnp.stack(
            [jnp.stack(cell) for cell in ((middle[0], left), (middle[0], right), (top, middle[1]), (bottom, middle[1]))]
        )
        cells = jnp.concatenate([jnp.asarray(rooms), openings])[_distinct(draws[4:8])]
        heading = draws[8]
        good = draws[9]
        bad = draws[10] + (draws[10] >= good)

        row, column = jnp.arange(H)[:, None], jnp.arange(W)[None, :]

        def at(cell: Int[Array, "2"]) -> Array:
            return (row == cell[0]) & (column == cell[1])

        agent, beacon, good_exit, bad_exit = cells
        open_here = at(openings[0]) | at(openings[1]) | at(openings[2]) | at(openings[3])
        kind = jnp.where(jnp.asarray(_walls(H, W)) & ~open_here, WALL, FLOOR)
        kind = jnp.where(at(beacon), BEACON, jnp.where(at(good_exit) | at(bad_exit), EXIT, kind))
        colour = jnp.where(at(bad_exit), palette[bad], jnp.uint8(0))
        colour = jnp.where(at(beacon) | at(good_exit), palette[good], colour)
        return RoomsState(kind.astype(jnp.uint8), colour, agent.astype(jnp.int32), heading)

    def step(self, key: PRNGKeyArray, state: RoomsState, action: Action) -> Step:
        action = jnp.asarray(action)
        turn = jnp.where(action == TURN_LEFT, 3, jnp.where(action == TURN_RIGHT, 1, 0))
        heading = (state.heading + turn) % 4
        way = jnp.asarray(TURNS_OF_MOVE)[jnp.minimum(action, 3)]
        target = state.position + jnp.asarray(DIRECTIONS, jnp.int32)[(state.heading + way) % 4]
        moves = (action <= MOVE_RIGHT) & (state.kind[target[0], target[1]] != WALL)
        position = jnp.where(moves, target, state.position)

        here = position[0], position[1]
        at_exit = state.kind[here] == EXIT
        beacon_colour = jnp.max(jnp.where(state.kind == BEACON, state.colour, 0))
        good = state.colour[here] == beacon_colour
        reward = jnp.float32(-0.05) + jnp.where(at_exit, jnp.where(good, 5.0, -5.0), 0.0)
        return Step(RoomsState(state.kind, state.colour, position, heading), reward, at_exit)

    def first_observation(self, key: PRNGKeyArray, state: RoomsState) -> dict[str, Array]:
        ahead, right = (jnp.asarray(DIRECTIONS, jnp.int32)[(state.heading + turn) % 4] for turn in (0, 1))
        row, column = (state.position[i] + VIEW[..., 0] * ahead[i] + VIEW[..., 1] * right[i] for i in (0, 1))
        kind, colour = (layer[row, column] for layer in (state.kind, state.colour))
        grid = jnp.stack([kind, jnp.zeros_like(kind), colour], axis=-1)
        return {"grid": grid, "item": jnp.zeros(3, jnp.uint8)}

    def observe(self, key: PRNGKeyArray, state: RoomsState, action: Action, next_state: RoomsState) -> dict[str, Array]:
        return self.first_observation(key, next_state)

    def latent(self, state: RoomsState) -> dict[str, Array]:
        H, W = self.height, self.width
        size = jnp.array([H, W])
        place: Float[Array, "2"] = (2 * state.position - size + 1) / (size - 1)
        heading = jax.nn.one_hot(jnp.asarray(HEADING_IN_LATENT)[state.heading], 4)
        agent_here = (jnp.arange(H)[:, None] == state.position[0]) & (jnp.arange(W)[None, :] == state.position[1])
        return {
            "grid": jnp.stack([state.kind, jnp.zeros_like(state.kind), state.colour], axis=-1),
            "agent": jnp.concatenate([place, heading]),
            "item": jnp.zeros(3, jnp.uint8),
            "agent_id_grid": agent_here.astype(jnp.uint8),
        }

    def from_latent(self, latent: dict[str, Array]) -> RoomsState:
        size = jnp.array([self.height, self.width])
        grid, agent = jnp.asarray(latent["grid"], jnp.uint8), jnp.asarray(latent["agent"], jnp.float32)
        position = jnp.round((agent[:2] * (size - 1) + size - 1) / 2).astype(jnp.int32)
        heading = jnp.asarray(np.argsort(HEADING_IN_LATENT), jnp.int32)[jnp.argmax(agent[2:])]
        return RoomsState(grid[..., 0], grid[..., 2], position, heading)

    def latent_problem(self, latent: Any) -> str | None:
        if problem := super().latent_problem(latent):
            return problem
        kind, status, _ = np.moveaxis(np.asarray(latent["grid"]), -1, 0)
        agent = np.asarray(latent["agent"])
        size = np.array(kind.shape)
        place = (agent[:2] * (size - 1) + size - 1) / 2
        position = np.round(place).astype(int)
        border = np.concatenate([kind[0], kind[-1], kind[:, 0], kind[:, -1]])
        if not np.isin(kind, (FLOOR, WALL, EXIT, BEACON)).all():
            return "'grid' holds a type other than floor 2, wall 3, exit 4 and beacon 10"
        if status.any() or np.any(latent["item"]):
            return "the status channel of 'grid' and 'item' must be 0: there is nothing to open or to carry"
        if (border != WALL).any():
            return "'grid' is not closed by an outer wall"
        if np.sum(kind == BEACON) != 1:
            return f"'grid' has {np.sum(kind == BEACON)} beacons, expected 1"
        if np.abs(place - position).max() > 1e-3 or sorted(agent[2:]) != [0, 0, 0, 1]:
            return "'agent' must be the normalised row and column of a cell and a one-hot heading"
        if kind[tuple(position)] == WALL:
            return f"'agent' is in a wall, at row {position[0]}, column {position[1]}"
        here = np.zeros(kind.shape)
        here[tuple(position)] = 1
        if (np.asarray(latent["agent_id_grid"]) != here).any():
            return "'agent_id_grid' does not mark the agent's cell and only that one"
        return None


def _walls(H: int, W: int) -> np.ndarray:
    """The walls without their openings."""
    walls = np.zeros((H, W), bool)
    walls[[0, H // 2, -1]] = True
    walls[:, [0, W // 2, -1]] = True
    return walls


def _room_cells(H: int, W: int) -> np.ndarray:
    """The cells (row, column) inside the four rooms."""
    return np.argwhere(~_walls(H, W)).astype(np.int32)


def _distinct(draws: Int[Array, "k"]) -> Int[Array, "k"]:
    """Distinct indices below n from independent draws below n, n - 1, n - 2, ...: the i-th draw counts only the
    indices that are still free.
    """
    taken: list[Array] = []
    for i in range(draws.shape[0]):
        index = draws[i]
        for other in _sorted(taken):
            index = index + (index >= other)
        taken.append(index)
    return jnp.stack(taken)


def _sorted(values: list[Array]) -> list[Array]:
    # For thousands of worlds at once, a few exchanges are much faster than a general sort.
    values = list(values)
    for end in range(len(values) - 1, 0, -1):
        for i in range(end):
            low, high = jnp.minimum(values[i], values[i + 1]), jnp.maximum(values[i], values[i + 1])
            values[i], values[i + 1] = low, high
    return values
