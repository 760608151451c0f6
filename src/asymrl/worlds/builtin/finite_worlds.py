"""Heaven-Hell, Shopping, Good/Bad and Tiger: worlds given by their tables."""

from __future__ import annotations

import equinox as eqx
import numpy as np

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.spaces import Discrete
from asymrl.worlds.tables import Rows
from asymrl.worlds.world import DEFAULT_TIME_LIMIT, Signal

NORTH, SOUTH, EAST, WEST = range(4)


class HeavenHell(FiniteWorld):
    """Heaven-Hell-n (paper, appendix "Heaven-Hell").

    The corridor has 4n + 2 cells: 0 the start, 1..n north to the fork, then n cells west and n cells east to
    the exits, the corner 3n + 1 south of the start, and n cells east from there to the priest. The state is
    `side * (4n + 2) + cell`, where side 0 has heaven in the west. The agent observes its cell, except at the
    priest, where it observes the side of heaven.

    The reward, +1 in heaven and -1 in hell, is for any action taken *from* an exit: the agent reaches the exit and
    observes it before the episode ends.
    """

    n: int = eqx.field(static=True)

    def __init__(self, n: int = 3, *, discount: float = 0.99, time_limit: int | None = DEFAULT_TIME_LIMIT):
        if n < 1:
            raise ValueError(f"heaven-hell-{n}: the corridors need at least one cell; try heaven-hell-3")
        self.n = n
        cells = 4 * n + 2
        west_exit, east_exit, priest = 2 * n, 3 * n, 4 * n + 1
        move = corridor_moves(n)
        side, cell = np.divmod(np.arange(2 * cells), cells)

        observed = np.where(cell == priest, priest + side, cell)
        in_exit = (cell == west_exit) | (cell == east_exit)
        in_heaven = cell == np.where(side == 0, west_exit, east_exit)
        reward = np.where(in_exit, np.where(in_heaven, 1.0, -1.0), 0.0)

        super().__init__(
            name=f"heaven-hell-{n}",
            transitions=Rows.deterministic(side[:, None] * cells + move[cell], 2 * cells),
            observations=Rows.deterministic(np.tile(observed, 4), cells + 1),
            rewards=np.tile(reward[:, None], 4),
            ends=np.tile(in_exit[:, None], 4),
            start=np.where(cell == 0, 0.5, 0.0),
            state_names=[str(i) for i in range(2 * cells)],
            action_names=["N", "S", "E", "W"],
            observation_names=[f"o{i}" for i in range(priest)] + ["left", "right"],
            discount=discount,
            time_limit=time_limit,
        )

    def signals(self) -> dict[str, Signal]:
        cells = 4 * self.n + 2
        priest = 4 * self.n + 1
        return super().signals() | {
            "heaven-side": Signal(lambda s: s // cells, Discrete(2), "which exit is heaven: 0 west, 1 east"),
            "position": Signal(lambda s: s % cells, Discrete(cells), "the agent's cell"),
            "at-priest": Signal(
                lambda s: (s % cells == priest).astype("int32"), Discrete(2), "whether the agent is at the priest"
            ),
        }


def corridor_moves(n: int) -> np.ndarray:
    """The cell `[cell, action]` that each action leads to; a move into a wall stays."""
    fork, corner = n, 3 * n + 1
    passages = [(cell, NORTH, cell + 1) for cell in range(n)]
    passages += [(cell if cell > fork else fork, WEST, cell + 1) for cell in range(fork, 2 * n)]
    passages += [(cell if cell > 2 * n else fork, EAST, cell + 1) for cell in range(2 * n, 3 * n)]
    passages += [(0, SOUTH, corner)] + [(cell, EAST, cell + 1) for cell in range(corner, 4 * n + 1)]
    opposite = {NORTH: SOUTH, SOUTH: NORTH, EAST: WEST, WEST: EAST}
    move = np.tile(np.arange(4 * n + 2)[:, None], 4)
    for here, direction, there in passages:
        move[here, direction] = there
        move[there, opposite[direction]] = here
    return move


def corridor_map(n: int) -> np.ndarray:
    """Coordinates (x, y) of each cell, y growing north, the start at (0, 0)."""
    steps = np.arange(1, n + 1)
    parts = [
        np.stack([0 * steps, steps], 1),
        np.stack([-steps, 0 * steps + n], 1),
        np.stack([steps, 0 * steps + n], 1),
        np.array([[0, -1]]),
        np.stack([steps, 0 * steps - 1], 1),
    ]
    return np.concatenate([np.zeros((1, 2), int), *parts])


QUERY, LEFT, RIGHT, UP, DOWN, BUY = range(6)


class Shopping(FiniteWorld):
    """Shopping-n (paper, appendix "Shopping") on an n x n grid.

    A position is `x * n + y`, the state `position of the agent * n^2 + position of the item`. The agent starts
    in the corner (0, 0) and observes its own position, or the item's after a query (index `n^2 + position`). A move
    costs 1 (also into a wall), a query 2, a purchase in the wrong place 5; the right one earns 10 and ends the
    episode.
    """

    n: int = eqx.field(static=True)

    def __init__(self, n: int = 5, *, discount: float = 0.99, time_limit: int | None = DEFAULT_TIME_LIMIT):
        if n < 2:
            raise ValueError(f"shopping-{n}: the shop needs at least 2 x 2 cells; try shopping-5")
        self.n = n
        cells = n * n
        agent, item = np.divmod(np.arange(cells * cells), cells)
        x, y = np.divmod(agent, n)

        def at(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return np.clip(x, 0, n - 1) * n + np.clip(y, 0, n - 1)

        moved = np.stack([agent, at(x - 1, y), at(x + 1, y), at(x, y + 1), at(x, y - 1), agent], 1)
        rewards = np.tile(np.array([-2.0, -1.0, -1.0, -1.0, -1.0, -5.0]), (cells * cells, 1))
        ends = np.zeros((cells * cells, 6), bool)
        ends[agent == item, BUY] = True
        rewards[ends] = 10.0

        position_names = [f"{x}_{y}" for x in range(n) for y in range(n)]
        super().__init__(
            name=f"shopping-{n}",
            transitions=Rows.deterministic(moved * cells + item[:, None], cells * cells),
            observations=Rows.deterministic(np.stack([cells + item, *[agent] * 5]), 2 * cells),
            rewards=rewards,
            ends=ends,
            start=np.where(agent == 0, 1 / cells, 0.0),
            state_names=[f"agent_{a}_item_{i}" for a in position_names for i in position_names],
            action_names=["query", "left", "right", "up", "down", "buy"],
            observation_names=[f"agent_{a}" for a in position_names] + [f"item_{i}" for i in position_names],
            discount=discount,
            time_limit=time_limit,
        )

    def signals(self) -> dict[str, Signal]:
        cells = self.n * self.n
        return super().signals() | {
            "item": Signal(lambda s: s % cells, Discrete(cells), "where the item is"),
            "position": Signal(lambda s: s // cells, Discrete(cells), "where the agent is"),
        }


class GoodBad(FiniteWorld):
    """The good/bad POMDP of the paper's appendix, the example for the bias of V(s).

    The state never changes. The good state always emits GOOD, the bad one either observation with equal probability,
    also before the first action. The action GOOD has reward 1 in both states.
    """

    def __init__(self, *, discount: float = 0.99, time_limit: int | None = DEFAULT_TIME_LIMIT):
        emits = np.array([[1.0, 0.0], [0.5, 0.5]])
        super().__init__(
            name="good-bad",
            transitions=Rows.deterministic(np.array([[0, 0], [1, 1]]), 2),
            observations=Rows.from_dense(np.stack([emits, emits])),
            rewards=np.array([[1.0, 0.0], [1.0, 0.0]]),
            ends=np.zeros((2, 2), bool),
            start=np.array([0.5, 0.5]),
            state_names=["good", "bad"],
            action_names=["good", "bad"],
            observation_names=["good", "bad"],
            first_observations=Rows.from_dense(emits),
            discount=discount,
            time_limit=time_limit,
        )


class Tiger(FiniteWorld):
    """The tiger problem: listen (85 % correct, costs 1) or open a door (reward 10, or -100 if the tiger is there).

    After a door is opened, the tiger is behind a random door again; with `episodic`, the episode ends instead.
    """

    episodic: bool = eqx.field(static=True)

    def __init__(self, *, episodic: bool = False, discount: float = 0.95, time_limit: int | None = DEFAULT_TIME_LIMIT):
        self.episodic = episodic
        listen = np.eye(2)
        uniform = np.full((2, 2), 0.5)
        hears = np.array([[0.85, 0.15], [0.15, 0.85]])
        super().__init__(
            name="tiger",
            transitions=Rows.from_dense(np.stack([listen, uniform, uniform], 1)),
            observations=Rows.from_dense(np.stack([hears, uniform, uniform])),
            rewards=np.array([[-1.0, -100.0, 10.0], [-1.0, 10.0, -100.0]]),
            ends=np.array([[False, episodic, episodic]] * 2),
            start=np.array([0.5, 0.5]),
            state_names=["tiger-left", "tiger-right"],
            action_names=["listen", "open-left", "open-right"],
            observation_names=["obs-left", "obs-right"],
            discount=discount,
            time_limit=time_limit,
        )
