"""T-maze: a cue at the start of a corridor, and a junction at its end where the cue says which way to turn."""

from __future__ import annotations

import equinox as eqx
import numpy as np

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.probability_tables import Rows
from asymrl.worlds.registry import corridor_time_limit
from asymrl.worlds.spaces import Discrete
from asymrl.worlds.world import Signal

NORTH, EAST, SOUTH, WEST = range(4)
UP, DOWN, CORRIDOR, JUNCTION = range(4)  # observations


class TMaze(FiniteWorld):
    """T-maze-n (Bakker, "Reinforcement Learning with Long Short-Term Memory", NIPS 2001).

    The start is cell 0, the junction is cell n, n moves to the east. The state is `side * (n + 1) + cell`, where the
    goal is north of the junction for side 0 and south for side 1. The start shows the side (`up` or `down`), the
    cells of the corridor all look the same, and so do both junctions.

    Turning north or south at the junction ends the episode, with the reward `goal` on the right side and `wrong` on
    the other. An action that leaves the agent where it is has the reward `bump`. All other rewards are 0.
    """

    n: int = eqx.field(static=True)

    def __init__(
        self,
        n: int = 10,
        *,
        goal: float | int = 4.0,
        wrong: float | int = -0.1,
        bump: float | int = -0.1,
        discount: float = 0.98,
        time_limit: int | str | None = "auto",
    ):
        """`time_limit="auto"` is 100, or twice the shortest way to the goal if that is longer."""
        if n < 1:
            raise ValueError(f"t-maze-{n}: the corridor needs at least one cell; try t-maze-10")
        limit = corridor_time_limit(n) if time_limit == "auto" else time_limit
        if isinstance(limit, str):
            raise ValueError(f"t-maze-{n}: time_limit is {limit!r}, expected a positive whole number, none or auto")
        self.n = n
        cells = n + 1
        side, cell = np.divmod(np.arange(2 * cells), cells)

        moved = np.stack([cell, np.minimum(cell + 1, n), cell, np.maximum(cell - 1, 0)], 1)
        rewards = np.where(moved == cell[:, None], bump, 0.0)
        ends = np.zeros((2 * cells, 4), bool)
        for turn, right_side in ((NORTH, 0), (SOUTH, 1)):
            ends[cell == n, turn] = True
            rewards[cell == n, turn] = np.where(side[cell == n] == right_side, goal, wrong)
        observed = np.where(cell == 0, side, np.where(cell == n, JUNCTION, CORRIDOR))

        super().__init__(
            name=f"t-maze-{n}",
            transitions=Rows.deterministic(side[:, None] * cells + moved, 2 * cells),
            observations=Rows.deterministic(np.tile(observed, 4), 4),
            first_observations=Rows.deterministic(observed, 4),
            rewards=rewards,
            ends=ends,
            start=np.where(cell == 0, 0.5, 0.0),
            state_names=[f"{way}_{cell}" for way in ("north", "south") for cell in range(cells)],
            action_names=["north", "east", "south", "west"],
            observation_names=["up", "down", "corridor", "junction"],
            discount=discount,
            time_limit=limit,
        )

    def signals(self) -> dict[str, Signal]:
        cells = self.n + 1
        return super().signals() | {
            "goal-side": Signal(lambda s: s // cells, Discrete(2), "which way the goal is: 0 north, 1 south"),
            "position": Signal(lambda s: s % cells, Discrete(cells), "the agent's cell"),
        }
