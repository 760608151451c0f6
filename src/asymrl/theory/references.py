"""Returns to compare with: the optimum, the best without looking, the best without memory, and chance."""

from __future__ import annotations

import math
from dataclasses import dataclass

from asymrl.envs.pomdp import Pomdp
from asymrl.theory.memoryless import best_memoryless, uniform_return
from asymrl.theory.optima import Solution
from asymrl.theory.uninformed import best_open_loop

STATES = 500  # with more, the best memoryless policy takes longer than anyone wants to wait


@dataclass(frozen=True)
class Reference:
    """A return: exact, the best one found, or between bounds."""

    low: float
    high: float
    kind: str

    def __str__(self) -> str:
        if self.low != self.high:
            return f"between {self.low:.4g} and {self.high:.4g}"
        return f"{self.low:.4g}" + (" (best found)" if self.kind == "found" else "")


def references(pomdp: Pomdp, horizon: float, best: Solution) -> dict[str, Reference]:
    """Those that can be computed for this problem, by name."""
    known = {"optimal": Reference(best.low, best.high, best.kind)}
    if math.isinf(horizon):
        return known
    steps = int(horizon)
    chance, blind = uniform_return(pomdp, steps, pomdp.discount), best_open_loop(pomdp, steps, pomdp.discount)
    known["uninformed"] = Reference(blind.value, blind.value, blind.kind)
    if pomdp.states <= STATES:
        found = best_memoryless(pomdp, steps, pomdp.discount).value
        known["memoryless"] = Reference(found, found, "found")
    return known | {"random": Reference(chance, chance, "exact")}
