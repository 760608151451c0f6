"""Numbers of the theory that must never change: values, gradients, biases, variances, optima and bounds.

`recorded_numbers.json` holds what each of them was when it was recorded; running this file records them.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asymrl import theory
from asymrl.theory import solvers
from asymrl.theory.exact.analysis import Analysis
from tests.theory.exact.worlds import problem

RECORD = Path(__file__).with_name("recorded_numbers.json")

# World, policy (named as in `asymrl theory`), horizon (None: the world's time limit) and options of an analysis.
ANALYSES: dict[str, tuple[str, str, float | None, dict[str, Any]]] = {
    "heaven-hell-3, window": ("heaven-hell-3", "window:2", 30, {}),
    "heaven-hell-1, soft": ("heaven-hell-1", "eps-optimal:0.5", 12, {}),
    "heaven-hell-1, no limit": ("heaven-hell-1", "eps-optimal:0.3", math.inf, {}),
    "tiger, soft": ("tiger", "eps-optimal:0.3", 5, {}),
    "tiger, bootstrap": ("tiger", "window:1", 6, {"truncation": "bootstrap"}),
    "tiger, likeliest": ("tiger", "eps-optimal:0.5", 5, {"mass": 0.9, "merge": "history"}),
    "shopping-2, soft": ("shopping-2", "eps-optimal:0.5", 6, {}),
    "good-bad, uniform": ("good-bad", "uniform", 8, {}),
    "rock-sample-4-4, memory": ("rock-sample-4-4", "uniform", 20, {"merge": "memory"}),
    "t-maze-3, optimal": ("t-maze-3", "eps-optimal:0.2", 10, {}),
}
QUANTITIES: dict[str, Callable[[Analysis], float]] = {
    "J": lambda a: a.J,
    "error of J": lambda a: a.error,
    "left over": lambda a: a.left_over,
    "sum of V(s), mc": lambda a: float(np.nansum(a.visit_values("mc"))),
    "sum of V(s), td0": lambda a: float(np.nansum(a.visit_values("td0"))),
    "sum of V(s), td-lambda": lambda a: float(np.nansum(a.visit_values("td-lambda"))),
    "gradient": lambda a: a.gradient().norm,
    "gradient, direct": lambda a: a.gradient(parameters="direct").norm,
    "gradient of V(s)": lambda a: a.gradient("td0").norm,
    "error of the gradient of V(s)": lambda a: a.gradient("td0").error(a.gradient()),
    "bias of V(s)": lambda a: float(np.nanmax(np.abs(a.value_bias("td0")))),
    "bias of its advantages": lambda a: float(np.nanmax(np.abs(a.gradient_bias("td0")))),
    "variance with V(h)": lambda a: a.variance("h"),
    "variance with V(h, s)": lambda a: a.variance("hs"),
    "variance with V(s)": lambda a: a.variance("td0"),
    "resampled states": lambda a: a.variance("hs", resampled=True),
    "time and state": lambda a: float(a.critic("state+time").V.sum()),
    "sampled state": lambda a: float(a.critic("sampled-state", history=True).V.sum()),
    "belief": lambda a: float(a.critic("belief").V.sum()),
}
OPTIMA = [
    "heaven-hell-3",
    "heaven-hell-4",
    "shopping-2",
    "shopping-5",
    "shopping-6",
    "good-bad",
    "t-maze-10",
    "tiger:episodic=true",
]


@functools.cache
def analysis(name: str) -> Analysis:
    world, policy_name, horizon, options = ANALYSES[name]
    pomdp = problem(world)
    steps = pomdp.time_limit if horizon is None else horizon
    policy = "uniform"
    if policy_name != policy:
        policy = solvers.policy_by_name(pomdp, policy_name, solvers.solve(pomdp, horizon), steps or 100)
    return theory.analyse(world, policy, horizon=horizon, **options)


def numbers() -> dict[str, float]:
    """All numbers that can be computed, by name."""
    found: dict[str, float] = {}
    for name in ANALYSES:
        for quantity in QUANTITIES:
            try:
                found[f"{name}: {quantity}"] = QUANTITIES[quantity](analysis(name))
            except ValueError:
                continue  # needs a horizon, a discount or fewer beliefs
    for world in OPTIMA:
        for discount in (1.0, 0.99):
            best = solvers.solve(problem(world), discount=discount)
            assert best.kind == "exact"
            found[f"{world}: optimum discounted by {discount}"] = best.value
    for world in ("tiger", "shopping-2", "rock-sample-4-4"):
        pomdp = problem(world)
        for bound in (solvers.blind, solvers.fib, solvers.qmdp):
            vectors = bound(pomdp, 20, 0.95).vectors[-1]
            found[f"{world}: {bound.__name__}"] = float((vectors @ pomdp.start).max())
        found[f"{world}: uniform"] = solvers.uniform_return(pomdp, 20, 0.95)
        found[f"{world}: uninformed"] = solvers.best_open_loop(pomdp, 20, 0.95).value
    for world in ("tiger", "shopping-2"):
        found[f"{world}: memoryless"] = solvers.best_memoryless(problem(world), 10, 0.95, starts=1).value
    for method in theory.Q_METHODS:
        fixed = theory.q_fixed_point("tiger", method, horizon=4)
        found[f"tiger: error of {method}"] = fixed.mean_error
        found[f"tiger: greedy return of {method}"] = fixed.greedy_return
    fixed = theory.q_fixed_point("heaven-hell-1", "adqn-state", horizon=8, epsilon=0.3, weighting="episodes")
    found["heaven-hell-1: error of adqn-state, its own replay"] = fixed.mean_error
    return found


def test_numbers_of_the_theory_stay_what_they_were() -> None:
    recorded, found = json.loads(RECORD.read_text()), numbers()
    assert recorded.keys() == found.keys()
    for name, value in recorded.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name


if __name__ == "__main__":
    RECORD.write_text(json.dumps(numbers(), indent=0) + "\n")
