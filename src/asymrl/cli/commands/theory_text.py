"""What `asymrl theory` prints: the answer for policy gradients, and for methods of the DQN family."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from asymrl.runs.wording import wrapped

if TYPE_CHECKING:
    from asymrl.report.q_verdict import QResult, QVerdict
    from asymrl.report.verdict import StateCritic, Verdict, WorstHistory
    from asymrl.theory import ReadingWorth
    from asymrl.theory.solvers import Solution
    from asymrl.worlds.pomdp import Pomdp

WIDTH = 100
TARGETS = {"td0": "TD(0)", "td-lambda": "TD(lambda)", "mc": "Monte-Carlo"}
TD_TARGET = "r + γ Q({}', a*)"
SAME = "the same"
ACTORS = {"td0": "one step", "td-lambda": "TD(lambda)", "mc": "returns"}


def optimum_text(pomdp: Pomdp, horizon: float, best: Solution) -> str:
    """The optimal return of whole episodes, and how it was found."""
    limit = "no time limit" if math.isinf(horizon) else f"{horizon:g} actions at most"
    value = f"{best.low:.5g}" if best.kind == "exact" else f"between {best.low:.5g} and {best.high:.5g}"
    return f"{pomdp.name}, {limit}, discount {pomdp.discount:g}\nOptimal return: {value}\nFound by {best.how}"


def horizon_note(limit: float, horizon: float) -> str:
    """Says that only the first actions of episodes were analysed."""
    episodes = "Episodes without a time limit" if math.isinf(limit) else f"Whole episodes of {limit:g} actions"
    return f"{episodes} do not fit; this is about the first {horizon:g}. Choose another number with --horizon.\n"


def verdict_lines(verdict: Verdict, told: Sequence[ReadingWorth], meanings: dict[str, str]) -> Iterator[str]:
    """The answer, line by line.

    Args:
        verdict: the summary of the analysis.
        told: critics that see what the user asked about.
        meanings: of the signals that they see, by name.
    """
    from asymrl.report.reading_table import reading_lines, remarks

    limit = "no time limit" if verdict.horizon is None else f"{verdict.horizon} actions at most"
    yield f"{verdict.world}, policy {verdict.policy}, {limit}, discount {verdict.discount:g}"
    exact = f" ± {verdict.return_error:.2g}" if verdict.return_error > 1e-9 else ""
    yield f"Expected return: {verdict.expected_return:.4f}{exact}" + (
        f" (histories with {100 * verdict.followed:.1f} % of the probability followed)" if verdict.followed < 1 else ""
    )
    yield "Reference returns: " + ", ".join(f"{name} {value}" for name, value in verdict.returns.items())
    yield ""
    yield from wrapped(
        f"Is V(s) defined? {'Yes.' if verdict.V_s_defined else 'No.'} {verdict.V_s_explanation}",
        WIDTH,
        break_on_hyphens=False,
    )
    yield ""
    yield f"{'targets of V(s)':<18}{'actor uses':<16}{'value bias':>11}{'gradient error':>16}{'cosine':>9}"
    for critic in verdict.critics:
        yield _row(critic)
    if any(critic.value_bias is None for critic in verdict.critics):
        yield "Value biases (-) need a list of all beliefs, which are too many here; a smaller --horizon may have them."
    places = [line for critic in verdict.critics[:1] for line in _places(critic, endless=verdict.horizon is None)]
    if places or verdict.variance is not None:
        yield ""
    yield from places
    if verdict.variance is not None:
        v = verdict.variance
        yield (
            f"Variance of one episode's gradient estimate: V(h) {v.h:.4g}, V(h, s) {v.hs:.4g}, "
            f"V(h, s) with s resampled {v.resampled:.4g}"
        )
        yield f"Mean variance of V(h, s) given h: {v.state_variance:.4g}"
    yield ""
    yield from reading_lines([*verdict.readings, *(each for each in told if each not in verdict.readings)])
    for each in told:
        yield from remarks(each)
    yield from (f"{name}: {meaning}" for name, meaning in meanings.items())
    yield ""
    yield "Would a privileged critic help here, and which?"
    yield from wrapped(verdict.advice, WIDTH, break_on_hyphens=False)


def _row(critic: StateCritic) -> str:
    from asymrl.report.reading_table import cosine, percent

    bias = "-" if critic.value_bias is None else f"{critic.value_bias:.4g}"
    error, angle = percent(critic.gradient_error), cosine(critic.gradient_cosine)
    return f"{TARGETS[critic.targets]:<18}{ACTORS[critic.estimator]:<16}{bias:>11}{error:>16}{angle:>9}"


def _places(critic: StateCritic, endless: bool) -> Iterator[str]:
    # Without a horizon a belief may come back, and its weight is the expected number of visits, discounted.
    weight = "discounted visits" if endless else "probability"

    def words(worst: WorstHistory) -> str:
        return f"after {worst.history} ({weight} {worst.probability:.3g})"

    if (value := critic.worst_value) is not None:
        yield f"TD(0) misjudges the value by {value.amount:+.4g} {words(value)}"
    if (gradient := critic.worst_gradient) is not None:
        verb = "favours" if gradient.amount > 0 else "discourages"
        yield f"TD(0) {verb} {gradient.action} by {abs(gradient.amount):.4g} too much {words(gradient)}"


def q_lines(verdict: QVerdict) -> Iterator[str]:
    """What a method of the DQN family would learn, line by line."""
    yield f"{verdict.world}, {verdict.method}, {verdict.horizon} actions at most, discount {verdict.discount:g}"
    yield from wrapped(_targets(verdict), WIDTH)
    yield f"Optimal return: {verdict.optimal_return:.4f}"
    yield ""
    yield f"{'replay filled by':<18}{'steps count':<14}{'settles':<14}{'error of Q(h, a)':>22}{'greedy return':>18}"
    for result in verdict.results:
        yield _q_row(result)
    wrong = [result for result in verdict.results if not result.is_optimal]
    if wrong:
        worst = max(wrong, key=lambda result: abs(result.worst_error))
        yield ""
        yield from wrapped(
            f"The worst: {worst.worst_action} after {worst.worst_history} is off by {worst.worst_error:+.4g} "
            f"(replay: {worst.replay}, steps count {_counted(worst)})",
            WIDTH,
        )
    yield ""
    yield f"Does {verdict.method} learn the optimal Q(h, a)?"
    yield from wrapped(verdict.explanation, WIDTH)


def _targets(verdict: QVerdict) -> str:
    from asymrl.theory.exact.q_learning import Q_METHODS

    method, reads = Q_METHODS[verdict.method], verdict.reads.replace("hs", "h, s")
    own = TD_TARGET.format("h")
    if not reads:
        return f"Q(h, a) learns {own}, with a* = argmax_a Q(h', a)."
    privileged = "r + γ Q(" + ", ".join(f"{part}'" for part in reads.split(", ")) + ", a*)"
    history = f"Q({reads}, a), for all actions" if method.reduced else privileged
    return (
        f"Q({reads}, a) learns {own if method.short else privileged}; Q(h, a) learns {history}. a* = argmax_a Q(h', a)."
    )


def _counted(result: QResult) -> str:
    return SAME if result.weighting == "steps" else "by episode"


def _q_row(result: QResult) -> str:
    settles = {0: "no", 1: "yes"}.get(result.period, f"cycle of {result.period}")
    error = "0" if result.is_optimal else f"{result.max_error:.3g} (mean {result.mean_error:.3g})"
    returns = f"{result.greedy_low:.4f}"
    if result.greedy_high - result.greedy_low > 1e-9:
        returns += f" to {result.greedy_high:.4f}"
    return f"{result.replay:<18}{_counted(result):<14}{settles:<14}{error:>22}{returns:>18}"
