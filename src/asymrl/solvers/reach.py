"""The analysis of a policy by its name, of whole episodes or of as much of their beginning as fits."""

from __future__ import annotations

from asymrl.solvers.named import named_policy
from asymrl.solvers.optima import Solution, solve
from asymrl.solvers.search import LIMIT
from asymrl.theory.analysis import Analysis, analyse
from asymrl.theory.counting import NODES, TooLargeError
from asymrl.worlds.pomdp import Pomdp

BEGINNING = 20  # actions
FEWEST = 3  # with fewer actions, there is little to remember and nothing to say about critics


def analyse_what_fits(
    pomdp: Pomdp,
    name: str,
    horizon: float,
    *,
    limit: int = NODES,
    beliefs: int = LIMIT,
    seconds: float = 30.0,
) -> tuple[Analysis, Solution]:
    """Analyses a policy over `horizon` actions, or over fewer where so many do not fit; and the optimum for as many.

    Histories grow exponentially, so that with two thirds of the depth at which they are too many there is room and time
    for all that is computed of them. `Analysis.horizon` tells how many actions it became.

    Args:
        pomdp: the problem.
        name: of the policy, as in `named_policy`.
        horizon: how many actions there are at most, or math.inf.
        limit: how many nodes fit.
        beliefs: how many beliefs the search for the optimum may look at.
        seconds: after how long that search gives up and is content with bounds.

    Raises:
        ValueError: if there is no such policy; `TooLargeError`, a kind of it, if not even three actions fit.
    """
    while True:
        best = solve(pomdp, horizon, limit=beliefs, seconds=seconds)
        try:
            return analyse(pomdp, named_policy(pomdp, name, best, horizon), horizon=horizon, limit=limit), best
        except TooLargeError as error:
            shorter = min(BEGINNING, max(FEWEST, 2 * (error.depth or 0) // 3))
            if shorter > (error.depth or 0) or shorter >= horizon:
                raise
            horizon = shorter
