"""Memory-Four-Rooms, with things on cells and a heading as a vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Cell = tuple[int, int]

FLOOR, WALL, EXIT, BEACON = 2, 3, 4, 10
RED, GREEN, BLUE, YELLOW = 1, 2, 3, 4
PALETTES = {4: (RED, GREEN, BLUE, YELLOW), 2: (BLUE, YELLOW)}
HEADINGS = ((-1, 0), (1, 0), (0, 1), (0, -1))  # north, south, east, west, as (rows, columns)
FORWARD, BACKWARD, MOVE_LEFT, MOVE_RIGHT, TURN_LEFT, TURN_RIGHT, ACTUATE, PICK_N_DROP = range(8)


@dataclass(frozen=True)
class Layout:
    """All that is drawn at the start of an episode, but for the agent: it stays the same to the end."""

    height: int
    width: int
    openings: tuple[Cell, Cell, Cell, Cell]
    beacon: Cell
    good: Cell
    bad: Cell
    good_colour: int
    bad_colour: int

    def thing(self, cell: Cell) -> tuple[int, int, int]:
        """Type, status and colour of a cell."""
        if is_wall(self.height, self.width, self.openings, cell):
            return WALL, 0, 0
        things = {
            self.beacon: (BEACON, 0, self.good_colour),
            self.good: (EXIT, 0, self.good_colour),
            self.bad: (EXIT, 0, self.bad_colour),
        }
        return things.get(cell, (FLOOR, 0, 0))


@dataclass(frozen=True)
class Agent:
    cell: Cell
    heading: Cell

    def right(self) -> Cell:
        """The direction to the right: facing north (rows fall), east (columns grow) is on the right."""
        return self.heading[1], -self.heading[0]


def wall_pieces(height: int, width: int) -> list[list[Cell]]:
    """The four inner wall pieces: left and right of the wall row, top and bottom of the wall column."""
    row, column = height // 2, width // 2
    return [
        [(row, c) for c in range(1, column)],
        [(row, c) for c in range(column + 1, width - 1)],
        [(r, column) for r in range(1, row)],
        [(r, column) for r in range(row + 1, height - 1)],
    ]


def is_wall(height: int, width: int, openings: tuple[Cell, ...], cell: Cell) -> bool:
    inner = cell[0] == height // 2 or cell[1] == width // 2
    outer = cell[0] in (0, height - 1) or cell[1] in (0, width - 1)
    return outer or (inner and cell not in openings)


def free_cells(height: int, width: int, openings: tuple[Cell, ...]) -> list[Cell]:
    cells = [(r, c) for r in range(height) for c in range(width)]
    return [cell for cell in cells if not is_wall(height, width, openings, cell)]


def plus(one: Cell, other: Cell, times: int = 1) -> Cell:
    return one[0] + times * other[0], one[1] + times * other[1]


def step(layout: Layout, agent: Agent, action: int) -> tuple[Agent, float, bool]:
    """The agent afterwards, the reward and whether the episode ends."""
    right = agent.right()
    left = (-right[0], -right[1])
    back = (-agent.heading[0], -agent.heading[1])
    moves = {FORWARD: agent.heading, BACKWARD: back, MOVE_LEFT: left, MOVE_RIGHT: right}
    turns = {TURN_LEFT: left, TURN_RIGHT: right}
    cell = agent.cell
    if action in moves:
        target = plus(agent.cell, moves[action])
        cell = agent.cell if layout.thing(target)[0] == WALL else target
    reward = -0.05
    if cell == layout.good:
        reward += 5.0
    if cell == layout.bad:
        reward -= 5.0
    return Agent(cell, turns.get(action, agent.heading)), reward, cell in (layout.good, layout.bad)


def latent(layout: Layout, agent: Agent) -> dict[str, np.ndarray]:
    height, width = layout.height, layout.width
    here = np.zeros((height, width), np.uint8)
    here[agent.cell] = 1
    row, column = agent.cell
    place = [(2 * row - height + 1) / (height - 1), (2 * column - width + 1) / (width - 1)]
    heading = [float(agent.heading == direction) for direction in HEADINGS]
    return {
        "grid": np.array([[layout.thing((r, c)) for c in range(width)] for r in range(height)], np.uint8),
        "agent": np.array(place + heading, np.float32),
        "item": np.zeros(3, np.uint8),
        "agent_id_grid": here,
    }


def observe(layout: Layout, agent: Agent) -> dict[str, np.ndarray]:
    """The row in front of the agent and its own row, from left to right as the agent faces them."""
    right = agent.right()
    rows = [
        [layout.thing(plus(plus(agent.cell, agent.heading, ahead), right, aside)) for aside in (-1, 0, 1)]
        for ahead in (1, 0)
    ]
    return {"grid": np.array(rows, np.uint8), "item": np.zeros(3, np.uint8)}


def reachable(height: int, width: int, openings: tuple[Cell, ...], start: Cell, closed: Cell) -> set[Cell]:
    """The cells that can be reached without stepping on the closed one."""
    seen, front = {start}, [start]
    while front:
        cell = front.pop()
        for direction in HEADINGS:
            target = plus(cell, direction)
            if target not in seen and target != closed and not is_wall(height, width, openings, target):
                seen.add(target)
                front.append(target)
    return seen
