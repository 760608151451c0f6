"""Everything that the command does, from Python: train, sweep, compare, and what comes out of them.

>>> import asymrl
>>> runs = asymrl.train("heaven-hell-3", method="a2c-asym-hs", seeds=5)
>>> runs.metrics
>>> runs.evaluate()
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asymrl.engine.files import StorageError
from asymrl.engine.options import checked_values, resolve
from asymrl.engine.placement import Pace, Placement
from asymrl.engine.runs import Run, product
from asymrl.engine.store import RUNS_FILE, Store, free_folder, read_table
from asymrl.learning.methods import METHODS
from asymrl.learning.settings import Settings
from asymrl.paper import tuned

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from asymrl.agents.policy import Policy
    from asymrl.agents.trained import TrainedRun, TrainedRuns
    from asymrl.engine.driver import Outcome
    from asymrl.engine.listeners import Listener
    from asymrl.report.comparison import MethodRow
    from asymrl.worlds.world import World

NETWORKS_KEPT = 300  # runs of a store whose networks are kept, unless something else is asked for; each has some MB


class Runs:
    """Runs in a folder: their learning curves, their agents, and ways to use both."""

    def __init__(self, folder: str | PathLike[str]):
        """Raises RunError if there are no runs in this folder."""
        self.folder = Path(folder)
        self._store = Store.open(self.folder)

    def __len__(self) -> int:
        return len(self._store)

    def __repr__(self) -> str:
        from asymrl.engine.display import title

        return f"Runs({str(self.folder)!r}: {title(self.runs)})"

    @property
    def runs(self) -> tuple[Run, ...]:
        """The settings and the seed of each run."""
        return self._store.runs

    @property
    def metrics(self) -> pl.DataFrame:
        """The learning curves, one row per run and point."""
        return self._store.metrics()

    @property
    def table(self) -> pl.DataFrame:
        """One row per run: its settings, how far it came, and what it reached."""
        return read_table(self.folder, RUNS_FILE)

    @property
    def failed(self) -> list[int]:
        """The numbers of the runs that stopped because a loss, a gradient or a parameter was not finite."""
        return [number for number, result in self._store.results().items() if result.status == "failed"]

    def load(self, where: Mapping[str, Any] | None = None, seed: int | None = None) -> list[TrainedRuns]:
        """The runs with their networks, grouped by what can be computed together; all, or those with these settings."""
        from asymrl.agents.trained import choose_runs, load_trained

        return load_trained(self._store, choose_runs(self.runs, where or {}, seed))

    def best(self, where: Mapping[str, Any] | None = None, seed: int | None = None) -> TrainedRun:
        """The run with the best return of its last 100 episodes, with its networks."""
        from asymrl.agents.trained import best_run

        return best_run(self._store, seed, where)

    def policy(self, seed: int | None = None, generator: np.random.Generator | None = None) -> Policy:
        """The best agent, or that with this seed, ready to act: `reset()`, then `act(observation)`."""
        from asymrl.agents.policy import Policy

        return Policy(self.folder, run_seed=seed, generator=generator)

    def evaluate(self, episodes: int = 1000, *, greedy: bool = False, seed: int = 0) -> pl.DataFrame:
        """How good each agent is in so many episodes, a row per run: means and standard errors over episodes."""
        from asymrl.agents.evaluation import evaluation_table

        return evaluation_table(self.load(), episodes=episodes, greedy=greedy, seed=seed)

    def summary(self) -> str:
        """The returns that were reached, beside those of a random and the best known policy."""
        from asymrl.report.summary import summary

        return summary(self.table)

    def plot(self, path: str | PathLike[str] | None = None) -> Path:
        """Draws the learning curves into a file, by default `curve.png` in the folder."""
        from asymrl.report.curves import save_learning_curve
        from asymrl.report.summary import comparable

        path = Path(path) if path is not None else self.folder / "curve.png"
        try:
            metrics = self.metrics
            save_learning_curve(metrics, path, references=comparable(metrics))
        except OSError as error:
            raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error
        return path

    def render(
        self, path: str | PathLike[str], *, seed: int = 0, run_seed: int | None = None, greedy: bool = False
    ) -> Path:
        """Draws an episode of the best agent, or that with this seed: a .gif film, or a .png of the last moment."""
        from asymrl.report.films import film_of_run

        film_of_run(self.best(seed=run_seed), seed=seed, greedy=greedy).save(Path(path))
        return Path(path)

    def export(self, path: str | PathLike[str], *, run_seed: int | None = None) -> Path:
        """Writes the best policy, or that with this seed, for other programs: an .onnx or .npz file."""
        from asymrl.export.saving import export_run

        export_run(self.best(seed=run_seed), Path(path))
        return Path(path)

    def resume(self, *, steps: int | None = None, **how: Any) -> Runs:
        """Goes on with the runs; see `asymrl.resume`."""
        return resume(self.folder, steps=steps, **how)


def train(
    world: str | World | Settings | Sequence[Settings],
    method: str = Settings.method,
    *,
    seeds: int | Sequence[int] = 5,
    out: str | PathLike[str] | None = None,
    listener: Listener | None = None,
    pace: Pace | None = None,
    placement: Placement | None = None,
    **settings: Any,
) -> Runs:
    """Trains runs, one per seed, and keeps them in a folder.

    Args:
        world: the name of a world, or a world of your own, which is then known by its name in this process; or complete
            settings, each of which is trained with every seed.
        method: what the critic reads and how long the memory is.
        seeds: how many (0, 1, ...), or which.
        out: the folder; by default `runs/WORLD-METHOD`, with a number if there is one already.
        listener: follows the training; by default what suits the terminal.
        pace: how often to look at the runs and to write checkpoints.
        placement: where to train.
        **settings: fields of `Settings`; others are as the paper tuned them for this world and method, or the default.

    Raises:
        ValueError: if a setting is not possible, or `out` already holds runs.
        KeyboardInterrupt: on Ctrl-C, after a checkpoint; `resume` goes on from there.
    """
    if not isinstance(world, str | Settings | Sequence):
        world, settings = _known_by_name(world, settings)
    if isinstance(world, str):
        chosen: Sequence[Settings] = [settings_for(world, method, **settings)]
    elif settings or method != Settings.method:
        raise ValueError("these settings are complete; change them with dataclasses.replace")
    else:
        chosen = [world] if isinstance(world, Settings) else list(world)
    runs = [Run(each, int(seed)) for each in chosen for seed in _seeds(seeds)]
    return _trained(new_store(runs, out), listener, pace, placement)


def resume(
    folder: str | PathLike[str],
    *,
    steps: int | None = None,
    listener: Listener | None = None,
    pace: Pace | None = None,
    placement: Placement | None = None,
) -> Runs:
    """Goes on with the runs in a folder, to their end or for more steps than they were started with."""
    store = Store.take(Path(folder))
    try:
        if steps is not None:
            store.extend(steps)
    except BaseException:
        store.release()
        raise
    return _trained(store, listener, pace, placement)


def load(folder: str | PathLike[str]) -> Runs:
    """The runs in a folder, to look at and to use."""
    return Runs(folder)


def sweep(
    worlds: str | Sequence[str],
    methods: str | Sequence[str] = Settings.method,
    *,
    out: str | PathLike[str],
    seeds: int | Sequence[int] = 5,
    axes: Mapping[str, Sequence[Any]] | None = None,
    listener: Listener | None = None,
    pace: Pace | None = None,
    placement: Placement | None = None,
    keep_networks: bool | None = None,
    **settings: Any,
) -> Runs:
    """Trains every world with every method, every combination of `axes` and every seed. Again, it does what is missing.

    Args:
        worlds: names of worlds.
        methods: names of methods.
        out: the folder.
        seeds: how many (0, 1, ...), or which.
        axes: values to try, by the names of `Settings`.
        listener: follows the training; by default what suits the terminal.
        pace: how often to look at the runs and to write checkpoints.
        placement: where to train.
        keep_networks: whether the networks of finished runs are kept; by default if there are at most 300.
        **settings: other settings of all runs.
    """
    wanted = {**{name: [value] for name, value in settings.items()}, **(axes or {})}
    runs = sweep_runs(_listed(worlds), _listed(methods), wanted, _seeds(seeds))
    store = Store.take_or_create(Path(out), runs, keeps_networks=keeps_networks(runs, keep_networks))
    return _trained(store, listener, pace, placement)


def compare(
    world: str,
    methods: Sequence[str] = METHODS,
    *,
    seeds: int | Sequence[int] = 5,
    steps: int = 200_000,
    out: str | PathLike[str] | None = None,
    listener: Listener | None = None,
    pace: Pace | None = None,
    placement: Placement | None = None,
    **settings: Any,
) -> Comparison:
    """Trains methods side by side in a world and says which critic to use there.

    Args:
        world: its name.
        methods: to compare; those that need a latent state are left out where there is none.
        seeds: how many (0, 1, ...), or which; at least two.
        steps: of each run.
        out: the folder; by default `runs/compare-WORLD`. Runs that are there are not trained again.
        listener: follows the training; by default what suits the terminal.
        pace: how often to look at the runs and to write checkpoints.
        placement: where to train.
        **settings: other settings of all runs.
    """
    folder = Path(out) if out is not None else compare_folder(world)
    runs, _ = comparison_runs(world, methods, _seeds(seeds), {**settings, "steps": steps})
    return compared(world, _trained(Store.take_or_create(folder, runs), listener, pace, placement))


class Comparison(NamedTuple):
    """Methods that were trained side by side in a world."""

    world: str
    runs: Runs
    rows: list[MethodRow]
    """What each method has reached, with 95 % intervals."""
    method: str
    """The one to use."""
    advice: str
    """Why."""


def compared(world: str, runs: Runs) -> Comparison:
    """What runs of several methods in one world say about them."""
    from asymrl.report.comparison import choose, on_privilege, rows_of, scores_of
    from asymrl.report.reasons import reasons
    from asymrl.worlds.registry import make

    scores = scores_of(runs.metrics)
    choice = choose(scores)
    sentences = [choice.reason, on_privilege(scores), reasons(make(world))]
    return Comparison(world, runs, rows_of(scores), choice.method, " ".join(filter(None, sentences)))


def comparison_runs(
    world: str, methods: Sequence[str], seeds: Sequence[int], settings: Mapping[str, Any]
) -> tuple[list[Run], dict[str, str]]:
    """The runs of a comparison, and why methods are left out.

    Raises:
        ValueError: if no method is left, a method stands twice, or one seed is all there is.
    """
    from asymrl.worlds.registry import make
    from asymrl.worlds.stepped_world import SteppedWorld

    if len(seeds) < 2:
        raise ValueError(f"{len(seeds)} seeds: at least 2 are needed, as one run says nothing about others")
    if len(set(methods)) < len(methods):
        raise ValueError("methods: the same method is named twice")
    env = make(world)
    no_state = env.without_latent if isinstance(env, SteppedWorld) else None
    chosen = {method: settings_for(world, method, **settings) for method in methods}
    left_out = {method: no_state for method, each in chosen.items() if no_state and "s" in each.how.reads}
    runs = [Run(each, seed) for method, each in chosen.items() if method not in left_out for seed in seeds]
    if not runs:
        raise ValueError("no method is left to train; a2c needs no latent state")
    return runs, left_out


def compare_folder(world: str) -> Path:
    return Path("runs") / re.sub(r"[^\w.-]+", "-", f"compare-{world}")


def settings_for(world: str, method: str, **settings: Any) -> Settings:
    """The given settings, then those that the paper tuned or the world brings along, then the defaults."""
    return Settings(**resolve(world, method, settings, tuned=tuned(world, method)))


def sweep_runs(
    worlds: Sequence[str], methods: Sequence[str], axes: Mapping[str, Sequence[Any]], seeds: Sequence[int]
) -> list[Run]:
    """The runs of a sweep; settings that are not in `axes` are as in `settings_for`."""
    return product(
        worlds, methods, axes, seeds, lambda world, method: resolve(world, method, tuned=tuned(world, method))
    )


def keeps_networks(runs: Sequence[Run], wanted: bool | None) -> bool:
    """Whether a new store keeps the networks of its runs."""
    return len(runs) <= NETWORKS_KEPT if wanted is None else wanted


def new_store(runs: Sequence[Run], out: str | PathLike[str] | None) -> Store:
    """A store for these runs, whose worlds are known to exist."""
    from asymrl.learning.state import training_world

    for shape in {run.settings.shape() for run in runs}:
        training_world(shape)
    first = runs[0].settings
    return Store.create(Path(out) if out is not None else free_folder(first.world, first.method), runs)


def train_taken(
    store: Store,
    listener: Listener | None = None,
    pace: Pace | None = None,
    placement: Placement | None = None,
    **how: Any,
) -> Outcome:
    """Trains the runs of a store that was taken, and releases it."""
    from asymrl.engine.display import display
    from asymrl.engine.driver import train_store

    try:
        return train_store(store, listener or display(), pace=pace or Pace(), placement=placement or Placement(), **how)
    finally:
        store.release()


def _trained(store: Store, listener: Listener | None, pace: Pace | None, placement: Placement | None) -> Runs:
    outcome = train_taken(store, listener, pace, placement)
    if outcome.interrupted is not None:
        raise KeyboardInterrupt(f"{outcome.interrupted.name}: go on with asymrl.resume({str(store.path)!r})")
    return Runs(store.path)


def _known_by_name(world: World, settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Registers a world under its own name; the name, and the settings with the world's time limit and discount."""
    from asymrl.adapters.sources import register
    from asymrl.worlds.world import World

    if not isinstance(world, World):
        raise TypeError(f"{world!r} is not a world; give a name such as 'heaven-hell-3', a World, or Settings")
    register(world.name, lambda time_limit=world.time_limit: world.with_time_limit(time_limit))
    own = {"discount": world.discount} | ({} if world.time_limit is None else {"time_limit": world.time_limit})
    return world.name, own | checked_values(settings, "settings")


def _seeds(seeds: int | Sequence[int]) -> Sequence[int]:
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    if not len(chosen):
        raise ValueError("no seeds: train at least one run")
    return chosen


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names
