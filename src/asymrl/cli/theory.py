"""`asymrl theory`: would a privileged critic help in this problem, and which?"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from asymrl.cli.usage import UsageError, check_writable, select_run, world_named

if TYPE_CHECKING:
    from asymrl.audit.auditing import Audit
    from asymrl.solvers.optima import Solution
    from asymrl.solvers.verdict import StateCritic, Verdict, Where
    from asymrl.theory.analysis import Analysis
    from asymrl.theory.signals import Told

WIDTH = 100
TARGETS = {"td0": "TD(0)", "td-lambda": "TD(lambda)", "mc": "Monte-Carlo"}
ACTORS = {"td0": "one step", "td-lambda": "TD(lambda)", "mc": "returns"}


@dataclass(frozen=True)
class Theory:
    """Say whether a privileged critic would help in a finite world, and which: exactly, without training."""

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD")]
    """Name of the world, such as heaven-hell-3 or tiger:episodic=true, or a .pomdp file."""

    policy: str = "eps-optimal:0.5"
    """The policy in question: uniform, optimal, eps-optimal:E (random with probability E), window:K or run:FOLDER."""

    horizon: Annotated[float | None, tyro.conf.arg(metavar="N")] = None
    """How many actions there are at most; inf for no limit. By default the world's time limit, or as many as fit."""

    depth: Annotated[int, tyro.conf.arg(metavar="N")] = 12
    """Name no histories with more actions than this."""

    mass: float = 0.99
    """How much of the probability to follow, for the policy of a run that remembers everything."""

    critic_sees: Annotated[str | None, tyro.conf.arg(metavar="SIGNAL")] = None
    """Also say what a critic gains that is told only this part of the state, such as heaven-side in Heaven-Hell."""

    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = None
    """Also draw the bias along the tree of histories, which way each critic pushes and, in Heaven-Hell, the values at
    the fork: .png, .svg or .pdf."""

    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print JSON for other programs instead of text."""

    def run(self) -> int:
        from asymrl.solvers.references import references
        from asymrl.solvers.verdict import examine

        if self.depth < 0:
            raise UsageError(f"--depth {self.depth}: expected 0 or more")
        if self.output is not None:
            check_writable(self.output, (".png", ".svg", ".pdf"))
        try:
            analysis, best, audit = self._analysis()
            found = examine(analysis, self.policy, references(analysis.pomdp, analysis.horizon, best), self.depth)
            told = None if self.critic_sees is None else self._told(analysis, self.critic_sees)
            if self.output is not None:
                from asymrl.report.theory_figures import picture

                picture(analysis, f"{analysis.pomdp.name}, policy {self.policy}").savefig(self.output)
        except ValueError as error:
            raise UsageError(str(error)) from error
        if self.json:
            more = {"signal": told and asdict(told), "audit": audit and audit.numbers(self.depth)}
            print(json.dumps(found.to_json() | more, indent=1))
            return 0
        if analysis.pomdp.name == "good-bad" and 0 < analysis.pomdp.discount < 1:
            from asymrl.theory.walkthrough import good_bad

            print(*good_bad(analysis.pomdp.discount), "", sep="\n")
        if self.horizon is None and analysis.horizon < self._steps(analysis.pomdp.time_limit):
            print(f"All {self._steps(analysis.pomdp.time_limit):g} actions of an episode do not fit, so that this is "
                  f"about the first {analysis.horizon:g}; --horizon asks for another number.\n")  # fmt: skip
        print("\n".join(_lines(found)))
        if told is not None:
            print("", *_signal_lines(told), sep="\n")
        if audit is not None:
            print("", *audit.report(self.depth), sep="\n")
        return 0

    def _analysis(self) -> tuple[Analysis, Solution, Audit | None]:
        """Of the policy; beside the optimum, and for a run the audit of its critic."""
        from asymrl.solvers.named import named_policy
        from asymrl.solvers.optima import solve
        from asymrl.solvers.reach import analyse_what_fits
        from asymrl.theory.analysis import analyse, as_pomdp

        if self.policy.startswith("run:"):
            audit = self._audit()
            return audit.analysis, solve(audit.analysis.pomdp, audit.analysis.horizon), audit
        pomdp = as_pomdp(world_named(self.world))
        horizon = self._steps(pomdp.time_limit)
        if self.horizon is None:
            return *analyse_what_fits(pomdp, self.policy, horizon), None
        best = solve(pomdp, horizon)
        return analyse(pomdp, named_policy(pomdp, self.policy, best, horizon), horizon=horizon), best, None

    def _audit(self) -> Audit:
        from asymrl.audit.actor import TrainedActor
        from asymrl.audit.auditing import audit_run
        from asymrl.worlds.finite import FiniteWorld

        folder = self.policy.removeprefix("run:")
        chosen = select_run(folder, None)
        if chosen.world.name != self.world.partition(":")[0]:
            raise UsageError(f"{folder}: was trained in {chosen.world.name}, not in {self.world}")
        if not isinstance(chosen.world, FiniteWorld):
            raise UsageError(f"{chosen.world.name} has no finite tables to compute with")
        forgets = TrainedActor(chosen.state.actor).length > 0
        mass, horizon = 1.0 if forgets else self.mass, self._steps(chosen.world.time_limit)
        return audit_run(chosen.world, chosen.settings, chosen.state, mass=mass, horizon=horizon)

    def _told(self, analysis: Analysis, signal: str) -> Told:
        from asymrl.theory.signals import examine_signal
        from asymrl.worlds.finite import FiniteWorld

        world = world_named(self.world)
        assert isinstance(world, FiniteWorld)  # or there were no analysis
        return examine_signal(analysis, world, signal)

    def _steps(self, time_limit: int | None) -> float:
        """The horizon that was asked for, or the world's time limit."""
        if self.horizon is None:
            return math.inf if time_limit is None else time_limit
        if not self.horizon >= 1 or (math.isfinite(self.horizon) and self.horizon != int(self.horizon)):
            raise UsageError(f"--horizon {self.horizon:g}: expected a whole number of at least 1, or inf")
        return self.horizon


