"""Histories: tuples of (action, observation) pairs, in words, and how many there are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asymrl.worlds.pomdp import Pomdp

History = tuple[tuple[int | None, int], ...]
"""(action, observation) pairs; if the world draws its first observation from the state, the first is (None, o)."""

NODES = 600_000  # with a few outcomes per state and action, an analysis of this many nodes fits into 1 GB
EDGES = 20_000_000  # outcomes of all nodes; those of one time step are held several times
SUPPORTS = 20_000  # sets of possible states while counting
QUICK_SUPPORTS = 500  # while counting for a message


class TooLargeError(ValueError):
    """A request that does not fit. The message, which says what would fit, is computed when it is read.

    `depth` is the number of actions that were followed before the limit was reached, if known.
    """

    def __init__(self, explanation: str | Callable[[], str], depth: int | None = None):
        super().__init__(explanation)
        self.explanation, self.depth = explanation, depth

    def __str__(self) -> str:
        return self.explanation if isinstance(self.explanation, str) else self.explanation()


def count_histories(pomdp: Pomdp, depth: int, *, supports: int = SUPPORTS) -> list[int]:
    """The number of possible histories of each length 0 .. depth, if any action may be taken.

    The observations that can follow depend on the set of possible states only. Histories with equal sets are counted
    together, so that the count is exact at depths where histories could not be listed.

    Raises:
        TooLargeError: if there are too many different sets.
    """
    counts: dict[frozenset[int], int] = {}
    for states in _first_supports(pomdp):
        counts[states] = counts.get(states, 0) + 1
    following: dict[frozenset[int], list[frozenset[int]]] = {}
    totals = [sum(counts.values())]
    for _ in range(depth):
        later: dict[frozenset[int], int] = {}
        for states, number in counts.items():
            if states not in following:
                following[states] = _next_supports(pomdp, states)
            for after in following[states]:
                later[after] = later.get(after, 0) + number
            if len(following) > supports:
                raise TooLargeError(
                    f"{pomdp.name}: more than {supports} sets of possible states; choose a smaller depth"
                )
        counts = later
        totals.append(sum(counts.values()))
    return totals


def needed(pomdp: Pomdp, horizon: int) -> str:
    """The number of histories up to a horizon, as a sentence."""
    try:
        total = sum(count_histories(pomdp, horizon - 1, supports=QUICK_SUPPORTS))
    except TooLargeError:
        return "There are too many histories to count."
    return f"There are {_rounded(total)} histories before the last action."


def _rounded(number: int) -> str:
    return str(number) if number < 10**7 else f"about 10^{len(str(number)) - 1}"


def _first_supports(pomdp: Pomdp) -> list[frozenset[int]]:
    if pomdp.first_observation is None:
        return [frozenset(np.flatnonzero(pomdp.start).tolist())]
    joint = pomdp.start[:, None] * pomdp.first_observation
    return [frozenset(np.flatnonzero(column).tolist()) for column in joint.T if column.any()]


def _next_supports(pomdp: Pomdp, states: frozenset[int]) -> list[frozenset[int]]:
    """The set of possible states after each action and observation that can follow."""
    reached: dict[tuple[int, int], set[int]] = {}
    for s in states:
        for a in range(pomdp.actions):
            row = s * pomdp.actions + a
            for k in range(int(pomdp.first[row]), int(pomdp.first[row + 1])):
                if not pomdp.done[k]:
                    reached.setdefault((a, int(pomdp.observation[k])), set()).add(int(pomdp.next_state[k]))
    return [frozenset(after) for after in reached.values()]


def describe(pomdp: Pomdp, h: tuple[tuple[int | None, int], ...]) -> str:
    """A history in the world's own names, such as `good good→bad`."""
    if not h:
        return "the start"
    words = []
    for a, o in h:
        observation = pomdp.name_of_observation(o)
        words.append(observation if a is None else f"{pomdp.action_names[a]}→{observation}")
    return " ".join(words)
