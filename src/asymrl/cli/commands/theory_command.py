"""`asymrl theory`: would a privileged critic help in this world, and which?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from asymrl.cli.commands.report_command import check_page
from asymrl.cli.commands.theory_text import WIDTH, horizon_note, optimum_text, q_lines, verdict_lines
from asymrl.cli.output import print_json, progress_line
from asymrl.cli.usage import AsJson, UsageError, check_writable, select_run, user_errors, world_named
from asymrl.runs.wording import wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asymrl.theory import Analysis, ReadingWorth
    from asymrl.theory.audit import Audit
    from asymrl.theory.solvers import Solution
    from asymrl.theory.solvers.deadline import Deadline
    from asymrl.worlds.pomdp import Pomdp

Learner = Literal["a2c", "ppo", "dqn", "adqn", "adqn-vr", "adqn-state", "adqn-state-vr", "adqn-short", "adqn-short-vr"]


@dataclass(frozen=True)
class Theory:
    """Compute, without training, whether a privileged critic would help in a finite world, and which.

    asymrl theory tiger --horizon 4
    asymrl theory heaven-hell-3 --critic-sees heaven-side -o bias.png
    asymrl theory problem.pomdp --policy uniform --json
    """

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD")]
    """Name of the world, such as heaven-hell-3 or tiger:episodic=true, or a .pomdp file."""

    learner: Learner = "a2c"
    """The learner: a2c and ppo learn from a policy gradient, whose bias is computed. For a method of the DQN family,
    the report says what its Q(h, a) converges to if --policy, a random policy or its own policy fills the replay."""

    policy: str = "eps-optimal:0.5"
    """The policy to analyse: uniform, optimal, eps-optimal:E (random with probability E), window:K or run:FOLDER."""

    horizon: Annotated[float | None, tyro.conf.arg(metavar="N")] = None
    """The largest number of actions; inf for no limit. Defaults to the world's time limit, or as many as fit."""

    depth: Annotated[int, tyro.conf.arg(metavar="N")] = 12
    """Do not list histories with more actions than this."""

    mass: float = 0.99
    """Total probability of the histories to follow, for a run whose policy remembers everything."""

    seconds: Annotated[float, tyro.conf.arg(metavar="S")] = 60.0
    """Time limit of the searches for the optimal return and for reference policies; an optimum not found by then is
    given as bounds."""

    critic_sees: Annotated[str | None, tyro.conf.arg(metavar="SIGNAL")] = None
    """Also report on critics that see this: state, belief, sampled-state, time, a signal of the world such as
    heaven-side, or a combination such as state+time."""

    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = None
    """Also draw the bias along the tree of histories, the gradient from each critic and, in Heaven-Hell, the values
    at the fork: .png, .svg or .pdf."""

    report: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also write a page with the answer, the figures and, in pictures of the world, the histories where V(s)
    misjudges: .html."""

    json: AsJson = False

    def run(self) -> int:
        from asymrl.report.verdict import examine
        from asymrl.theory import TooLargeError, as_pomdp
        from asymrl.theory.solvers import read_policy_name, references_for, solve
        from asymrl.theory.solvers.deadline import Deadline
        from asymrl.theory.solvers.references import Reference

        if self.depth < 0:
            raise UsageError(f"--depth {self.depth}: expected 0 or more")
        if not self.seconds > 0:
            raise UsageError(f"--seconds {self.seconds:g}: expected a number above 0")
        if self.output is not None:
            check_writable(self.output, (".png", ".svg", ".pdf"))
        if self.report is not None:
            check_page(self.report)
        if not self.policy.startswith("run:"):
            with user_errors("--policy"):
                read_policy_name(self.policy)
        if self.learner not in ("a2c", "ppo"):
            return self._q_learning()
        with user_errors():
            meanings, audit = self._meanings(), self._audit() if self.policy.startswith("run:") else None
            pomdp = as_pomdp(world_named(self.world)) if audit is None else audit.analysis.pomdp
            horizon = self._steps(pomdp.time_limit) if audit is None else audit.analysis.horizon
            deadline = Deadline(self.seconds, listener=progress_line)
            whole = solve(pomdp, horizon, deadline=deadline.part(0.85))
            try:
                analysis, best = (
                    self._analysis(pomdp, horizon, whole, deadline) if audit is None else (audit.analysis, whole)
                )
            except TooLargeError as error:
                return self._without_analysis(pomdp, horizon, whole, str(error), deadline)
            deadline.tell("comparing critics and reference policies")
            returns = references_for(analysis.pomdp, analysis.horizon, best, deadline)
            verdict = examine(analysis, self.policy, returns, self.depth)
            signal_readings = self._signal_readings(analysis)
            lines = list(verdict_lines(verdict, signal_readings, meanings))
            if self.output is not None:
                self._save_figure(self.output, analysis)
            if self.report is not None:
                self._save_page(self.report, analysis, lines)
        optimum = Reference(whole.low, whole.high, whole.kind)
        if self.json:
            more = {
                "critic_sees": [each.to_json() for each in signal_readings],
                "audit": audit and audit.numbers(self.depth),
            }
            print_json(verdict.to_json() | more | {"optimal_of_whole_episodes": asdict(optimum)})
            return 0
        if analysis.pomdp.name == "good-bad" and 0 < analysis.pomdp.discount < 1:
            from asymrl.report.paper.good_bad import good_bad_steps

            print(*good_bad_steps(analysis.pomdp.discount), "", sep="\n")
        if analysis.horizon < horizon:
            print(optimum_text(pomdp, horizon, whole))
            print(horizon_note(horizon, analysis.horizon))
        print("\n".join(lines))
        if audit is not None:
            print("", *audit.report(self.depth), sep="\n")
        return 0

    def _without_analysis(self, pomdp: Pomdp, horizon: float, best: Solution, why: str, deadline: Deadline) -> int:
        """What is known where the policy cannot be analysed, and why it cannot."""
        from asymrl.theory.solvers import references_for

        deadline.tell("comparing reference policies")
        returns = references_for(pomdp, horizon, best, deadline)
        if self.json:
            facts = {"world": pomdp.name, "horizon": horizon, "discount": pomdp.discount}
            print_json(facts | {"returns": {name: asdict(each) for name, each in returns.items()}, "problem": why})
            return 1
        print(optimum_text(pomdp, horizon, best))
        print("Reference returns: " + ", ".join(f"{name} {value}" for name, value in returns.items()))
        print("", *wrapped(f"The policy {self.policy} could not be analysed. {why}.", WIDTH), sep="\n")
        for path in (self.output, self.report):
            if path is not None:
                print(f"{path} was not written: it would show that analysis.")
        return 1

    def _q_learning(self) -> int:
        """The report on a method of the DQN family."""
        from asymrl.report.q_verdict import examine_q
        from asymrl.theory import as_pomdp

        options = {"--output": self.output is not None, "--report": self.report is not None}
        options["--policy run:FOLDER"] = self.policy.startswith("run:")
        if any(options.values()):
            option = next(name for name, is_given in options.items() if is_given)
            raise UsageError(f"{option} is about policy gradients; leave it out with --learner {self.learner}")
        if self.critic_sees not in (None, "state", "state+time"):
            raise UsageError(
                f"--critic-sees {self.critic_sees}: with --learner {self.learner}, choose state or state+time"
            )
        with user_errors():
            pomdp = as_pomdp(world_named(self.world))
            horizon = None if self.horizon is None else self._steps(pomdp.time_limit)
            timed = self.critic_sees == "state+time"
            verdict = examine_q(pomdp, self.learner, policy=self.policy, horizon=horizon, timed=timed, depth=self.depth)
        if self.json:
            print_json(verdict.to_json())
            return 0
        if self.horizon is None and verdict.horizon < (limit := self._steps(pomdp.time_limit)):
            print(horizon_note(limit, verdict.horizon))
        print(*q_lines(verdict), sep="\n")
        return 0

    def _analysis(self, pomdp: Pomdp, horizon: float, best: Solution, deadline: Deadline) -> tuple[Analysis, Solution]:
        """The analysis of the policy, for as many actions as fit if the user has not set their number."""
        from asymrl.theory import analyse
        from asymrl.theory.solvers import analyse_what_fits, policy_by_name

        if self.horizon is None:
            return analyse_what_fits(pomdp, self.policy, horizon, deadline=deadline, whole=best)
        deadline.tell(f"following the histories of {self.policy}")
        return analyse(pomdp, policy_by_name(pomdp, self.policy, best, horizon), horizon=horizon), best

    def _audit(self) -> Audit:
        from asymrl.theory.audit import TrainedActor, audit_critic
        from asymrl.worlds.finite import FiniteWorld

        folder = self.policy.removeprefix("run:")
        trained_run = select_run(folder, None)
        if trained_run.world.name != self.world.partition(":")[0]:
            raise UsageError(f"{folder}: was trained in {trained_run.world.name}, not in {self.world}")
        if not isinstance(trained_run.world, FiniteWorld):
            raise UsageError(f"{trained_run.world.name} has no finite tables to compute with")
        actor, critic = trained_run.state.actor, trained_run.state.critic
        has_window = TrainedActor(actor).length > 0
        mass, horizon = 1.0 if has_window else self.mass, self._steps(trained_run.world.time_limit)
        return audit_critic(trained_run.world, actor, critic, trained_run.settings, mass=mass, horizon=horizon)

    def _meanings(self) -> dict[str, str]:
        """What the signals mean that the critic sees."""
        from asymrl.theory import named_inputs

        world = world_named(self.world)
        inputs = named_inputs(world.name, self.critic_sees or "", world)
        return {name: signal.about for name, signal in world.signals().items() if name in inputs}

    def _signal_readings(self, analysis: Analysis) -> tuple[ReadingWorth, ...]:
        """Critics that see what the user asked about, with history and without."""
        from asymrl.theory import compare_readings, examine_reading
        from asymrl.worlds.finite import FiniteWorld

        if self.critic_sees is None:
            return ()
        world = world_named(self.world)
        assert isinstance(world, FiniteWorld)  # otherwise the analysis has failed already
        analysis = replace(analysis, world=world)
        readings = compare_readings(analysis, [(self.critic_sees, history) for history in (True, False)])
        return readings or (examine_reading(analysis, self.critic_sees),)  # which says why there is none

    def _save_page(self, path: Path, analysis: Analysis, lines: Sequence[str]) -> None:
        from asymrl.report.html.theory_map import theory_page
        from asymrl.runs.files import write_whole
        from asymrl.worlds.finite import FiniteWorld

        world = world_named(self.world)
        assert isinstance(world, FiniteWorld)  # otherwise the analysis has failed already
        page = theory_page(world, analysis, self.policy, lines, self._figure(analysis), depth=self.depth)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, page.encode())

    def _save_figure(self, path: Path, analysis: Analysis) -> None:
        try:
            self._figure(analysis).savefig(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error

    def _figure(self, analysis: Analysis) -> Figure:
        from asymrl.report.paper.fork_theory import draw_fork, has_fork
        from asymrl.report.theory_figures import picture

        more = [draw_fork] if has_fork(analysis.pomdp) else []
        return picture(analysis, f"{analysis.pomdp.name}, policy {self.policy}", more=more)

    def _steps(self, time_limit: int | None) -> float:
        """The chosen horizon, or the world's time limit."""
        if self.horizon is None:
            return math.inf if time_limit is None else time_limit
        if not self.horizon >= 1 or (math.isfinite(self.horizon) and self.horizon != int(self.horizon)):
            raise UsageError(f"--horizon {self.horizon:g}: expected a whole number of at least 1, or inf")
        return self.horizon
