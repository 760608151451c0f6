"""`asymrl compare`: which critic should be used in this problem?"""

from __future__ import annotations

import json
import re
import signal
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from asymrl.cli.usage import UsageError, is_run, world_named
from asymrl.learning.methods import METHODS

if TYPE_CHECKING:
    from asymrl.learning.settings import Settings
    from asymrl.report.comparison import MethodRow
    from asymrl.runs.batch import Batch
    from asymrl.runs.trainer import Outcome

WIDTH = 100


@dataclass(frozen=True)
class Compare:
    """Train the methods side by side in a world, and say which critic to use there.

    Every method has a run folder of its own under --out. The same command goes on where it was stopped; with more
    --steps, runs that are finished are made longer.
    """

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD")]
    """Name of the world, a .pomdp file, file.py:Name, or the id of a Gymnasium environment."""

    methods: tuple[str, ...] = METHODS
    """Methods to compare."""
    seeds: int = 5
    """How many runs of each; at least 2, as there are no intervals otherwise."""
    steps: int = 200_000
    """Steps of each run."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Other settings of all runs, such as memory_size=64 actor_rate=0.001."""
    out: Path | None = None
    """Folder of the comparison. None: runs/compare-WORLD."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints."""

    def run(self) -> int:
        out = self.out or Path("runs") / re.sub(r"[^\w.-]+", "-", f"compare-{self.world}")
        chosen = self._possible()
        for settings in chosen:
            outcome = self._train(settings, out / settings.method)
            if outcome.interrupted is not None:
                print(f"Stopped; everything so far is in {out}. To go on: the same command")
                return 128 + signal.Signals(outcome.interrupted)
        return self._report([out / settings.method for settings in chosen], out)

    def _possible(self) -> list[Settings]:
        """The settings of each method; those that can not be trained here are left out, with a line."""
        from asymrl.cli.sweep import axis
        from asymrl.training import settings_for
        from asymrl.worlds.stepped_world import SteppedWorld

        if self.seeds < 2:
            raise UsageError(f"--seeds {self.seeds}: at least 2 are needed, as one run says nothing about others")
        if len(set(self.methods)) < len(self.methods):
            raise UsageError("--methods: the same method is named twice")
        axes = dict(axis(text) for text in self.set)
        if several := [name for name, values in axes.items() if len(values) != 1]:
            raise UsageError(f"--set {several[0]}: give one value; `asymrl sweep` tries several")
        env = world_named(self.world)
        blind = env.without_latent if isinstance(env, SteppedWorld) else None
        chosen = []
        try:
            given: dict[str, Any] = {name: values[0] for name, values in axes.items()} | {"steps": self.steps}
            for method in self.methods:
                settings = settings_for(self.world, method, **given)
                if blind and "s" in settings.how.reads:
                    print(f"{method} is left out: its critic needs a latent state. {blind}")
                else:
                    chosen.append(settings)
        except ValueError as error:
            raise UsageError(str(error)) from error
        if not chosen:
            raise UsageError("no method is left to train; a2c needs no latent state")
        return chosen

    def _train(self, settings: Settings, path: Path) -> Outcome:
        from asymrl.runs.batch import Batch
        from asymrl.runs.files import StorageError
        from asymrl.runs.folder import RunFolder
        from asymrl.runs.trainer import Pace
        from asymrl.training import new_folder, run_folder

        try:
            batch = Batch.product([settings], range(self.seeds))
            folder = RunFolder.take(path) if is_run(str(path)) else new_folder(batch, path)
        except (ValueError, StorageError) as error:
            raise UsageError(str(error)) from error
        try:
            if not _same_but_for_steps(folder.batch, batch):
                raise UsageError(f"{path}: holds runs with other settings or seeds; choose another --out")
            folder.extend(self.steps)
            return run_folder(folder, None, Pace(checkpoint_seconds=self.checkpoint_seconds))
        except (ValueError, StorageError) as error:
            raise UsageError(str(error)) from error
        finally:
            folder.release()

    def _report(self, paths: list[Path], out: Path) -> int:
        import polars as pl

        from asymrl.engine.wording import thousands
        from asymrl.report.comparison import choose, on_privilege, rows_of, scores_of, table
        from asymrl.report.curves import save_learning_curve
        from asymrl.report.reasons import reasons
        from asymrl.report.summary import comparable
        from asymrl.runs.folder import RunFolder

        metrics = pl.concat([RunFolder.open(path).metrics() for path in paths], how="vertical_relaxed")
        scores = scores_of(metrics.with_columns(steps=pl.lit(self.steps)))
        rows, choice = rows_of(scores), choose(scores)
        said = [choice.reason, on_privilege(scores), reasons(world_named(self.world))]
        advice = " ".join(sentence for sentence in said if sentence)
        first = RunFolder.open(paths[0]).batch.first
        limits = pl.DataFrame({"time_limit": [first.time_limit]})
        save_learning_curve(metrics, out / "curves.png", references=comparable(limits))
        found = {"world": self.world, "use": choice.method, "advice": advice, "methods": [_plain(row) for row in rows]}
        (out / "comparison.json").write_text(json.dumps(found, indent=1) + "\n")
        print(f"\n{self.world}: {self.seeds} runs of each method, {thousands(self.steps)} steps each; 95 % intervals")
        print(f"\n{table(rows)}\n\n{textwrap.fill(advice, WIDTH, break_on_hyphens=False)}\n")
        print(f"learning curves {out / 'curves.png'}\nnumbers         {out / 'comparison.json'}\n\nnext:")
        print(f"asymrl evaluate {out / choice.method}\nasymrl export {out / choice.method} -o policy.npz")
        return 0


def _same_but_for_steps(one: Batch, other: Batch) -> bool:
    steps = {"steps": other.first.steps, "log_points": other.first.log_points}
    return one.seeds == other.seeds and all(replace(each, **steps) == other.first for each in one.settings)


def _plain(row: MethodRow) -> dict[str, Any]:
    """A row of the table for JSON."""
    found = row._asdict()
    return {name: part._asdict() if hasattr(part, "_asdict") else part for name, part in found.items()}
