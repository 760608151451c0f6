"""`asymrl theory`: would a privileged critic help in this world, and which?"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from asymrl.cli.usage import AsJson, UsageError, check_writable, select_run, user_errors, world_named

if TYPE_CHECKING:
    from asymrl.audit import Audit
    from asymrl.solvers import Solution, Verdict
    from asymrl.solvers.verdict import StateCritic, WorstHistory
    from asymrl.theory import Analysis, SignalWorth

WIDTH = 100
TARGETS = {"td0": "TD(0)", "td-lambda": "TD(lambda)", "mc": "Monte-Carlo"}
ACTORS = {"td0": "one step", "td-lambda": "TD(lambda)", "mc": "returns"}


@dataclass(frozen=True)
class Theory:
    """Compute, without training, whether a privileged critic would help in a finite world, and which."""

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD")]
    """Name of the world, such as heaven-hell-3 or tiger:episodic=true, or a .pomdp file."""

    policy: str = "eps-optimal:0.5"
    """The policy to analyse: uniform, optimal, eps-optimal:E (random with probability E), window:K or run:FOLDER."""

    horizon: Annotated[float | None, tyro.conf.arg(metavar="N")] = None
    """The largest number of actions; inf for no limit. Defaults to the world's time limit, or as many as fit."""

    depth: Annotated[int, tyro.conf.arg(metavar="N")] = 12
    """Do not list histories with more actions than this."""

    mass: float = 0.99
    """The probability of the histories to follow, for a run whose policy remembers everything."""

    critic_sees: Annotated[str | None, tyro.conf.arg(metavar="SIGNAL")] = None
    """Also report what a critic gains from this part of the state alone, such as heaven-side in Heaven-Hell."""

    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = None
    """Also draw the bias along the tree of histories, the gradient from each critic and, in Heaven-Hell, the values
    at the fork: .png, .svg or .pdf."""

    json: AsJson = False

    def run(self) -> int:
        from asymrl.solvers import examine, references_for

        if self.depth < 0:
            raise UsageError(f"--depth {self.depth}: expected 0 or more")
        if self.output is not None:
            check_writable(self.output, (".png", ".svg", ".pdf"))
        with user_errors():
            analysis, best, audit = self._analysis()
            returns = references_for(analysis.pomdp, analysis.horizon, best)
            verdict = examine(analysis, self.policy, returns, self.depth)
            signal = None if self.critic_sees is None else self._signal_worth(analysis, self.critic_sees)
            if self.output is not None:
                self._draw(analysis, self.output)
        if self.json:
            more = {"signal": signal and asdict(signal), "audit": audit and audit.numbers(self.depth)}
            print(json.dumps(verdict.to_json() | more, indent=1))
            return 0
        if analysis.pomdp.name == "good-bad" and 0 < analysis.pomdp.discount < 1:
            from asymrl.paper.good_bad import good_bad_steps

            print(*good_bad_steps(analysis.pomdp.discount), "", sep="\n")
        if self.horizon is None and analysis.horizon < (limit := self._steps(analysis.pomdp.time_limit)):
            print(f"Whole episodes of {limit:g} actions do not fit; this is about the first {analysis.horizon:g}. "
                  "Choose another number with --horizon.\n")  # fmt: skip
        print("\n".join(_lines(verdict)))
        if signal is not None:
            print("", *_signal_lines(signal), sep="\n")
        if audit is not None:
            print("", *audit.report(self.depth), sep="\n")
        return 0

    def _analysis(self) -> tuple[Analysis, Solution, Audit | None]:
        """The analysis of the policy, the optimum and, for a run, the audit of its critic."""
        from asymrl.solvers import analyse_what_fits, policy_by_name, solve
        from asymrl.theory import analyse, as_pomdp

        if self.policy.startswith("run:"):
            audit = self._audit()
            return audit.analysis, solve(audit.analysis.pomdp, audit.analysis.horizon), audit
        pomdp = as_pomdp(world_named(self.world))
        horizon = self._steps(pomdp.time_limit)
        if self.horizon is None:
            return *analyse_what_fits(pomdp, self.policy, horizon), None
        best = solve(pomdp, horizon)
        return analyse(pomdp, policy_by_name(pomdp, self.policy, best, horizon), horizon=horizon), best, None

    def _audit(self) -> Audit:
        from asymrl.audit import TrainedActor, audit_critic
        from asymrl.worlds.finite import FiniteWorld

        folder = self.policy.removeprefix("run:")
        chosen = select_run(folder, None)
        if chosen.world.name != self.world.partition(":")[0]:
            raise UsageError(f"{folder}: was trained in {chosen.world.name}, not in {self.world}")
        if not isinstance(chosen.world, FiniteWorld):
            raise UsageError(f"{chosen.world.name} has no finite tables to compute with")
        actor, critic = chosen.state.actor, chosen.state.critic
        has_window = TrainedActor(actor).length > 0
        mass, horizon = 1.0 if has_window else self.mass, self._steps(chosen.world.time_limit)
        return audit_critic(chosen.world, actor, critic, chosen.settings, mass=mass, horizon=horizon)

    def _signal_worth(self, analysis: Analysis, signal: str) -> SignalWorth:
        from asymrl.theory import examine_signal
        from asymrl.worlds.finite import FiniteWorld

        world = world_named(self.world)
        assert isinstance(world, FiniteWorld)  # otherwise the analysis has failed already
        return examine_signal(analysis, world, signal)

    def _draw(self, analysis: Analysis, output: Path) -> None:
        from asymrl.paper.fork_theory import draw_fork, has_fork
        from asymrl.report.theory_figures import picture

        more = [draw_fork] if has_fork(analysis.pomdp) else []
        picture(analysis, f"{analysis.pomdp.name}, policy {self.policy}", more=more).savefig(output)

    def _steps(self, time_limit: int | None) -> float:
        """The chosen horizon, or the world's time limit."""
        if self.horizon is None:
            return math.inf if time_limit is None else time_limit
        if not self.horizon >= 1 or (math.isfinite(self.horizon) and self.horizon != int(self.horizon)):
            raise UsageError(f"--horizon {self.horizon:g}: expected a whole number of at least 1, or inf")
        return self.horizon


