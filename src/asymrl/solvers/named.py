"""Policies by the names that the command line knows."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from asymrl.solvers.optima import Solution
from asymrl.theory.policies import History, Policy, Soft, Window, uniform, window
from asymrl.theory.unroll import unroll
from asymrl.worlds.pomdp import Pomdp

NAMES = "uniform, optimal, eps-optimal:0.5, window:2 or run:FOLDER"


def named_policy(pomdp: Pomdp, name: str, best: Solution, horizon: float) -> Policy:
    """The policy with this name.

    "optimal" is the optimal one. "eps-optimal:E" takes a uniformly random action with probability E instead. "window:K"
    sees the last K pairs only and does what eps-optimal:0.5 does there on average.

    Raises:
        ValueError: if there is no such policy.
    """
    kind, _, argument = name.partition(":")
    if kind == "uniform" and not argument:
        return uniform(pomdp)
    if kind == "optimal" and not argument:
        return best.policy()
    if kind == "eps-optimal":
        return Soft(best.policy(timed=False), _number(name, argument, float))
    if kind == "window":
        steps = int(min(horizon, 1000))
        return imitating_window(pomdp, _number(name, argument, int), Soft(best.policy(timed=False), 0.5), steps)
    raise ValueError(f"unknown policy {name!r}; choose {NAMES}")


def _number(name: str, text: str, kind: type) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"policy {name!r}: {text!r} is not a number; choose {NAMES}") from None


def imitating_window(pomdp: Pomdp, k: int, expert: Policy, horizon: int) -> Window:
    """What an expert does on average, given the last k pairs of its own episodes; uniform where it never comes."""
    both = _Watched(expert, window(pomdp, k, lambda pairs: []))
    graph = unroll(pomdp, both, horizon, merge="memory")
    totals: dict[History, np.ndarray] = defaultdict(lambda: np.zeros(pomdp.actions))
    for node in range(graph.nodes):
        totals[graph.history(node)[-k:]] += graph.probability_of_node[node] * graph.pi[node]

    def act(pairs: History) -> Float64[np.ndarray, "A"]:
        if pairs not in totals:
            return np.full(pomdp.actions, 1 / pomdp.actions)
        return totals[pairs] / totals[pairs].sum()

    return window(pomdp, k, act)


class _Watched(Policy):
    """A policy that is followed together with a window, so that nodes tell windows apart."""

    def __init__(self, policy: Policy, watch: Window):
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
