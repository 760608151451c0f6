"""`asymrl theory --learner adqn`: what a method of the DQN family would learn, as text."""

from __future__ import annotations

from collections.abc import Iterator

from asymrl.report.q_verdict import QResult, QVerdict
from asymrl.runs.wording import wrapped
from asymrl.theory.exact.q_learning import Q_METHODS

TARGET = "r + γ Q({}', a*)"
SAME = "the same"


def lines(verdict: QVerdict, width: int) -> Iterator[str]:
    """The report, line by line."""
    yield f"{verdict.world}, {verdict.method}, {verdict.horizon} actions at most, discount {verdict.discount:g}"
    yield from wrapped(_targets(verdict), width)
    yield f"Optimal return: {verdict.optimal_return:.4f}"
    yield ""
    yield f"{'replay filled by':<18}{'steps count':<14}{'settles':<14}{'error of Q(h, a)':>22}{'greedy return':>18}"
    for result in verdict.results:
        yield _row(result)
    wrong = [result for result in verdict.results if not result.is_optimal]
    if wrong:
        worst = max(wrong, key=lambda result: abs(result.worst_error))
        yield ""
        yield from wrapped(
            f"The worst: {worst.worst_action} after {worst.worst_history} is off by {worst.worst_error:+.4g} "
            f"(replay: {worst.replay}, steps count {_counted(worst)})",
            width,
        )
    yield ""
    yield f"Does {verdict.method} learn the optimal Q(h, a)?"
    yield from wrapped(verdict.explanation, width)


def _targets(verdict: QVerdict) -> str:
    method, reads = Q_METHODS[verdict.method], verdict.reads.replace("hs", "h, s")
    own = TARGET.format("h")
    if not reads:
        return f"Q(h, a) learns {own}, with a* = argmax_a Q(h', a)."
    privileged = "r + γ Q(" + ", ".join(f"{part}'" for part in reads.split(", ")) + ", a*)"
    history = f"Q({reads}, a), for all actions" if method.reduced else privileged
    return (
        f"Q({reads}, a) learns {own if method.short else privileged}; Q(h, a) learns {history}. a* = argmax_a Q(h', a)."
    )


def _counted(result: QResult) -> str:
    return SAME if result.weighting == "steps" else "by episode"


def _row(result: QResult) -> str:
    settles = {0: "no", 1: "yes"}.get(result.period, f"cycle of {result.period}")
    error = "0" if result.is_optimal else f"{result.max_error:.3g} (mean {result.mean_error:.3g})"
    returns = f"{result.greedy_low:.4f}"
    if result.greedy_high - result.greedy_low > 1e-9:
        returns += f" to {result.greedy_high:.4f}"
    return f"{result.replay:<18}{_counted(result):<14}{settles:<14}{error:>22}{returns:>18}"