def _lines(found: Verdict) -> Iterator[str]:
    limit = "no time limit" if found.horizon is None else f"{found.horizon} actions at most"
    yield f"{found.world}, policy {found.policy}, {limit}, discount {found.discount:g}"
    exact = f" ± {found.return_error:.2g}" if found.return_error > 1e-9 else ""
    yield f"Expected return: {found.expected_return:.4f}{exact}" + (
        f" (histories with {100 * found.followed:.1f} % of the probability followed)" if found.followed < 1 else ""
    )
    yield "To compare with: " + ", ".join(f"{name} {value}" for name, value in found.returns.items())
    yield ""
    yield from textwrap.wrap(
        f"Is V(s) defined? {'Yes.' if found.V_s_defined else 'No.'} {found.V_s_explanation}", WIDTH
    )
    yield ""
    yield f"{'critic V(s) from':<18}{'actor listens':<16}{'value bias':>11}{'gradient error':>16}{'cosine':>9}"
    for critic in found.critics:
        yield _row(critic)
    yield ""
    for critic in found.critics[:1]:
        yield from _places(critic)
    if found.variance is not None:
        v = found.variance
        yield (
            f"Variance of one episode's gradient estimate: V(h) {v.h:.4g}, V(h, s) {v.hs:.4g}, "
            f"V(h, s) with s drawn again {v.resampled:.4g}"
        )
        yield f"Mean variance of V(h, s) given h: {v.state_variance:.4g}"
    yield ""
    yield "Would a privileged critic help here, and which?"
    yield from textwrap.wrap(found.advice, WIDTH)


def _row(critic: StateCritic) -> str:
    bias = "?" if critic.value_bias is None else f"{critic.value_bias:.4g}"
    error = "inf" if math.isinf(critic.gradient_error) else f"{100 * round(critic.gradient_error, 9):.3g} %"
    cosine = "-" if math.isnan(critic.gradient_cosine) else f"{critic.gradient_cosine:.3f}"
    return f"{TARGETS[critic.targets]:<18}{ACTORS[critic.estimator]:<16}{bias:>11}{error:>16}{cosine:>9}"


def _signal_lines(told: Told) -> Iterator[str]:
    i = told.signal
    yield f"What does the critic need to know? {i}: {told.meaning}"
    if told.explained is not None:
        yield f"It explains {told.explained:.1%} of what V(h, s) knows beyond V(h)."
    yield f"{'unbiased critic':<28}{'variance of the gradient estimate':>34}"
    for name, variance in (
        ("V(h)", told.variance_h),
        (f"V(h, {i})", told.variance_hi),
        ("V(h, s)", told.variance_hs),
    ):
        yield f"{name:<28}{variance:>34.4g}"
    yield f"{'critic without history':<28}{'value bias':>15}{'gradient cosine':>19}"
    for name, bias, cosine in ((f"V({i})", told.bias_i, told.cosine_i), ("V(s)", told.bias_s, told.cosine_s)):
        yield f"{name + ' by TD(0)':<28}{bias:>15.4g}{'-' if cosine is None else format(cosine, '.3f'):>19}"


def _places(critic: StateCritic) -> Iterator[str]:
    def words(where: Where) -> str:
        return f"after {where.history} (probability {where.probability:.3g})"

    if (value := critic.worst_value) is not None:
        yield f"TD(0) misjudges the value by {value.amount:+.4g} {words(value)}"
    if (told := critic.worst_gradient) is not None:
        verb = "favours" if told.amount > 0 else "discourages"
        yield f"TD(0) {verb} {told.action} by {abs(told.amount):.4g} too much {words(told)}"
