"""What a sweep consists of: cells, each one run of one setting with one seed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from asymrl.learning.settings import Settings
from asymrl.runs.batch import Batch
from asymrl.runs.options import checked_values

# The settings that are known before the axes of a sweep are: those tuned for a world and a method, for example.
Base = Callable[[str, str], Mapping[str, Any]]


class Cell(NamedTuple):
    """One run of a sweep. Two cells are the same run exactly if they are equal."""

    settings: Settings
    seed: int


def product(
    worlds: Sequence[str], methods: Sequence[str], axes: Mapping[str, Sequence[Any]], seeds: Sequence[int], base: Base
) -> list[Cell]:
    """Every world with every method, every combination of the axes, and every seed.

    Args:
        worlds: names of worlds.
        methods: names of methods.
        axes: values to try, by the names of `Settings`; they win over those of `base`.
        seeds: of the runs.
        base: other settings for a world and a method.

    Raises:
        ValueError: if an axis is no setting, has no value, or a value that is not possible.
    """
    for name, values in axes.items():
        if name in ("world", "method"):
            raise ValueError(f"{name} is no axis of settings: name the {name}s of the sweep themselves")
        if not values:
            raise ValueError(f"the axis {name} has no values")
    found = []
    for world, method in itertools.product(worlds, methods):
        known = checked_values(base(world, method), "settings")
        for values in itertools.product(*axes.values()):
            chosen = checked_values(dict(zip(axes, values, strict=True)), "settings")
            settings = Settings(**{**known, **chosen, "world": world, "method": method})
            found += [Cell(settings, int(seed)) for seed in seeds]
    return list(dict.fromkeys(found))


def by_shape(cells: Iterable[Cell]) -> dict[Settings, list[Cell]]:
    """The cells that one program can train together, in the order in which they came."""
    groups: dict[Settings, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.settings.shape(), []).append(cell)
    return groups


def batch_of(cells: Sequence[Cell]) -> Batch:
    return Batch(tuple(cell.settings for cell in cells), tuple(cell.seed for cell in cells))


def cells_of(batch: Batch) -> list[Cell]:
    return [Cell(settings, seed) for settings, seed in zip(batch.settings, batch.seeds, strict=True)]
