"""The runs of the paper's evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asymrl.engine.runs import Run, product
from asymrl.paper.tuned import budget, grid, tuned

if TYPE_CHECKING:
    from asymrl.paper.fork import ForkProbe

CRITIC_WORLD = "heaven-hell-4"
POINTS = 200  # of a learning curve, and measurements of a critic
GRID_STEPS = 2_000_000


def curve_runs(
    worlds: Sequence[str], methods: Sequence[str], seeds: Sequence[int], steps: int | None = None
) -> list[Run]:
    """Figure 3: the tuned settings, trained for as long as in the paper, or for so many steps."""
    runs: list[Run] = []
    for world in worlds:
        axes = {"steps": [budget(world) if steps is None else steps], "log_points": [POINTS]}
        runs += product([world], methods, axes, seeds, lambda world, method: tuned(world, method) or {})
    return runs


def grid_runs(
    worlds: Sequence[str], methods: Sequence[str], seeds: Sequence[int], steps: int | None = None
) -> list[Run]:
    """The grid search: 3 x 3 x 5 settings for every world and method."""
    runs: list[Run] = []
    for world in worlds:
        axes = {**grid(world), "steps": [GRID_STEPS if steps is None else steps], "log_points": [POINTS]}
        runs += product([world], methods, axes, seeds, lambda world, method: {})
    return runs


def probes(steps: int | None = None) -> dict[str, ForkProbe]:
    """What is measured during training: the critics' values at the fork of Heaven-Hell-4."""
    from asymrl.paper.fork import ForkProbe

    return {CRITIC_WORLD: ForkProbe(n=4, every=max(1, (steps or budget(CRITIC_WORLD)) // POINTS))}


def probes_from_json(data: Mapping[str, Any]) -> dict[str, ForkProbe]:
    """The probes that a store says its runs are measured with."""
    from asymrl.paper.fork import ForkProbe

    return {world: ForkProbe(n=int(each["n"]), every=int(each["every"])) for world, each in data.items()}
