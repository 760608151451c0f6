"""`asymrl evaluate`: how good trained runs are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from asymrl.cli.output import busy, print_json
from asymrl.cli.usage import AgentFolder, AsJson, Flag, Quiet, Trust, UsageError, Where, load_runs
from asymrl.runs.runs import differing, label
from asymrl.runs.wording import plural

if TYPE_CHECKING:
    from rich.table import Table

    from asymrl.runs.evaluation import Estimate, Evaluation
    from asymrl.runs.trained import TrainedRuns
    from asymrl.settings import Settings
    from asymrl.worlds.reference_scores import ReferenceScores


NARROWEST = 80  # columns that the table needs


@dataclass(frozen=True)
class Evaluate:
    """Play episodes with the policies of trained runs: returns, lengths, how the episodes ended.

    asymrl evaluate runs/tiger-a2c-asym-hs
    asymrl evaluate runs/rates --where method=a2c actor_rate=0.001 --episodes 5k --greedy
    asymrl evaluate runs/tiger-a2c-asym-hs --json
    """

    folder: AgentFolder

    episodes: Annotated[int, tyro.conf.arg(metavar="N")] = 1000
    """Episodes of each seed."""

    greedy: Flag = False
    """Take the most likely action each time, instead of sampling as in training."""

    where: Where = ()

    run_seed: Annotated[
        int | None, tyro.conf.arg(metavar="K", help="Seed of the run.", help_behavior_hint="(default: all)")
    ] = None

    seed: int = 0
    """Seed of the episodes."""

    trust: Trust = False

    quiet: Quiet = False

    json: AsJson = False

    def run(self) -> int:
        if self.episodes < 1:
            raise UsageError(f"--episodes {self.episodes}: at least 1 is needed")
        groups = load_runs(self.folder, self.where, self.run_seed, trust=self.trust)

        from asymrl.report.summary import reference_of
        from asymrl.runs.evaluation import evaluate, over_seeds

        reports = []
        for i, trained in enumerate(groups):
            reference = reference_of(trained.settings[0])
            what = f"playing {plural('episode', self.episodes)} with {plural('run', len(trained.runs))}"
            with busy(f"{what} of {trained.settings[0].method} in {trained.settings[0].world}"):
                each = evaluate(trained, reference, episodes=self.episodes, seed=self.seed, greedy=self.greedy)
            if self.json:
                reports.append(self._report(trained, reference, each, over_seeds(each)))
            else:
                print("\n" if i else "", end="")
                self._print(trained, reference, each, over_seeds(each))
        if self.json:
            print_json(reports[0] if len(reports) == 1 else {"run": str(self.folder), "groups": reports})
        return 0

    def _report(
        self, trained: TrainedRuns, reference: ReferenceScores | None, each: list[Evaluation], overall: Evaluation
    ) -> dict[str, Any]:
        settings = trained.settings[0]
        return {
            "run": str(self.folder),
            "world": settings.world,
            "method": settings.method,
            "episodes": self.episodes,
            "actions": "greedy" if self.greedy or _acts_greedily(settings) else "sampled",
            "seed": self.seed,
            "discount": settings.discount,
            "reference": reference and dict(zip(("random", "zero", "best"), _returns(reference), strict=True)),
            "runs": [
                {"seed": seed, **_as_json(evaluation)} for seed, evaluation in zip(trained.seeds, each, strict=True)
            ],
            "over_seeds": _as_json(overall),
        }

    def _print(
        self, trained: TrainedRuns, reference: ReferenceScores | None, each: list[Evaluation], overall: Evaluation
    ) -> None:
        from asymrl.runs.display import plain_console

        console = plain_console()
        console.width = max(console.width, NARROWEST)  # a number cut short would be a wrong number
        settings = trained.settings[0]
        how = "the most likely actions" if self.greedy else "sampled actions"
        if _acts_greedily(settings):
            how = "the actions of highest value"
        console.print(f"{settings.world}, {settings.method}: {self.episodes} episodes of each seed, {how}\n")
        console.print(_table(trained, each, overall))
        has_mean = len(each) > 1 and not differing(trained.runs)
        over_seeds = "; in the last line, over seeds" if has_mean else ""
        notes = [f"±: standard error over episodes{over_seeds}."]
        if reference and overall.reached:
            _, zero, best = _returns(reference)
            is_random = reference.without_information is reference.undiscounted["random"]
            who = "a random policy" if is_random else "the best policy that ignores what it sees"
            notes += [f"reached: 0 is {who} ({zero:.4g}),", f"1 is the best known ({best:.4g})."]
        notes.append(f"discounted: by {settings.discount:g}. ended: by the world. cut: by the time limit.")
        console.print("\n" + "\n".join(notes), style="dim")


def _returns(reference: ReferenceScores) -> tuple[float, float, float]:
    """The returns of a random policy, of the one that counts as 0 of what was reached, and of the best known one."""
    random, best = reference.random_and_best
    return random, reference.zero, best


def _acts_greedily(settings: Settings) -> bool:
    """Whether there is nothing to sample: learners of action values take the best action."""
    return settings.how.learner == "dqn"


def _table(trained: TrainedRuns, each: list[Evaluation], overall: Evaluation) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("seed", style="bold", no_wrap=True)
    columns = ["return", "reached", "discounted", "length", "ended", "cut"]
    if overall.reached is None:
        columns.remove("reached")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)

    def row(name: str, evaluation: Evaluation) -> None:
        reached = [_shown(evaluation.reached)] if evaluation.reached else []
        ends = [f"{100 * share:.0f} %" for share in (evaluation.terminated, evaluation.truncated)]
        estimates = [_shown(evaluation.discounted), _shown(evaluation.length, digits=1)]
        table.add_row(name, _shown(evaluation.returns), *reached, *estimates, *ends)

    names = differing(trained.runs)
    alike = not names
    for i, (seed, evaluation) in enumerate(zip(trained.seeds, each, strict=True)):
        row(str(seed) if alike else label(trained.runs[i], names), evaluation)
    if len(each) > 1 and alike:
        table.add_section()
        row("mean", overall)
    return table


def _shown(value: Estimate, digits: int | None = None) -> str:
    """Mean and standard error, with fewer decimals for larger numbers."""
    from asymrl.runs.wording import estimate

    if digits is None:
        digits = 3 if abs(value.mean) < 10 else 2 if abs(value.mean) < 100 else 1
    return estimate(*value, digits)


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
        "reached": pair(evaluation.reached),
    }
