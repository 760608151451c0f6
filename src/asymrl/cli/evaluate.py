"""`asymrl evaluate`: how good a trained run is."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from asymrl.cli.usage import UsageError, load_run

if TYPE_CHECKING:
    from rich.table import Table

    from asymrl.runs.evaluation import Estimate, Evaluation, Yardstick
    from asymrl.runs.loaded import LoadedRun


NARROWEST = 80  # columns that the table needs


@dataclass(frozen=True)
class Evaluate:
    """Play episodes with the policies of a run: returns, lengths, how the episodes ended."""

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN", name="run")]
    """Folder of the run."""

    episodes: Annotated[int, tyro.conf.arg(metavar="N")] = 1000
    """Episodes of each seed."""

    greedy: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Take the most likely action each time."""

    sampled: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Sample the actions as in training. This is what happens unless --greedy is given."""

    seed: int = 0
    """Seed of the episodes."""

    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print JSON for other programs instead of a table."""

    def run(self) -> int:
        if self.greedy and self.sampled:
            raise UsageError("--greedy and --sampled exclude each other; choose one")
        if self.episodes < 1:
            raise UsageError(f"--episodes {self.episodes}: at least 1 is needed")
        loaded = load_run(self.run_folder)

        from asymrl.runs.evaluation import evaluate_runs, over_seeds, play, yardstick

        outcomes = play(
            loaded.env,
            loaded.runs.actor,
            loaded.seeds,
            [settings.discount for settings in loaded.settings],
            episodes=self.episodes,
            seed=self.seed,
            greedy=self.greedy,
        )
        reference = yardstick(loaded.settings[0])
        each = evaluate_runs(outcomes, reference)
        if self.json:
            print(json.dumps(self._report(loaded, reference, each, over_seeds(each)), indent=1))
        else:
            self._print(loaded, reference, each, over_seeds(each))
        return 0

    def _report(
        self, loaded: LoadedRun, reference: Yardstick | None, each: list[Evaluation], overall: Evaluation
    ) -> dict[str, Any]:
        settings = loaded.settings[0]
        return {
            "run": str(self.run_folder),
            "world": settings.world,
            "method": settings.method,
            "episodes": self.episodes,
            "actions": "greedy" if self.greedy else "sampled",
            "seed": self.seed,
            "discount": settings.discount,
            "reference": reference._asdict() if reference else None,
            "runs": [
                {"seed": seed, **_as_json(evaluation)} for seed, evaluation in zip(loaded.seeds, each, strict=True)
            ],
            "over_seeds": _as_json(overall),
        }

    def _print(
        self, loaded: LoadedRun, reference: Yardstick | None, each: list[Evaluation], overall: Evaluation
    ) -> None:
        from rich.console import Console

        console = Console(highlight=False)
        console.width = max(console.width, NARROWEST)  # a number cut short would be a wrong number
        settings = loaded.settings[0]
        how = "the most likely actions" if self.greedy else "sampled actions"
        console.print(f"{settings.world}, {settings.method}: {self.episodes} episodes of each seed, {how}\n")
        console.print(_table(loaded, each, overall))
        notes = ["±: standard error over episodes; in the last line, over seeds."]
        if reference:
            notes.append(
                f"normalised: 0 is a random policy ({reference.random:.4g}), 1 the best known ({reference.best:.4g})."
            )
        notes.append(f"discounted: by {settings.discount:g}. ended: by the world. cut: by the time limit.")
        console.print("\n" + "\n".join(notes), style="dim")


def _table(loaded: LoadedRun, each: list[Evaluation], overall: Evaluation) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("seed", style="bold", no_wrap=True)
    columns = ["return", "normalised", "discounted", "length", "ended", "cut"]
    if overall.normalised is None:
        columns.remove("normalised")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)

    def row(name: str, evaluation: Evaluation) -> None:
        normalised = [_shown(evaluation.normalised)] if evaluation.normalised else []
        ends = [f"{100 * share:.0f} %" for share in (evaluation.terminated, evaluation.truncated)]
        estimates = [_shown(evaluation.discounted), _shown(evaluation.length, digits=1)]
        table.add_row(name, _shown(evaluation.returns), *normalised, *estimates, *ends)

    alike = not loaded.batch.differing()
    for i, (seed, evaluation) in enumerate(zip(loaded.seeds, each, strict=True)):
        row(str(seed) if alike else loaded.batch.label(i), evaluation)
    if len(each) > 1 and alike:
        table.add_section()
        row("mean", overall)
    return table


def _shown(estimate: Estimate, digits: int | None = None) -> str:
    """Mean and standard error, with fewer decimals for larger numbers."""
    if digits is None:
        digits = 3 if abs(estimate.mean) < 10 else 2 if abs(estimate.mean) < 100 else 1
    spread = "" if math.isnan(estimate.error) else f" ± {estimate.error:.{digits}f}"
    return f"{estimate.mean:.{digits}f}{spread}"


def _as_json(evaluation: Evaluation) -> dict[str, Any]:
    def pair(estimate: Estimate | None) -> dict[str, float | None] | None:
        if estimate is None:
            return None
        error = None if math.isnan(estimate.error) else estimate.error  # JSON has no NaN
        return {"mean": estimate.mean, "standard_error": error}

    return {
        "return": pair(evaluation.returns),
        "discounted_return": pair(evaluation.discounted),
        "length": pair(evaluation.length),
        "terminated": evaluation.terminated,
        "truncated": evaluation.truncated,
        "normalised_return": pair(evaluation.normalised),
    }
