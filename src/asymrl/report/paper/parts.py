"""The parts of the paper's evaluation: the runs that each of them needs, and what is measured in these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from asymrl.runs.files import RunError
from asymrl.runs.runs import Run, product
from asymrl.settings.hyperparameters import (
    AUTHORS,
    PAPER_WORLDS,
    Steps,
    budget,
    grid,
    steps_in,
    steps_of,
    tuned,
)
from asymrl.settings.methods import PAPER_METHODS

if TYPE_CHECKING:
    from asymrl.report.paper.fork import ForkProbe

Part = Literal["curves", "critics", "grid"]
CRITIC_WORLD = "heaven-hell-4"
POINTS = 200  # of a learning curve, and measurements of a critic
GRID_STEPS = 2_000_000


class Extent(NamedTuple):
    """How much of a part to reproduce."""

    worlds: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int
    steps: Steps | None = None
    """Of each run, or by world. None: the budget of its world; in a grid, 2 million."""


WHOLE = {
    "curves": Extent(PAPER_WORLDS, PAPER_METHODS, 20),
    "critics": Extent((CRITIC_WORLD,), PAPER_METHODS[:3], 20),
    "grid": Extent(PAPER_WORLDS, ("a2c-asym-hs",), 20),
}
# What fits into a quarter of an hour on two cores: the three critics in the world where they differ most.
QUICK = {
    "curves": Extent(("heaven-hell-3",), PAPER_METHODS[:3], 2, 800_000),
    "critics": Extent((CRITIC_WORLD,), PAPER_METHODS[:3], 2, 800_000),
    "grid": Extent(("heaven-hell-3",), ("a2c-asym-hs",), 1, 50_000),
}


def extent(
    part: Part,
    worlds: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int | None = None,
    steps: int | Literal["authors"] | None = None,
    *,
    quick: bool = False,
) -> Extent:
    """How much of a part of the paper to reproduce; None means as in the paper, or as in its quick version.

    `steps` may be "authors": as many as their scripts take, see `authors_budget`.

    Raises:
        ValueError: if a part, world or method is not in the paper, or an argument does not fit the part.
    """
    if part not in WHOLE:
        raise ValueError(f"{part}: the parts are {', '.join(WHOLE)}")
    if steps == AUTHORS and part == "grid":
        raise ValueError(f"steps {AUTHORS}: for curves and critics only; the paper's grid search has 2 million")
    if steps == AUTHORS and quick:
        raise ValueError(f"steps {AUTHORS}: not in the quick version, which is short")
    lengths = None if steps is None else steps_of(steps)
    arguments = {"worlds": worlds, "methods": methods, "seeds": seeds, "steps": lengths}
    overrides = {name: tuple(v) if isinstance(v, Sequence) else v for name, v in arguments.items() if v is not None}
    for name in ("worlds", "methods"):
        if overrides.get(name) == ():
            raise ValueError(f"no {name}: name at least one")
    scope = (QUICK if quick else WHOLE)[part]._replace(**overrides)
    for world in scope.worlds:
        if world not in PAPER_WORLDS:
            raise ValueError(f"{world}: the paper has {', '.join(PAPER_WORLDS)}")
    for method in scope.methods:
        if method not in PAPER_METHODS:
            raise ValueError(f"{method}: the paper has {', '.join(PAPER_METHODS)}")
    if scope.seeds < 1:
        raise ValueError(f"{scope.seeds} seeds: train at least one run")
    if part == "critics" and scope.worlds != (CRITIC_WORLD,):
        raise ValueError(f"{scope.worlds[0]}: the critics' values are those of four histories of {CRITIC_WORLD}")
    return scope


def runs_of(part: Part, wanted: Extent) -> list[Run]:
    """The runs of a part."""
    make = grid_runs if part == "grid" else curve_runs
    return make(wanted.worlds, wanted.methods, range(wanted.seeds), wanted.steps)


def curve_runs(
    worlds: Sequence[str], methods: Sequence[str], seeds: Sequence[int], steps: Steps | None = None
) -> list[Run]:
    """Figure 3: the tuned settings, trained for the budget of each world, or for this many steps."""
    runs: list[Run] = []
    for world in worlds:
        axes = {"steps": [budget(world) if steps is None else steps_in(world, steps)], "log_points": [POINTS]}
        runs += product([world], methods, axes, seeds, lambda world, method: tuned(world, method) or {})
    return runs


def grid_runs(
    worlds: Sequence[str], methods: Sequence[str], seeds: Sequence[int], steps: Steps | None = None
) -> list[Run]:
    """The grid search: 3 x 3 x 5 settings for every world and method."""
    runs: list[Run] = []
    for world in worlds:
        axes = {**grid(world), "steps": [GRID_STEPS if steps is None else steps_in(world, steps)]}
        runs += product([world], methods, axes | {"log_points": [POINTS]}, seeds, lambda world, method: {})
    return runs


def probes_of(part: Part, wanted: Extent) -> dict[str, ForkProbe]:
    """What is measured during training: the critics' values at the fork of Heaven-Hell-4. Nothing in a grid search."""
    from asymrl.report.paper.fork import ForkProbe

    if part == "grid":
        return {}
    steps = steps_in(CRITIC_WORLD, wanted.steps or budget(CRITIC_WORLD))
    return {CRITIC_WORLD: ForkProbe(n=4, every=max(1, steps // POINTS))}


def probes_from_json(data: Mapping[str, Any]) -> dict[str, ForkProbe]:
    """The probes that a store records for its runs. Raises RunError if they are damaged."""
    from asymrl.report.paper.fork import ForkProbe

    try:
        return {world: ForkProbe(n=int(each["n"]), every=int(each["every"])) for world, each in data.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"the probes in settings.json are damaged: {error!r}") from error
