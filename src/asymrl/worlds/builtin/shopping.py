"""Shopping: find an item in a shop, after asking where it is."""

from __future__ import annotations

import equinox as eqx
import numpy as np

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.probability_tables import Rows
from asymrl.worlds.spaces import Discrete
from asymrl.worlds.world import DEFAULT_TIME_LIMIT, Signal

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
