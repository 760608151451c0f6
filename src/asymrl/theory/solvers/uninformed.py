"""The uninformed policy: the best fixed list of actions, which uses no observation.

This is our definition of "never gathers information". Such an agent still notices that the episode goes on (it acts
only while it does), so it may try one exit after another, but no observation changes what it does. It is the optimal
policy of the blindfolded problem, where all observations are the same.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse

from asymrl.theory.solvers.belief_mdp import TooManyBeliefsError, belief_graph, belief_keys, count
from asymrl.theory.solvers.bounds import blind, check_horizon, qmdp, transition
from asymrl.theory.solvers.dynamic_programming import backward_induction
from asymrl.worlds.pomdp import NOTHING, Pomdp

GRAPH_LIMIT = 5_000
BUCKETS = 40  # by the probability that the episode goes on
WIDTH = 50  # lists kept in each bucket


@dataclass(frozen=True)
class OpenLoop:
    """A list of actions and its return: the optimum ("exact"), or the best one found ("found")."""

    value: float
    kind: str
    actions: Int[np.ndarray, "horizon"]


def blindfolded(pomdp: Pomdp) -> Pomdp:
    """The same problem with a single observation, which carries no information."""
    return dataclasses.replace(
        pomdp,
        name=f"{pomdp.name}, blindfolded",
        observation=np.where(pomdp.done, NOTHING, 0),
        first_observation=None,
        observation_names=("nothing",),
    )


def best_open_loop(pomdp: Pomdp, horizon: int, discount: float) -> OpenLoop:
    """The best list of `horizon` actions: exact where there are few beliefs, otherwise by beam search."""
    check_horizon(pomdp, horizon, discount)
    try:
        graph = belief_graph(blindfolded(pomdp), horizon, GRAPH_LIMIT)
    except TooManyBeliefsError:
        return _beam_search(pomdp, horizon, discount)
    table = backward_induction(graph, horizon, discount)
    following = np.full(graph.rewards.shape, -1)
    following[graph.belief, graph.action] = graph.following
    belief, actions = int(graph.first_belief[0]), np.zeros(horizon, int)
    for t in range(horizon):
        actions[t] = table.actions[horizon - t, belief]
        belief = following[belief, actions[t]]
        if belief < 0:
            break  # the episode is certainly over
    return OpenLoop(float(table.values[horizon, graph.first_belief[0]]), "exact", actions)


@dataclass(frozen=True)
class _Beam:
    """Lists of actions of one length: the mass of each state if the episode goes on, and the rewards so far."""

    mass: sparse.csr_array
    paid: Float64[np.ndarray, "n"]
    actions: Int[np.ndarray, "n t"]


def _beam_search(pomdp: Pomdp, horizon: int, discount: float) -> OpenLoop:
    """Extends lists of actions step by step and keeps the promising ones.

    Lists compete with those that are about as likely to have ended the episode: trying an exit costs now and pays
    later, so lists that try many would otherwise lose to those that wait.
    """
    S, A = pomdp.states, pomdp.actions
    chain, R = transition(pomdp), pomdp.R()
    moves = sparse.csr_array(sparse.hstack([chain[np.arange(S) * A + a] for a in range(A)], "csr"))
    above, below = qmdp(pomdp, horizon, discount), blind(pomdp, horizon, discount)
    beam = _Beam(sparse.csr_array(pomdp.start[None]), np.zeros(1), np.zeros((1, 0), int))
    for t in range(horizon):
        n = count(beam.mass)
        mass = sparse.csr_array((beam.mass @ moves).reshape((n * A, S)))
        paid = (beam.paid[:, None] + discount**t * (beam.mass @ R)).ravel()
        remaining, scale = horizon - t - 1, discount ** (t + 1)
        hope = paid + scale * (above.at(mass, remaining) + below.at(mass, remaining)) / 2
        survivors = _promising(mass, paid, hope)
        parent, action = np.divmod(survivors, A)
        actions = np.concatenate([beam.actions[parent], action[:, None]], 1)
        beam = _Beam(mass[survivors], paid[survivors], actions)
    best = int(beam.paid.argmax())
    return OpenLoop(float(beam.paid[best]), "found", beam.actions[best])


def _promising(
    mass: sparse.csr_array, paid: Float64[np.ndarray, "n"], hope: Float64[np.ndarray, "n"]
) -> Int[np.ndarray, "kept"]:
    """The best list for each state distribution, and of these the best few of each bucket."""
    keys = belief_keys(mass)
    order = np.lexsort((-paid, keys[:, 1], keys[:, 0]))
    differs = np.any(np.diff(keys[order], axis=0) != 0, axis=1)
    unique = order[np.concatenate([[True], differs])]
    alive = np.asarray(mass.sum(1)).ravel()[unique]
    bucket = np.ceil(alive * BUCKETS).astype(int)
    ranked = unique[np.lexsort((-hope[unique], bucket))]
    bucket = np.sort(bucket)
    place = np.arange(bucket.size) - np.searchsorted(bucket, bucket)
    return ranked[place < WIDTH]
