"""Policies for exact computation: pi(a; h) for many histories at once.

A policy is described by its memory. `begin` gives the memory after the first observation, `advance` the memory after
one more action and observation, `act` the probabilities of the next action. Histories with equal `keys` are the same
to the policy; a policy without keys remembers everything and distinguishes all histories.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from asymrl.theory.exact.beliefs import fingerprint, first_belief, next_beliefs
from asymrl.theory.exact.histories import History
from asymrl.worlds.pomdp import Pomdp

PolicyLike = Any
"""A `HistoryPolicy`, "uniform", a function of histories, a mapping from them, or an array of rows by observation."""


class HistoryPolicy(abc.ABC):
    """pi(a; h). A memory is an array, a tuple of arrays or a list, with one row for each history."""

    @abc.abstractmethod
    def begin(self, o: Int[np.ndarray, "n"]) -> Any:
        """The memory after each of these first observations; |O| is the constant symbol, or no observation."""

    @abc.abstractmethod
    def advance(self, memory: Any, rows: Int[np.ndarray, "m"], a: Int[np.ndarray, "m"], o: Int[np.ndarray, "m"]) -> Any:
        """The memory of m longer histories: number j extends history `rows[j]` by (a[j], o[j])."""

    @abc.abstractmethod
    def act(self, memory: Any) -> Float64[np.ndarray, "n A"]:
        """pi(. ; h) for each history."""

    def keys(self, memory: Any) -> Int[np.ndarray, "n k"] | None:
        """Numbers that are equal for histories that the policy does not distinguish; None: it distinguishes all."""
        return None

    def rows(self, memory: Any, rows: Int[np.ndarray, "m"]) -> Any:
        """These rows of a memory."""
        if isinstance(memory, tuple):
            return tuple(part[rows] for part in memory)
        return memory[rows]

    def joined(self, one: Any, other: Any) -> Any:
        """The rows of two memories, one after the other."""
        if isinstance(one, tuple):
            return tuple(np.concatenate(parts) for parts in zip(one, other, strict=True))
        return np.concatenate([one, other])


class Controller(HistoryPolicy):
    """A finite-state controller: acts by pi(. | z), moves to z' = u(z, a, o)."""

    def __init__(
        self,
        pi: Float64[np.ndarray, "Z A"],
        first: Int[np.ndarray, "O1"],
        next: Int[np.ndarray, "Z A O"] | Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    ):
        """A controller from its tables.

        Args:
            pi: the probabilities of the actions in each node.
            first: the node after each first observation; the last entry, |O|, is for the constant symbol.
            next: u as a table, or as a function of arrays z, a, o.
        """
        self.pi, self.first, self.next = pi, first, next

    def begin(self, o: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        return self.first[o]

    def advance(self, memory: Any, rows: np.ndarray, a: np.ndarray, o: np.ndarray) -> Int[np.ndarray, "m"]:
        z = memory[rows]
        return self.next(z, a, o) if callable(self.next) else self.next[z, a, o]

    def act(self, memory: Any) -> Float64[np.ndarray, "n A"]:
        return self.pi[memory]

    def keys(self, memory: Any) -> Int[np.ndarray, "n k"]:
        return memory[:, None]


def reactive(table: Float64[np.ndarray, "O1 A"]) -> Controller:
    """pi(a; o): a row for each observation; the last one is for the constant symbol that some worlds show first."""
    return Controller(table, np.arange(len(table)), lambda z, a, o: o)


def uniform(pomdp: Pomdp) -> Controller:
    """The policy that always takes a uniformly random action."""
    pi = np.full((1, pomdp.actions), 1 / pomdp.actions)
    return Controller(pi, np.zeros(pomdp.observations + 1, int), lambda z, a, o: np.zeros_like(z))


class FunctionPolicy(HistoryPolicy):
    """A Python function from a history to probabilities."""

    def __init__(self, function: Callable[[History], Any], shows_first: bool):
        """`shows_first`: whether histories begin with a pair (None, o)."""
        self.function, self.shows_first = function, shows_first

    def begin(self, o: Int[np.ndarray, "n"]) -> list[History]:
        return [((None, int(each)),) if self.shows_first else () for each in o]

    def advance(self, memory: Any, rows: np.ndarray, a: np.ndarray, o: np.ndarray) -> list[History]:
        pairs = zip(rows.tolist(), a.tolist(), o.tolist(), strict=True)
        return [(*memory[row], (action, observation)) for row, action, observation in pairs]

    def act(self, memory: Any) -> Float64[np.ndarray, "n A"]:
        return _stacked([self.function(h) for h in memory])


class WindowPolicy(HistoryPolicy):
    """A function of the last k (action, observation) pairs; fewer at the start of an episode."""

    def __init__(self, pomdp: Pomdp, k: int, function: Callable[[History], Sequence[float] | np.ndarray]):
        """Where histories begin with a pair (None, o), that pair counts as one of the k."""
        if k < 1:
            raise ValueError(f"a window of {k} pairs: at least 1 is needed")
        self.k, self.function, self.shows_first = k, function, pomdp.first_observation is not None

    def begin(self, o: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n k 2"]:
        memory = np.full((len(o), self.k, 2), -1)
        if self.shows_first:
            memory[:, -1, 1] = o
        return memory

    def advance(self, memory: Any, rows: np.ndarray, a: np.ndarray, o: np.ndarray) -> Int[np.ndarray, "m k 2"]:
        return np.concatenate([memory[rows, 1:], np.stack([a, o], -1)[:, None]], axis=1)

    def act(self, memory: Any) -> Float64[np.ndarray, "n A"]:
        return _stacked([self.function(self._pairs(each)) for each in memory.tolist()])

    def keys(self, memory: Any) -> Int[np.ndarray, "n k"]:
        return memory.reshape(len(memory), -1)

    @staticmethod
    def _pairs(window: list[list[int]]) -> History:
        return tuple((None if a < 0 else a, o) for a, o in window if o >= 0)


class BeliefPolicy(HistoryPolicy):
    """A function of the belief b(h) and, if it is `timed`, of the time."""

    def __init__(
        self,
        pomdp: Pomdp,
        function: Callable[[Float64[np.ndarray, "n S"], Int[np.ndarray, "n"]], Float64[np.ndarray, "n A"]],
        timed: bool = False,
    ):
        """`function` maps beliefs [n, S] and times [n] (zeros unless `timed`) to probabilities [n, A]."""
        self.pomdp, self.function, self.timed = pomdp, function, timed

    def begin(self, o: Int[np.ndarray, "n"]) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([first_belief(self.pomdp, int(each)) for each in o]), np.zeros(len(o), int)

    def advance(self, memory: Any, rows: np.ndarray, a: np.ndarray, o: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        beliefs, time = memory
        return next_beliefs(self.pomdp, beliefs[rows], a, o)[0], time[rows] + int(self.timed)

    def act(self, memory: Any) -> Float64[np.ndarray, "n A"]:
        return np.asarray(self.function(*memory), float)

    def keys(self, memory: Any) -> Int[np.ndarray, "n k"]:
        beliefs, time = memory
        row, state = np.nonzero(beliefs)
        return np.concatenate([fingerprint(row, state, beliefs[row, state], len(beliefs)), time[:, None]], axis=1)


class EpsilonSoft(HistoryPolicy):
    """Follows another policy, but takes a uniformly random action with probability epsilon."""

    def __init__(self, policy: HistoryPolicy, epsilon: float):
        if not 0 <= epsilon <= 1:
            raise ValueError(f"epsilon is {epsilon!r}, expected a probability")
        self.policy, self.epsilon = policy, epsilon

    def begin(self, o: Int[np.ndarray, "n"]) -> Any:
        return self.policy.begin(o)

    def advance(self, memory: Any, rows: np.ndarray, a: np.ndarray, o: np.ndarray) -> Any:
        return self.policy.advance(memory, rows, a, o)

    def act(self, memory: Any) -> Float64[np.ndarray, "n A"]:
        pi = self.policy.act(memory)
        return (1 - self.epsilon) * pi + self.epsilon / pi.shape[1]

    def keys(self, memory: Any) -> Int[np.ndarray, "n k"] | None:
        return self.policy.keys(memory)

    def rows(self, memory: Any, rows: Int[np.ndarray, "m"]) -> Any:
        return self.policy.rows(memory, rows)

    def joined(self, one: Any, other: Any) -> Any:
        return self.policy.joined(one, other)


def as_policy(pomdp: Pomdp, policy: PolicyLike) -> HistoryPolicy:
    """Converts anything `PolicyLike` to a policy.

    Raises:
        ValueError: if it is not a policy, or a table has the wrong shape.
    """
    shows_first = pomdp.first_observation is not None
    if isinstance(policy, HistoryPolicy):
        return policy
    if isinstance(policy, str) and policy == "uniform":
        return uniform(pomdp)
    if isinstance(policy, Mapping):
        return FunctionPolicy(_looked_up(policy), shows_first)
    if isinstance(policy, np.ndarray):
        rows = pomdp.observations + (0 if shows_first else 1)
        if policy.shape != (rows, pomdp.actions):
            raise ValueError(
                f"a reactive policy for {pomdp.name} has shape {policy.shape}, not {(rows, pomdp.actions)}"
            )
        return reactive(policy.astype(float))
    if callable(policy):
        return FunctionPolicy(policy, shows_first)
    raise ValueError(
        f"{policy!r} is not a policy: give 'uniform', a table, a function of the history, or a HistoryPolicy"
    )


def _looked_up(table: Mapping[History, Sequence[float]]) -> Callable[[History], Sequence[float]]:
    def look_up(h: History) -> Sequence[float]:
        if h not in table:
            raise ValueError(f"the table has no row for the history {h}, which is possible")
        return table[h]

    return look_up


def _stacked(rows: Sequence[Any]) -> Float64[np.ndarray, "n A"]:
    """The rows as an array; shorter ones are filled with NaN, which is refused later, naming the history."""
    lengths = [np.size(row) for row in rows]
    table = np.full((len(rows), max(lengths, default=0)), np.nan)
    for i, row in enumerate(rows):
        table[i, : lengths[i]] = np.asarray(row, float).reshape(-1)
    return table
