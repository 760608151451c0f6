"""Histories that a policy can have: all of them, or the likeliest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from asymrl.theory.counting import NODES, TooLargeError
from asymrl.theory.graph import WHOLE, Graph
from asymrl.theory.policies import History, Policy, as_policy
from asymrl.theory.unroll import unroll
from asymrl.worlds.pomdp import Pomdp


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
