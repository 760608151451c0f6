"""Training from Python: `asymrl.train`, `asymrl.resume`, and what they give back.

>>> import asymrl
>>> result = asymrl.train("heaven-hell-3", method="a2c-asym-hs", seeds=5)
>>> result.metrics
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asymrl.learning.settings import Settings
from asymrl.paper import tuned
from asymrl.runs.batch import Batch
from asymrl.runs.files import StorageError
from asymrl.runs.folder import RunFolder, free_folder
from asymrl.runs.options import checked_values, settings_from_file

if TYPE_CHECKING:
    import polars as pl

    from asymrl.learning.state import RunState
    from asymrl.models.agent import Actor, Critic
    from asymrl.runs.listeners import Listener
    from asymrl.runs.trainer import Outcome, Pace
    from asymrl.worlds.world import World


@dataclass(frozen=True)
class Result:
    """Runs that were trained, in memory and in their folder."""

    folder: Path
    batch: Batch
    runs: RunState
    """Everything in the runs, every array with a leading axis `run`."""

    @property
    def metrics(self) -> pl.DataFrame:
        """The learning curves, one row per run and point."""
        return RunFolder.open(self.folder).metrics()

    @property
    def actor(self) -> Actor:
        """The actors, `[run, ...]`."""
        return self.runs.actor

    @property
    def critic(self) -> Critic:
        """The critics, `[run, ...]`."""
        return self.runs.critic

    @property
    def failed(self) -> list[int]:
        """Which of the runs stopped because a loss, a gradient or a parameter was not finite."""
        import numpy as np

        return np.flatnonzero(np.asarray(self.runs.failed)[: len(self.batch)]).tolist()

    def plot(self, path: str | PathLike[str] | None = None) -> Path:
        """Draws the learning curve into a file, by default `curve.png` in the folder."""
        from asymrl.report.curves import save_learning_curve
        from asymrl.report.summary import comparable

        path = Path(path) if path is not None else self.folder / "curve.png"
        try:
            save_learning_curve(self.metrics, path, references=comparable(self._runs_table()))
        except OSError as error:
            raise StorageError(f"{path}: can not be written: {error.strerror or error}") from error
        return path

    def summary(self) -> str:
        """The return that was reached, beside those of a random and the best known policy."""
        from asymrl.report.summary import summary

        return summary(self._runs_table())

    def _runs_table(self) -> pl.DataFrame:
        """A row for each run: what it is, how far it came, and what it reached."""
        import numpy as np
        import polars as pl

        from asymrl.engine.statistics import final_returns
        from asymrl.learning.state import METRICS
        from asymrl.runs.progress import Snapshot

        snapshot, settings = Snapshot.of(self.runs, len(self.batch)), self.batch.settings
        shown = dict.fromkeys(["world", "method", "time_limit", *self.batch.differing()])
        points = np.minimum(snapshot.logged, snapshot.curve.shape[1])
        rows = np.repeat(np.arange(len(points)), points)
        curve = snapshot.curve[np.arange(snapshot.curve.shape[1])[None] < points[:, None]]
        curves = {name: curve[:, METRICS.index(name)] for name in ("timestep", "return")}
        table = pl.DataFrame({"run": rows, "steps": np.asarray([each.steps for each in settings])[rows], **curves})
        finals = dict(final_returns(table).select("run", "final").rows())
        returns, lengths = snapshot.means()
        return pl.DataFrame(
            {
                **{name: [getattr(each, name) for each in settings] for name in shown},
                "seed": self.batch.seeds,
                "status": np.where(snapshot.failed, "failed", "complete").tolist(),
                "timesteps": snapshot.timesteps,
                "updates": snapshot.updates,
                "final_return": [finals.get(run) for run in range(len(points))],
                "recent_return": returns,
                "recent_length": lengths,
            }
        )


def train(
    world: str | World | Settings | Sequence[Settings],
    method: str = Settings.method,
    *,
    seeds: int | Sequence[int] = 5,
    out: str | PathLike[str] | None = None,
    listener: Listener | None = None,
    pace: Pace | None = None,
    **settings: Any,
) -> Result:
    """Trains many runs at once, one per seed, and keeps them in a folder.

    Args:
        world: the name of a world, or a world of your own, which is then known by its name in this process; or complete
            settings, of which several are trained together, each with every seed.
        method: what the critic reads and how long the memory is.
        seeds: how many (0, 1, ...), or which.
        out: the folder; by default `runs/WORLD-METHOD`, with a number if there is one already.
        listener: follows the training; by default what suits the terminal.
        pace: how often to look at the runs and to write checkpoints.
        **settings: fields of `Settings`; others are as the paper tuned them for this world and method, or the default.

    Raises:
        ValueError: if a setting is not possible, or `out` already holds a run.
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
    batch = Batch.product(chosen, range(seeds) if isinstance(seeds, int) else seeds)
    folder = new_folder(batch, out)
    try:
        outcome = run_folder(folder, listener, pace)
    finally:
        folder.release()
    return _result(folder, outcome)


def _known_by_name(world: World, settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Registers a world under its own name; the name, and the settings with the world's time limit and discount."""
    from asymrl.adapters.sources import register
    from asymrl.worlds.world import World

    if not isinstance(world, World):
        raise TypeError(f"{world!r} is no world; give a name such as 'heaven-hell-3', a World, or Settings")
    register(world.name, lambda time_limit=world.time_limit: world.with_time_limit(time_limit))
    own = {"discount": world.discount} | ({} if world.time_limit is None else {"time_limit": world.time_limit})
    return world.name, own | settings


def resume(
    path: str | PathLike[str],
    *,
    steps: int | None = None,
    listener: Listener | None = None,
    pace: Pace | None = None,
) -> Result:
    """Goes on with the runs in a folder, to their end or for more steps than they were started with."""
    folder = RunFolder.take(Path(path))
    try:
        if steps is not None:
            folder.extend(steps)
        outcome = run_folder(folder, listener, pace)
    finally:
        folder.release()
    return _result(folder, outcome)


def load(path: str | PathLike[str]) -> Result:
    """The runs in a folder as their last checkpoint has them, without training them any further."""
    from asymrl.runs import loaded

    found = loaded.load(path)
    return Result(Path(path), found.batch, found.runs)


def settings_for(world: str, method: str, **settings: Any) -> Settings:
    """The given settings, then those that the paper tuned or the world's file has, then the defaults."""
    known = {**settings_from_file(world), **(tuned(world, method) or {}), **checked_values(settings, "settings")}
    return Settings(**{"world": world, "method": method, **known})


def new_folder(batch: Batch, out: str | PathLike[str] | None) -> RunFolder:
    """A folder for these runs, whose world is known to exist."""
    from asymrl.learning.state import training_world

    training_world(batch.first)
    path = Path(out) if out is not None else free_folder(batch.first.world, batch.first.method)
    return RunFolder.create(path, batch)


def run_folder(folder: RunFolder, listener: Listener | None, pace: Pace | None) -> Outcome:
    """Trains the runs of a folder that was taken."""
    from asymrl.runs.display import display
    from asymrl.runs.trainer import Pace, train_folder

    return train_folder(folder, listener or display(), pace or Pace())


def _result(folder: RunFolder, outcome: Outcome) -> Result:
    if outcome.interrupted is not None:
        raise KeyboardInterrupt(f"{outcome.interrupted.name}: go on with asymrl.resume({str(folder.path)!r})")
    return Result(folder.path, folder.batch, outcome.runs)
