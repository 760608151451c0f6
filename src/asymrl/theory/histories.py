"""Histories that can happen: how many there are, how likely they are, the likeliest first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from asymrl.envs.pomdp import Pomdp
from asymrl.theory.graph import WHOLE, Graph
from asymrl.theory.policies import History, Policy, as_policy
from asymrl.theory.unroll import NODES, TooLargeError, unroll

SUPPORTS = 20_000  # sets of states that counting may tell apart


def count(pomdp: Pomdp, depth: int) -> list[int]:
    """How many histories of each length 0 .. depth can happen, if any action may be taken.

    Which observations can follow depends only on which states are possible, so that histories with equal sets of
    possible states are counted together, and the count is exact for depths at which they could not be listed.

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
        if len(following) > SUPPORTS:
            raise TooLargeError(f"{pomdp.name}: more than {SUPPORTS} sets of possible states; ask for a smaller depth")
        counts = later
        totals.append(sum(counts.values()))
    return totals


def needed(pomdp: Pomdp, horizon: int, limit: int) -> str:
    """How many histories a request needs and which depth fits, as a sentence."""
    fits, total = 0, 0
    try:
        totals = count(pomdp, horizon - 1)
    except TooLargeError:
        return "There are too many histories even to count them."
    for depth, number in enumerate(totals):
        total += number
        if total <= limit:
            fits = depth + 1
    return f"There are {_rounded(total)} histories before the last action; up to {fits} actions all of them fit."


def _rounded(number: int) -> str:
    return str(number) if number < 10**7 else f"about 10^{len(str(number)) - 1}"


def _first_supports(pomdp: Pomdp) -> list[frozenset[int]]:
    if pomdp.first_observation is None:
        return [frozenset(np.flatnonzero(pomdp.start).tolist())]
    joint = pomdp.start[:, None] * pomdp.first_observation
    return [frozenset(np.flatnonzero(column).tolist()) for column in joint.T if column.any()]


def _next_supports(pomdp: Pomdp, states: frozenset[int]) -> list[frozenset[int]]:
    """The sets of states after each action and observation that can follow."""
    reached: dict[tuple[int, int], set[int]] = {}
    for s in states:
        for a in range(pomdp.actions):
            row = s * pomdp.actions + a
            for k in range(int(pomdp.first[row]), int(pomdp.first[row + 1])):
                if not pomdp.done[k]:
                    reached.setdefault((a, int(pomdp.observation[k])), set()).add(int(pomdp.next_state[k]))
    return [frozenset(after) for after in reached.values()]


def realisable(
    pomdp: Pomdp, depth: int, policy: Policy | str = "uniform", limit: int = NODES
) -> Iterator[tuple[History, float]]:
    """The histories with up to `depth` actions that the policy can have, with Pr(H_t = h), shorter ones first.

    Raises:
        TooLargeError: if there are more than `limit`; it says how many, and which depth fits.
    """
    graph = unroll(pomdp, as_policy(pomdp, policy), max(depth, 1), merge=WHOLE, beyond=True, limit=limit)
    listed = int(np.searchsorted(graph.time, depth, "right"))
    return ((graph.history(z), float(graph.probability_of_node[z])) for z in range(listed))


def follow_likeliest(
    pomdp: Pomdp,
    policy: Policy,
    horizon: int,
    *,
    mass: float,
    beyond: bool = False,
    limit: int = NODES,
    merge: str = WHOLE,
) -> Graph:
    """Follows the likeliest histories until an episode leaves them with probability 1 - mass at most.

    No history is likelier than what it extends, so going best-first is the same as following all above a threshold.
    The threshold falls until the mass is reached; if that does not fit, the last graph that did is returned, and the
    values at its open nodes are as uncertain as the problem allows.
    """
    if not 0 < mass <= 1:
        raise ValueError(f"mass is {mass!r}, expected a probability above 0")
    found, threshold, factor = None, (1 - mass) / 16, 4.0
    while True:
        try:
            graph = unroll(pomdp, policy, horizon, merge=merge, threshold=threshold, beyond=beyond, limit=limit)
        except TooLargeError:
            if found is None:
                raise
            if factor < 1.5:
                return found
            threshold, factor = threshold * factor**0.5, factor**0.5  # something in between may fit
            continue
        found = graph
        if left_over(graph) <= 1 - mass or threshold == 0 or factor < 4:
            return found
        threshold = threshold / factor if threshold > 1e-15 else 0.0


def left_over(graph: Graph) -> float:
    """The probability that an episode comes to a node that was not followed."""
    early = graph.open & (graph.time < (graph.horizon or 0))
    return float(graph.probability_of_node[early].sum())
