"""Policies by name, as on the command line, and the analysis of as many actions as fit."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from asymrl.theory.exact.analysis import Analysis, analyse
from asymrl.theory.exact.graph_builder import unroll
from asymrl.theory.exact.histories import NODES, History, TooLargeError
from asymrl.theory.exact.policies import EpsilonSoft, HistoryPolicy, WindowPolicy, uniform
from asymrl.theory.solvers.deadline import Deadline
from asymrl.theory.solvers.optima import SECONDS, Solution, solve
from asymrl.theory.solvers.search import LIMIT
from asymrl.worlds.pomdp import Pomdp

NAMES = "uniform, optimal, eps-optimal:0.5, window:2 or run:FOLDER"
BEGINNING = 20  # actions to analyse if whole episodes do not fit
FEWEST = 3  # with fewer actions there is little to remember and nothing to conclude about critics


def policy_by_name(pomdp: Pomdp, name: str, best: Solution, horizon: float) -> HistoryPolicy:
    """The policy with this name.

    "uniform" takes random actions. "optimal" is the optimal policy. "eps-optimal:E" takes a random action with
    probability E instead. "window:K" reads the last K pairs only and does what eps-optimal:0.5 does there on average.

    Raises:
        ValueError: if there is no such policy.
    """
    kind, number = read_policy_name(name)
    if kind == "uniform":
        return uniform(pomdp)
    if kind == "optimal":
        return best.policy()
    if kind == "eps-optimal":
        return EpsilonSoft(best.policy(timed=False), number)
    return imitating_window(pomdp, int(number), EpsilonSoft(best.policy(timed=False), 0.5), int(min(horizon, 1000)))


def read_policy_name(name: str) -> tuple[str, float]:
    """The kind of policy that a name means, and its number, 0 where there is none. Raises ValueError."""
    kind, _, argument = name.partition(":")
    if kind in ("uniform", "optimal") and not argument:
        return kind, 0
    if kind == "eps-optimal":
        if not 0 <= (epsilon := _number(name, argument, float)) <= 1:
            raise ValueError(f"{name}: {argument} is not a probability; choose a number between 0 and 1")
        return kind, epsilon
    if kind == "window":
        if (pairs := _number(name, argument, int)) < 1:
            raise ValueError(f"{name}: a window has at least 1 pair of action and observation; choose window:1")
        return kind, pairs
    raise ValueError(f"unknown policy {name!r}; choose {NAMES}")


def _number(name: str, text: str, kind: type) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name}: {text!r} is not a number; choose {NAMES}") from None


def imitating_window(pomdp: Pomdp, k: int, expert: HistoryPolicy, horizon: int) -> WindowPolicy:
    """What an expert does on average given the last k pairs of its own episodes; uniform after pairs it never meets."""
    both = _WithWindow(expert, WindowPolicy(pomdp, k, lambda pairs: []))
    graph = unroll(pomdp, both, horizon, merge="memory")
    totals: dict[History, np.ndarray] = defaultdict(lambda: np.zeros(pomdp.actions))
    for node in range(graph.nodes):
        totals[graph.history(node)[-k:]] += graph.probability_of_node[node] * graph.pi[node]

    def act(pairs: History) -> Float64[np.ndarray, "A"]:
        if pairs not in totals:
            return np.full(pomdp.actions, 1 / pomdp.actions)
        return totals[pairs] / totals[pairs].sum()

    return WindowPolicy(pomdp, k, act)


class _WithWindow(HistoryPolicy):
    """A policy together with a window, so that nodes of the graph differ if their windows do."""

    def __init__(self, policy: HistoryPolicy, watch: WindowPolicy):
        self.policy, self.watch = policy, watch

    def begin(self, o: Int[np.ndarray, "n"]) -> Any:
        return self.policy.begin(o), self.watch.begin(o)

    def advance(self, memory: Any, rows: np.ndarray, a: np.ndarray, o: np.ndarray) -> Any:
        return self.policy.advance(memory[0], rows, a, o), self.watch.advance(memory[1], rows, a, o)

    def act(self, memory: Any) -> Float64[np.ndarray, "n A"]:
        return self.policy.act(memory[0])

    def keys(self, memory: Any) -> Int[np.ndarray, "n k"] | None:
        remembered = self.policy.keys(memory[0])
        return None if remembered is None else np.concatenate([remembered, self.watch.keys(memory[1])], axis=1)

    def rows(self, memory: Any, rows: Int[np.ndarray, "m"]) -> Any:
        return self.policy.rows(memory[0], rows), self.watch.rows(memory[1], rows)


def analyse_what_fits(
    pomdp: Pomdp,
    name: str,
    horizon: float,
    *,
    limit: int = NODES,
    beliefs: int = LIMIT,
    seconds: float = SECONDS,
    deadline: Deadline | None = None,
    whole: Solution | None = None,
) -> tuple[Analysis, Solution]:
    """Analyses a policy over `horizon` actions, or over fewer if they do not fit, with the optimum for that number.

    Histories grow exponentially, so two thirds of the depth at which there are too many leave room for everything that
    is computed from them. `Analysis.horizon` is the resulting number of actions.

    Args:
        pomdp: the world.
        name: of the policy, as in `policy_by_name`.
        horizon: the largest number of actions, or math.inf.
        limit: the largest number of nodes.
        beliefs: the largest number of beliefs of the search for the optimum.
        seconds: the time limit of that search, after which it gives bounds.
        deadline: replaces `seconds`.
        whole: the optimum for `horizon` actions, if it is known already.

    Raises:
        ValueError: if there is no such policy.
        TooLargeError: if not even three actions fit. A subclass of ValueError.
    """
    deadline = deadline or Deadline(seconds)
    best = whole or solve(pomdp, horizon, limit=beliefs, deadline=deadline.part(0.8))
    while True:
        deadline.tell(f"following the histories of {name}")
        try:
            return analyse(pomdp, policy_by_name(pomdp, name, best, horizon), horizon=horizon, limit=limit), best
        except TooLargeError as error:
            shorter = min(BEGINNING, max(FEWEST, 2 * (error.depth or 0) // 3))
            if shorter >= horizon:  # with the policy for few actions, more of them may fit than with that for many
                raise
            horizon = shorter
            best = solve(pomdp, horizon, limit=beliefs, deadline=deadline.part(0.8))