def _lines(verdict: Verdict) -> Iterator[str]:
    limit = "no time limit" if verdict.horizon is None else f"{verdict.horizon} actions at most"
    yield f"{verdict.world}, policy {verdict.policy}, {limit}, discount {verdict.discount:g}"
    exact = f" ± {verdict.return_error:.2g}" if verdict.return_error > 1e-9 else ""
    yield f"Expected return: {verdict.expected_return:.4f}{exact}" + (
        f" (histories with {100 * verdict.followed:.1f} % of the probability followed)" if verdict.followed < 1 else ""
    )
    yield "Reference returns: " + ", ".join(f"{name} {value}" for name, value in verdict.returns.items())
    yield ""
    yield from textwrap.wrap(
        f"Is V(s) defined? {'Yes.' if verdict.V_s_defined else 'No.'} {verdict.V_s_explanation}", WIDTH
    )
    yield ""
    yield f"{'targets of V(s)':<18}{'actor uses':<16}{'value bias':>11}{'gradient error':>16}{'cosine':>9}"
    for critic in verdict.critics:
        yield _row(critic)
    yield ""
    for critic in verdict.critics[:1]:
        yield from _places(critic)
    if verdict.variance is not None:
        v = verdict.variance
        yield (
            f"Variance of one episode's gradient estimate: V(h) {v.h:.4g}, V(h, s) {v.hs:.4g}, "
            f"V(h, s) with s resampled {v.resampled:.4g}"
        )
        yield f"Mean variance of V(h, s) given h: {v.state_variance:.4g}"
    yield ""
    yield "Would a privileged critic help here, and which?"
    yield from textwrap.wrap(verdict.advice, WIDTH)


def _row(critic: StateCritic) -> str:
    bias = "?" if critic.value_bias is None else f"{critic.value_bias:.4g}"
    error = "inf" if math.isinf(critic.gradient_error) else f"{100 * round(critic.gradient_error, 9):.3g} %"
    cosine = "-" if math.isnan(critic.gradient_cosine) else f"{critic.gradient_cosine:.3f}"
    return f"{TARGETS[critic.targets]:<18}{ACTORS[critic.estimator]:<16}{bias:>11}{error:>16}{cosine:>9}"


def _signal_lines(worth: SignalWorth) -> Iterator[str]:
    i = worth.signal
    yield f"What does the critic need to know? {i}: {worth.meaning}"
    if worth.explained is not None:
        yield f"It explains {worth.explained:.1%} of what V(h, s) knows beyond V(h)."
    yield f"{'unbiased critic':<28}{'variance of the gradient estimate':>34}"
    for name, variance in (
        ("V(h)", worth.variance_h),
        (f"V(h, {i})", worth.variance_hi),
        ("V(h, s)", worth.variance_hs),
    ):
        yield f"{name:<28}{variance:>34.4g}"
    yield f"{'critic without history':<28}{'value bias':>15}{'gradient cosine':>19}"
    for name, bias, cosine in ((f"V({i})", worth.bias_i, worth.cosine_i), ("V(s)", worth.bias_s, worth.cosine_s)):
        yield f"{name + ' by TD(0)':<28}{bias:>15.4g}{'-' if cosine is None else format(cosine, '.3f'):>19}"


def _places(critic: StateCritic) -> Iterator[str]:
    def words(worst: WorstHistory) -> str:
        return f"after {worst.history} (probability {worst.probability:.3g})"

    if (value := critic.worst_value) is not None:
        yield f"TD(0) misjudges the value by {value.amount:+.4g} {words(value)}"
    if (gradient := critic.worst_gradient) is not None:
        verb = "favours" if gradient.amount > 0 else "discourages"
        yield f"TD(0) {verb} {gradient.action} by {abs(gradient.amount):.4g} too much {words(gradient)}"
