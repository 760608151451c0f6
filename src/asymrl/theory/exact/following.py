"""`follow`: the right graph of a policy, for finite and infinite horizons, with bounds where it stops early."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Float64

from asymrl.theory.exact.graph_builder import stationary_graph, unroll
from asymrl.theory.exact.histories import NODES, TooLargeError, count_histories
from asymrl.theory.exact.history_graph import BY_BELIEF, BY_MEMORY, HistoryGraph
from asymrl.theory.exact.policies import HistoryPolicy
from asymrl.theory.exact.time_layers import Root
from asymrl.theory.exact.values import Values, state_bounds
from asymrl.worlds.pomdp import Pomdp

BELIEF_NODES = 50_000  # nodes by belief, beyond which the product chain is used instead
ENDLESS_NODES = 20_000
ENDLESS_HISTORIES = 200_000
TAIL = 1e-6  # discount at which bounds on endless returns stop and a bound on the tail is added


def follow(
    pomdp: Pomdp,
    policy: HistoryPolicy,
    horizon: float,
    *,
    truncation: str = "end",
    mass: float = 1.0,
    merge: str | None = None,
    root: Root | None = None,
    limit: int = NODES,
) -> HistoryGraph:
    """The graph of a policy for a horizon, which may be infinite.

    Args:
        pomdp: the world.
        policy: the policy to follow.
        horizon: the largest number of actions, or math.inf.
        truncation: what happens at the horizon: "end" (no rewards after it) or "bootstrap" (the value of what would
            follow counts).
        mass: below 1, only the likeliest histories are followed, until they have this probability.
        merge: "history", "belief" or "memory"; by default beliefs, or memories if there are too many beliefs.
        root: where to start; by default at the start of an episode.
        limit: the largest number of nodes.
    """
    if truncation not in ("end", "bootstrap"):
        raise ValueError(f"truncation={truncation!r}: choose 'end' or 'bootstrap'")
    if math.isinf(horizon):
        return _endless(pomdp, policy, merge, root)
    steps, beyond = int(horizon), truncation == "bootstrap"
    if mass < 1:
        return _bounded(_likeliest(pomdp, policy, steps, mass, beyond, merge or BY_BELIEF, limit), policy, truncation)
    if merge is None:
        graph = _all(pomdp, policy, steps, beyond, root, limit)
    else:
        graph = unroll(pomdp, policy, steps, merge=merge, beyond=beyond, root=root, limit=limit)
    return _bounded(graph, policy, truncation) if beyond else graph


def _likeliest(
    pomdp: Pomdp, policy: HistoryPolicy, horizon: int, mass: float, beyond: bool, merge: str, limit: int
) -> HistoryGraph:
    """Follows the likeliest histories until an episode leaves them with probability at most 1 - mass.

    No history is likelier than its prefix, so best-first search is the same as following all histories above a
    threshold. The threshold falls until the mass is reached. If that does not fit, the last graph that fits is
    returned, and the values at its open nodes are as uncertain as the world allows.
    """
    if not 0 < mass <= 1:
        raise ValueError(f"mass is {mass!r}, expected a probability above 0")
    largest, threshold, factor = None, (1 - mass) / 16, 4.0
    while True:
        try:
            graph = unroll(pomdp, policy, horizon, merge=merge, threshold=threshold, beyond=beyond, limit=limit)
        except TooLargeError:
            if largest is None:
                raise
            if factor < 1.5:
                return largest
            threshold, factor = threshold * factor**0.5, factor**0.5  # something in between may fit
            continue
        largest = graph
        if graph.left_over <= 1 - mass or threshold == 0 or factor < 4:
            return graph
        threshold = threshold / factor if threshold > 1e-15 else 0.0


def _all(pomdp: Pomdp, policy: HistoryPolicy, steps: int, beyond: bool, root: Root | None, limit: int) -> HistoryGraph:
    """Merged by belief if that fits, otherwise by the policy's memory."""
    forgets = _forgets(pomdp, policy)
    try:
        fits = min(limit, BELIEF_NODES) if forgets else limit
        return unroll(pomdp, policy, steps, merge=BY_BELIEF, beyond=beyond, root=root, limit=fits)
    except TooLargeError:
        if not forgets:
            raise
        return unroll(pomdp, policy, steps, merge=BY_MEMORY, beyond=beyond, root=root, limit=limit)


