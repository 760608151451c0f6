"""Runs: one training each, settings and a seed. The unit of work, of failure and of results."""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from asymrl.runs.files import RunError
from asymrl.runs.options import checked_values, preset_settings
from asymrl.runs.wording import listed, thousands
from asymrl.settings import SETTINGS, A2CSettings, DQNSettings, Settings, names_of, new_settings, own_values
from asymrl.settings.retired import without_retired

SEEDS = 2**32  # seeds are 0 to this, exclusive
MOST_KINDS = 100_000  # different settings in one store; reading each takes a fraction of a millisecond
MOST_LABELS = 3  # named in a message
MAY_GROW = ("steps", "log_points")  # a run may be made longer; every other setting stays

# The settings of a world and a method before the axes of a sweep are applied, such as tuned ones.
Base = Callable[[str, str], Mapping[str, Any]]


class Run(NamedTuple):
    """One training. Two runs with equal settings and seeds have equal results, if they start from equal networks."""

    settings: Settings
    seed: int

    def extended(self, steps: int) -> Run:
        """The same run, trained for longer. The result equals that of a run started with this length.

        Raises:
            RunError: if it would be shorter, its learning rate is annealed, or its learning curve would have points at
                other steps.
        """
        now, period = self.settings.steps, self.settings.log_period
        if steps < now:
            raise RunError(f"--steps {steps}: this run was started with {now} steps; it can only be made longer")
        if steps == now:
            return self
        if getattr(self.settings, "anneal", False):
            raise RunError(
                f"--steps {steps}: the learning rate of this run falls to zero at {now} steps, so a longer one is "
                "another run; start that, or train with --no-anneal"
            )
        if steps % period:
            below = steps // period * period
            raise RunError(
                f"--steps {steps}: the learning curve has a point every {period} steps, so choose a multiple of that, "
                f"such as {max(below, now)} or {below + period}"
            )
        points = max(self.settings.log_points, steps // period)  # a run may have fewer steps than points
        return Run(replace(self.settings, steps=steps, log_points=points), self.seed)

    @property
    def key(self) -> tuple[Any, ...]:
        """What identifies the run: equal for a run and for the same run made longer."""
        return (_lasting_settings(self.settings), self.seed)


@functools.lru_cache(maxsize=100_000)
def _lasting_settings(settings: Settings) -> tuple[Any, ...]:
    return tuple((name, getattr(settings, name)) for name in names_of(type(settings)) if name not in MAY_GROW)


def check_runs(runs: Sequence[Run]) -> None:
    """Raises ValueError unless these are runs that one store can hold."""
    if not runs:
        raise ValueError("no runs: choose at least one seed")
    for run in runs:
        if not 0 <= run.seed < SEEDS:
            raise ValueError(f"seed {run.seed}: choose a whole number from 0 to {SEEDS - 1}")
    _check_kinds(len({run.settings for run in runs}))
    twice, count = collections.Counter(run.key for run in runs).most_common(1)[0]
    if count > 1:
        seed = next(run.seed for run in runs if run.key == twice)
        raise ValueError(f"{count} runs have seed {seed} and the same settings: their results would be the same")


def _check_kinds(count: int) -> None:
    if count > MOST_KINDS:
        raise ValueError(
            f"{thousands(count)} different settings; a store holds runs of at most {thousands(MOST_KINDS)}"
        )


def check_beginnings(runs: Sequence[Run]) -> None:
    """Raises ValueError if a run would fill its replay beyond its size, or end before its policy learns anything."""
    for settings in (run.settings for run in runs):
        if isinstance(settings, A2CSettings) and settings.critic_first >= settings.steps:
            raise ValueError(
                f"critic_first is {settings.critic_first} and steps is {settings.steps}, so the actor would never "
                "learn; give a smaller critic_first or more steps"
            )
        if not isinstance(settings, DQNSettings):
            continue
        if settings.prefill > settings.replay_steps:
            raise ValueError(
                f"prefill is {settings.prefill}, more than the replay holds (replay_steps is {settings.replay_steps}); "
                f"give a smaller prefill or more replay_steps"
            )
        if settings.prefill >= settings.steps:
            raise ValueError(
                f"prefill is {settings.prefill} and steps is {settings.steps}, so {settings.method} would end before "
                f"it learns; give a smaller prefill or more steps"
            )


def product(
    worlds: Sequence[str], methods: Sequence[str], axes: Mapping[str, Sequence[Any]], seeds: Sequence[int], base: Base
) -> list[Run]:
    """Every world with every method, every combination of the axes, and every seed.

    Args:
        worlds: names of worlds.
        methods: names of methods.
        axes: values to try, by the names of `Settings`; they override those of `base`. A setting that only some of the
            learners have is tried with their methods.
        seeds: of the runs.
        base: other settings for a world and a method.

    Raises:
        ValueError: if an axis is not a setting, has no values, or has an invalid value.
    """
    for name, values in axes.items():
        if name in ("world", "method"):
            raise ValueError(f"{name} is not an axis of settings: name the {name}s of the sweep themselves")
        if not values:
            raise ValueError(f"the axis {name} has no values")
    runs = []
    for world, method in itertools.product(worlds, methods):
        defaults = checked_values(base(world, method), "settings", method)
        own = own_values(method, methods, axes)
        for values in itertools.product(*own.values()):
            overrides = checked_values(dict(zip(own, values, strict=True)), "settings", method)
            own_preset = preset_settings(overrides, method)
            settings = new_settings(**{**defaults, **own_preset, **overrides, "world": world, "method": method})
            runs += [Run(settings, int(seed)) for seed in seeds]
    return list(dict.fromkeys(runs))


def differing(runs: Iterable[Run]) -> tuple[str, ...]:
    """The settings in which the runs differ, among those whose learner has them."""
    settings = set(run.settings for run in runs)

    def values(name: str) -> set[Any]:
        return {getattr(each, name) for each in settings if hasattr(each, name)}

    return tuple(name for name in SETTINGS if len(values(name)) > 1)


def differing_by_choice(runs: Iterable[Run]) -> tuple[str, ...]:
    """The settings of `differing` that a user chose: world and method, and what differs where both are the same.

    The rest follows from these: what the paper tuned for them, a world's discount, defaults of a learner.
    """
    values: dict[tuple[str, str, str], set[Any]] = {}
    names = differing(runs := list(runs))
    for settings in {run.settings for run in runs}:
        for name in names:
            values.setdefault((settings.world, settings.method, name), set()).add(getattr(settings, name, None))
    choices = {name for (_, _, name), each in values.items() if len(each) > 1}
    return tuple(name for name in names if name in choices | {"world", "method"})


def label(run: Run, names: Sequence[str]) -> str:
    """A run in words: its seed, and its value of each of the named settings."""
    own = [name for name in names if hasattr(run.settings, name)]
    return ", ".join([f"seed {run.seed}", *(f"{name}={getattr(run.settings, name)}" for name in own)])


def labels(runs: Sequence[Run], numbers: Sequence[int]) -> str:
    """Some of these runs in words: the first three, and how many more. By their seeds, if that tells them apart."""
    is_one_kind = len({run.settings for run in runs}) == 1
    first = [label(runs[number], ()) if is_one_kind else full_label(runs[number]) for number in numbers[:MOST_LABELS]]
    return listed([*first, *([f"{len(numbers) - MOST_LABELS} more"] if len(numbers) > MOST_LABELS else [])])


def full_label(run: Run) -> str:
    """A run in words: world, method, seed and all settings that differ from the defaults."""
    usual = type(run.settings)()
    names = [name for name in names_of(type(usual)) if name not in ("world", "method")]
    own = [name for name in names if getattr(run.settings, name) != getattr(usual, name)]
    described = [f"{name}={getattr(run.settings, name)}" for name in own]
    return " ".join([run.settings.world, run.settings.method, *described, f"seed={run.seed}"])


def to_json(runs: Sequence[Run]) -> dict[str, Any]:
    """The settings that the runs share, and for each run its seed and its own settings."""
    kinds = {type(run.settings) for run in runs}
    everywhere = set.intersection(*(set(names_of(kind)) for kind in kinds)) - set(differing(runs))
    shared = {name: value for name, value in asdict(runs[0].settings).items() if name in everywhere}
    each = [{"seed": run.seed, **_without(run.settings, everywhere)} for run in runs]
    return {"settings": shared, "runs": each}


def _without(settings: Settings, names: Collection[str]) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in names_of(type(settings)) if name not in names}


