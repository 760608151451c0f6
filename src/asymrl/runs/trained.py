"""Trained runs with their networks, read back from their store."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from asymrl.learners.program import program
from asymrl.learners.state import RunState
from asymrl.runs.arrays import joined
from asymrl.runs.files import RunError
from asymrl.runs.runs import Run, labels
from asymrl.runs.states import from_saved
from asymrl.runs.statistics import recent_mean
from asymrl.runs.store import Store
from asymrl.runs.wording import listed
from asymrl.settings import SETTINGS, Settings
from asymrl.worlds.name_options import PREFIX
from asymrl.worlds.registry import arguments_of
from asymrl.worlds.world import World


class TrainedRuns(NamedTuple):
    """Runs of one shape, from their last checkpoints."""

    numbers: tuple[int, ...]
    """In their store."""
    runs: tuple[Run, ...]
    states: RunState
    """Networks, counters and curves, with a leading axis `run`; shapes in place of optimisers and targets."""
    world: World
    """The world that they were trained in, with their time limit."""

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @property
    def settings(self) -> tuple[Settings, ...]:
        return tuple(run.settings for run in self.runs)

    def recent_returns(self) -> np.ndarray:
        """The mean return of the last 100 training episodes of each run; -inf before the first, to be nobody's best."""
        episodes, returns = np.asarray(self.states.episodes), np.asarray(self.states.recent_returns)
        means = [recent_mean(*each) for each in zip(returns, episodes.tolist(), strict=True)]
        return np.where(episodes > 0, means, -np.inf)

    def one(self, row: int) -> TrainedRun:
        """One of the runs."""
        arrays, static = eqx.partition(self.states, eqx.is_array)
        state = eqx.combine(jax.tree.map(lambda leaf: leaf[row], arrays), static)
        run = self.runs[row]
        return TrainedRun(state, run.settings, run.seed, self.world, float(self.recent_returns()[row]))


class TrainedRun(NamedTuple):
    """One run, its world, and the mean return of its last 100 training episodes."""

    state: RunState
    settings: Settings
    seed: int
    world: World
    recent_return: float
    """-inf before the first episode is over."""

    @property
    def recent_return_text(self) -> str:
        """The recent return as text."""
        return f"{self.recent_return:.3g}" if np.isfinite(self.recent_return) else "unknown, as no episode was over"


class NoNetworksError(RunError):
    """Runs are over, but their networks are gone."""


def load_trained(store: Store | str | os.PathLike[str], numbers: Sequence[int] | None = None) -> list[TrainedRuns]:
    """The runs of a store with their networks, finished or not, grouped by shape.

    Args:
        store: the store, or its folder.
        numbers: the runs to load. None: all.

    Raises:
        RunError: if there are no runs, no checkpoint yet, or none that is sound.
    """
    store = store if isinstance(store, Store) else Store.open(Path(store))
    run_numbers = list(range(len(store))) if numbers is None else list(numbers)
    store.make_ready(run_numbers)
    groups: dict[Settings, list[tuple[int, Any]]] = {}
    for held, saved in store.saved(run_numbers, _warn):
        for row, number in enumerate(held):
            groups.setdefault(saved.runs[row].settings.shape(), []).append((number, saved.only([row])))
    if not groups and not store.keeps_networks:
        raise _not_kept(store)
    lost = _lost(store, set(run_numbers) - {number for parts in groups.values() for number, _ in parts})
    if not groups and lost:
        raise NoNetworksError(f"{lost}; bring its files back from a copy, or train these runs again elsewhere")
    if not groups:
        raise RunError(f"{store.path}: no checkpoint yet; begin with `asymrl resume {store.path}`")
    if lost:
        _warn(f"{lost}; left out")
    loaded = []
    for shape, parts in groups.items():
        parts.sort(key=lambda part: part[0])
        run_program, saved = program(shape), joined([each for _, each in parts])
        try:
            states = from_saved(run_program, saved, to_train=False)
        except ValueError as error:
            raise RunError(f"{store.checkpoints.folder}: does not fit these settings: {error}") from error
        loaded.append(TrainedRuns(tuple(number for number, _ in parts), saved.runs, states, run_program.world))
    return loaded


def _warn(text: str) -> None:
    print(text, file=sys.stderr)  # what goes to stdout may be JSON


