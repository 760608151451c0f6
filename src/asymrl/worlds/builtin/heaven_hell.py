"""Heaven-Hell: a corridor with two exits, and a priest who knows which one is heaven."""

from __future__ import annotations

import equinox as eqx
import numpy as np

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.probability_tables import Rows
from asymrl.worlds.spaces import Discrete
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
