"""The runs of the paper's evaluation, as cells of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from asymrl.paper.tuned import budget, grid, tuned
from asymrl.sweeps.cells import Cell, product

if TYPE_CHECKING:
    from asymrl.paper.fork import ForkProbe

CRITIC_WORLD = "heaven-hell-4"
POINTS = 200  # of a learning curve, and measurements of a critic
GRID_STEPS = 2_000_000


def curve_cells(
    worlds: Sequence[str], methods: Sequence[str], seeds: Sequence[int], steps: int | None = None
) -> list[Cell]:
    """Figure 3: the tuned settings, trained for as long as in the paper, or for so many steps."""
    cells: list[Cell] = []
    for world in worlds:
        axes = {"steps": [budget(world) if steps is None else steps], "log_points": [POINTS]}
        cells += product([world], methods, axes, seeds, lambda world, method: tuned(world, method) or {})
    return cells


def grid_cells(
    worlds: Sequence[str], methods: Sequence[str], seeds: Sequence[int], steps: int | None = None
) -> list[Cell]:
    """The grid search: 3 x 3 x 5 settings for every world and method."""
    cells: list[Cell] = []
    for world in worlds:
        axes = {**grid(world), "steps": [GRID_STEPS if steps is None else steps], "log_points": [POINTS]}
        cells += product([world], methods, axes, seeds, lambda world, method: {})
    return cells


def has_short_episodes(world: str, method: str) -> bool:
    """Whether episodes get short once something is learned, and updates small: as the shipped runs show.

    Where processes share a GPU, small updates wait behind large ones, unless they go first.
    """
    return world.startswith("shopping") or (world.startswith("heaven-hell") and method == "a2c-asym-hs")


def probes(steps: int | None = None) -> dict[str, ForkProbe]:
    """What is measured during training: the critics' values at the fork of Heaven-Hell-4."""
    from asymrl.paper.fork import ForkProbe

    return {CRITIC_WORLD: ForkProbe(n=4, every=max(1, (steps or budget(CRITIC_WORLD)) // POINTS))}