def _lost(store: Store, without: Collection[int]) -> str:
    """Which of these runs are over although they have no networks, as a file was damaged or removed; empty if none."""
    try:
        results = store.results()
    except RunError:  # the tables are damaged too
        return ""
    lost = [number for number in sorted(without) if number in results and results[number].is_over]
    has = "has" if len(lost) == 1 else "have"
    return f"{labels(store.runs, lost)} {has} no intact network in {store.checkpoints.folder}" if lost else ""


def _not_kept(store: Store) -> RunError:
    return RunError(
        f"{store.path}: the networks of its runs were not kept, only their learning curves; train with "
        "--keep-networks to keep them"
    )


def choose_runs(runs: Sequence[Run], where: Mapping[str, Any], seed: int | None = None) -> list[int]:
    """The numbers of the runs with this seed and these values of settings.

    Raises:
        RunError: if there are none.
    """
    for name in where:
        if name not in SETTINGS and not name.startswith(PREFIX):
            raise RunError(f"unknown setting {name!r}; there are {', '.join(SETTINGS)}")

    def is_wanted(run: Run) -> bool:
        return all(_same(_setting(run, name), value) for name, value in where.items())

    matches = [n for n, run in enumerate(runs) if (seed is None or run.seed == seed) and is_wanted(run)]
    if not matches:
        if seed is not None and not where:
            seeds = ", ".join(map(str, sorted({run.seed for run in runs})))
            raise RunError(f"there is no run with the seed {seed}; the seeds are {seeds}")
        raise RunError(f"no run has {_asked(where, seed)}; {_present(runs, where)}")
    return matches


def _setting(run: Run, name: str) -> Any:
    """A setting of a run, or an argument of its environment, `env.NAME`; None if it has none."""
    if name.startswith(PREFIX):
        return arguments_of(run.settings.world).get(name.removeprefix(PREFIX))
    return getattr(run.settings, name, None)


def _asked(where: Mapping[str, Any], seed: int | None) -> str:
    return ", ".join(
        [*(f"{name}={value}" for name, value in where.items()), *([] if seed is None else [f"seed {seed}"])]
    )


def _present(runs: Sequence[Run], where: Mapping[str, Any]) -> str:
    """The values that the runs have of these settings."""
    there = {name: sorted({str(value) for run in runs if (value := _setting(run, name)) is not None}) for name in where}
    return "; ".join(
        f"{name} is {listed(values, 'or')}" if values else f"none has {name}" for name, values in there.items()
    )


def _same(value: Any, target: Any) -> bool:
    """Whether a setting has this value, which may be text from a command line."""
    if isinstance(value, float) and isinstance(target, str):
        try:
            return value == float(target)
        except ValueError:
            return False
    if isinstance(value, tuple) and isinstance(target, str) and ":".join(map(str, value)) == target:
        return True  # hidden=64:64, as `--set` takes it and tables show it
    return value == target or str(value) == str(target)


def best_run(
    store: Store | str | os.PathLike[str], seed: int | None = None, where: Mapping[str, Any] | None = None
) -> TrainedRun:
    """The run with the best recent return, among those with this seed and these settings.

    Raises:
        RunError: if there is none, or the runs are of several worlds, whose returns cannot be compared.
    """
    store = store if isinstance(store, Store) else Store.open(Path(store))
    numbers = choose_runs(store.runs, where or {}, seed)
    worlds = sorted({store.runs[number].settings.world for number in numbers})
    if len(worlds) > 1:
        if not store.keeps_networks and not any(store.checkpoints.folder.glob("*.json")):
            raise _not_kept(store)  # choosing a world would not help
        raise RunError(
            f"runs in {listed(worlds)}; choose a world with --where, such as --where world={worlds[0]}, "
            f'in Python where={{"world": "{worlds[0]}"}}'
        )
    returns = {n: store.results()[n].recent_return for n in numbers if n in store.results()}
    returns = {n: value for n, value in returns.items() if np.isfinite(value)}
    if len(returns) == len(numbers):  # the tables say which run is best, so that only that one is loaded
        with contextlib.suppress(NoNetworksError):  # then the best of the others
            return load_trained(store, [max(numbers, key=lambda n: (returns[n], -n))])[0].one(0)
    loaded = load_trained(store, numbers)
    scored = [
        (score, -group.numbers[row], group, row)
        for group in loaded
        for row, score in enumerate(group.recent_returns().tolist())
    ]
    _, _, group, row = max(scored, key=lambda each: each[:2])
    return group.one(row)