def _forgets(pomdp: Pomdp, policy: HistoryPolicy) -> bool:
    """Whether the policy may treat different histories as the same."""
    first = 0 if pomdp.first_observation is not None else pomdp.observations
    return policy.keys(policy.begin(np.array([first]))) is not None


def _endless(pomdp: Pomdp, policy: HistoryPolicy, merge: str | None, root: Root | None) -> HistoryGraph:
    if not _forgets(pomdp, policy):
        return _cut(pomdp, policy, root)
    if merge is not None:
        return stationary_graph(pomdp, policy, merge=merge, root=root)[0]
    try:
        return stationary_graph(pomdp, policy, merge=BY_BELIEF, root=root, limit=ENDLESS_NODES)[0]
    except TooLargeError:
        return stationary_graph(pomdp, policy, merge=BY_MEMORY, root=root)[0]


def _cut(pomdp: Pomdp, policy: HistoryPolicy, root: Root | None) -> HistoryGraph:
    """A policy that remembers everything, without a horizon: as deep as fits, with bounds on the rest."""
    if pomdp.discount == 1:
        raise ValueError(
            f"{pomdp.name}: a policy that remembers everything has no computable value without a horizon and without a "
            "discount; give one of the two"
        )
    depth = 1
    while sum(count_histories(pomdp, depth + 1)) <= ENDLESS_HISTORIES and pomdp.discount ** (depth + 1) > TAIL:
        depth += 1
    graph = unroll(pomdp, policy, depth, beyond=True, root=root)
    return _bounded(graph, policy, "bootstrap", endless=True)


def _bounded(graph: HistoryGraph, policy: HistoryPolicy, truncation: str, endless: bool = False) -> HistoryGraph:
    """The graph with bounds on the values at its open nodes."""
    pomdp, horizon = graph.pomdp, graph.horizon or 0
    time, opened = graph.time[graph.node], graph.open[graph.node]
    low, high = np.zeros(graph.pairs), np.zeros(graph.pairs)
    at_end = opened & (time == horizon)
    early = opened & ~at_end
    if truncation == "bootstrap" and opened.any():
        if at_end.any() and not endless and (exact := _beyond(graph, policy)) is not None:
            low[at_end] = high[at_end] = exact
        else:
            early = opened
        least, greatest = _endless_bounds(pomdp)
        low[early], high[early] = least[graph.state[early]], greatest[graph.state[early]]
    elif early.any():
        least, greatest = state_bounds(pomdp, horizon)
        remaining = horizon - time[early]
        low[early], high[early] = least[remaining, graph.state[early]], greatest[remaining, graph.state[early]]
    return dataclasses.replace(graph, low=low, high=high)


def _beyond(graph: HistoryGraph, policy: HistoryPolicy) -> Float64[np.ndarray, "end"] | None:
    """V(h, s) after the last action, if the episode went on; None for a policy that remembers everything."""
    last = int(graph.first_node[-2])
    pairs = slice(int(graph.first_pair[-2]), graph.pairs)
    nodes = graph.nodes - last
    if policy.keys(graph.end_memory) is None:
        return None
    none = np.full(nodes, -1)
    root = Root(graph.end_memory, none, graph.node[pairs] - last, graph.state[pairs], graph.mass[pairs])
    closed, place = stationary_graph(graph.pomdp, policy, root=root)
    return Values(closed).V_hs[place]


def _endless_bounds(pomdp: Pomdp) -> tuple[Float64[np.ndarray, "S"], Float64[np.ndarray, "S"]]:
    """Lower and upper bounds on the return from each state without a horizon."""
    if pomdp.discount == 1:
        raise ValueError(f"{pomdp.name}: returns beyond the horizon are not bounded without a discount below 1")
    steps = max(1, math.ceil(math.log(TAIL) / math.log(pomdp.discount))) if pomdp.discount > 0 else 1
    low, high = state_bounds(pomdp, steps)
    tail = pomdp.discount**steps / (1 - pomdp.discount)
    return low[-1] + tail * min(0.0, pomdp.reward.min()), high[-1] + tail * max(0.0, pomdp.reward.max())
