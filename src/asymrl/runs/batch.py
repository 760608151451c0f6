"""Which runs are trained together: their settings and seeds, in Python and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from asymrl.learning.settings import Settings
from asymrl.runs.files import RunError
from asymrl.runs.options import SETTINGS, checked_values

if TYPE_CHECKING:
    from asymrl.learning.compiled import CompiledProgram
    from asymrl.learning.numbers import Numbers

MOST_SEEDS = 2**32


@dataclass(frozen=True)
class Batch:
    """Runs that one compiled program trains: one setting and one seed each.

    The settings may differ in what does not change the program: learning rates, weights, steps.
    """

    settings: tuple[Settings, ...]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.seeds or len(self.settings) != len(self.seeds):
            raise ValueError(f"{len(self.settings)} settings and {len(self.seeds)} seeds: a run needs one of each")
        for seed in self.seeds:
            if not 0 <= seed < MOST_SEEDS:
                raise ValueError(f"seed {seed}: choose a whole number from 0 to {MOST_SEEDS - 1}")
        if len(set(zip(self.settings, self.seeds, strict=True))) < len(self.seeds):
            raise ValueError("two runs have the same seed and the same settings: their results would be the same")
        shapes = [settings.shape() for settings in self.settings]
        for shape in shapes:
            if shape != shapes[0]:
                names = ", ".join(name for name in SETTINGS if getattr(shape, name) != getattr(shapes[0], name))
                raise ValueError(f"runs that train together must agree in {names}; train these one after the other")

    @classmethod
    def product(cls, settings: Sequence[Settings], seeds: Sequence[int]) -> Batch:
        """Every one of the settings with every seed."""
        pairs = [(each, int(seed)) for each in settings for seed in seeds]
        return cls(tuple(each for each, _ in pairs), tuple(seed for _, seed in pairs))

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def first(self) -> Settings:
        return self.settings[0]

    @property
    def total_steps(self) -> int:
        return sum(settings.steps for settings in self.settings)

    def differing(self) -> tuple[str, ...]:
        """The settings in which the runs differ."""
        return tuple(name for name in SETTINGS if len({getattr(each, name) for each in self.settings}) > 1)

    def label(self, run: int) -> str:
        """What tells this run from the others."""
        settings = self.settings[run]
        return ", ".join([f"seed {self.seeds[run]}", *(f"{n}={getattr(settings, n)}" for n in self.differing())])

    def program(self) -> CompiledProgram:
        from asymrl.learning.factory import program

        return program(self.first)  # pyright: ignore[reportReturnType]

    def numbers(self) -> Numbers:
        from asymrl.learning.numbers import stack_numbers

        return stack_numbers(self.settings)

    def extended(self, steps: int) -> Batch:
        """The same runs, trained for longer. Their curves get more points at the same distance.

        They are then the runs that would have been, had they been started like that.
        """
        now, period = self.first.steps, self.first.log_period
        if len({settings.steps for settings in self.settings}) > 1:
            raise RunError("these runs were started with different numbers of steps; they can not be made longer")
        if steps < now:
            raise RunError(f"--steps {steps}: this run was started with {now} steps; it can only be made longer")
        if steps == now:
            return self
        if steps % period:
            below = steps // period * period
            raise RunError(
                f"--steps {steps}: the learning curve has a point every {period} steps, so choose a multiple of that, "
                f"such as {max(below, now)} or {below + period}"
            )
        longer = (replace(each, steps=steps, log_points=steps // period) for each in self.settings)
        return Batch(tuple(longer), self.seeds)

    def to_json(self) -> dict[str, Any]:
        """What the runs share, and for each its seed and what it has of its own."""
        own = self.differing()
        shared = {name: value for name, value in asdict(self.first).items() if name not in own}
        runs = [
            {"seed": seed, **{name: getattr(settings, name) for name in own}}
            for settings, seed in zip(self.settings, self.seeds, strict=True)
        ]
        return {"settings": shared, "runs": runs}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], where: str) -> Batch:
        """The inverse of `to_json`. Raises RunError, naming `where`, if the data are no such description."""
        try:
            shared, runs = dict(data["settings"]), [dict(run) for run in data["runs"]]
            seeds = tuple(run.pop("seed") for run in runs)
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{where}: does not describe runs: {error!r}") from error
        if not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
            raise RunError(f"{where}: the seeds must be whole numbers")
        values = [checked_values({**shared, **own}, where) for own in runs]
        try:
            return cls(tuple(Settings(**each) for each in values), seeds)
        except ValueError as error:
            raise RunError(f"{where}: {error}") from error