def from_json(data: Mapping[str, Any], where: str) -> tuple[Run, ...]:
    """The inverse of `to_json`. Raises RunError, naming `where`, if the data do not describe runs."""
    try:
        shared, each = dict(data["settings"]), [dict(run) for run in data["runs"]]
        seeds = [run.pop("seed") for run in each]
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{where}: does not describe runs: {error!r}") from error
    if not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
        raise RunError(f"{where}: the seeds must be whole numbers")
    keys = [repr(own) for own in each]  # most runs share their settings
    kinds = dict(zip(keys, each, strict=True))
    checked: dict[str | None, dict[str, Any]] = {}  # what the runs of a method share
    settings_by_key: dict[str, Settings] = {}
    try:
        _check_kinds(len(kinds))
        shared = without_retired(shared)
        for key, own in kinds.items():
            own = without_retired(own)
            named = own.get("method", shared.get("method"))
            method = named if isinstance(named, str) else None  # anything else is refused with the other values
            if method not in checked:
                checked[method] = checked_values(shared, where, method)
            settings_by_key[key] = new_settings(**{**checked[method], **checked_values(own, where, method)})
        runs = [Run(settings_by_key[key], seed) for key, seed in zip(keys, seeds, strict=True)]
        check_runs(runs)
    except RunError:
        raise
    except ValueError as error:
        raise RunError(f"{where}: {error}") from error
    return tuple(runs)
