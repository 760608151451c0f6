"""Solvers of finite POMDPs: the optimum, bounds on it, and the best policies without memory or without observations.

    >>> from asymrl.theory.solvers import solve
    >>> from asymrl.worlds import make
    >>> best = solve(make("heaven-hell-3").pomdp())
    >>> best.value, best.kind, best.policy()

`reference_returns(world)` gives the returns of a random, an optimal, an uninformed and a memoryless policy together.
"""

from asymrl.theory.solvers.bounds import Bound as Bound, blind as blind, fib as fib, qmdp as qmdp
from asymrl.theory.solvers.hsvi import point_based as point_based
from asymrl.theory.solvers.memoryless import best_memoryless as best_memoryless, uniform_return as uniform_return
from asymrl.theory.solvers.optima import Solution as Solution, solve as solve
from asymrl.theory.solvers.policy_names import (
    analyse_what_fits as analyse_what_fits,
    policy_by_name as policy_by_name,
    read_policy_name as read_policy_name,
)
from asymrl.theory.solvers.references import (
    known_returns as known_returns,
    reference_returns as reference_returns,
    references_for as references_for,
)
from asymrl.theory.solvers.rock_tours import RockBounds as RockBounds, rock_bounds as rock_bounds
from asymrl.theory.solvers.uninformed import best_open_loop as best_open_loop
