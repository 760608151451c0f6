"""The belief and the exact values along one episode of a trained agent, beside what its critic says."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float64, Int

from asymrl.agents.playback import Playback
from asymrl.agents.trained import TrainedRun
from asymrl.audit.trained_networks import TrainedActor
from asymrl.stores.wording import thousands
from asymrl.theory.analysis import Analysis, analyse
from asymrl.theory.beliefs import first_belief, next_beliefs
from asymrl.worlds.finite import FiniteWorld

MASS = 0.99
MOST_NODES = 10_000  # two or three seconds for a recurrent policy
TOLERANCE = 0.05  # of the largest reward: a value that is known less well is not shown
STATE_TARGETS = ("mc", "td0", "td-lambda")


class EpisodeValues(NamedTuple):
    """Exact values at the T steps of an episode; NaN where the history was not followed, or not far enough."""

    V_h: Float64[np.ndarray, "T"]
    V_s: Float64[np.ndarray, "T"]
    """What a critic V(s) is taught by the targets of the run: a mean over all histories that visit the state."""
    V_hs: Float64[np.ndarray, "T"]
    error: Float64[np.ndarray, "T"]
    """How far V(h) can be from the truth."""


class ExactPolicy(NamedTuple):
    """A trained policy under exact arithmetic, or the reason why that is not possible."""

    analysis: Analysis | None
    state_values: Float64[np.ndarray, "S"] | None
    """V(s) of each state, or None if too many episodes leave the histories that were followed."""
    missing: str
    """Why some or all values are missing; empty if there is no reason."""


def exact_policy(
    trained: TrainedRun, *, greedy: bool = False, mass: float = MASS, limit: int = MOST_NODES
) -> ExactPolicy:
    """Follows the likeliest histories of a trained policy in a finite world.

    Args:
        trained: a run in a finite world.
        greedy: whether the agent always takes its likeliest action.
        mass: follow the likeliest histories until they have this probability.
        limit: the largest number of histories.
    """
    settings = trained.settings
    policy = TrainedActor(trained.state.actor, greedy=greedy)
    truncation = "bootstrap" if settings.bootstrap_truncated else "end"
    try:
        analysis = analyse(
            trained.world, policy, discount=settings.discount, truncation=truncation, mass=mass, limit=limit
        )
        left_over = analysis.left_over
        if left_over > 1 - min(mass, MASS):
            share = f"{left_over:.0%} of its episodes leave the {thousands(limit)} likeliest histories"
            remedy = "" if greedy else " Those of its most likely actions may be known: asymrl report --greedy."
            return ExactPolicy(analysis, None, f"Some exact values are missing: {share}.{remedy}")
        estimator, parameter = settings.targets
        kind = estimator if estimator in STATE_TARGETS else "td0"
        return ExactPolicy(analysis, analysis.visit_values(kind, parameter if kind == "td-lambda" else None), "")
    except ValueError as error:  # too many histories, or returns that are not bounded
        return ExactPolicy(None, None, f"There are no exact values: {error}")


def episode_beliefs(world: FiniteWorld, playback: Playback) -> Float64[np.ndarray, "T S"]:
    """b(h) = Pr(S | h) before each action of an episode."""
    pomdp = world.pomdp()
    observations, actions = np.asarray(playback.observations), np.asarray(playback.actions)
    beliefs = [first_belief(pomdp, int(observations[0]))]
    for a, o in zip(actions[:-1], observations[1:-1], strict=True):
        beliefs.append(next_beliefs(pomdp, beliefs[-1][None], np.array([a]), np.array([o]))[0][0])
    return np.stack(beliefs)


def episode_values(world: FiniteWorld, playback: Playback, exact: ExactPolicy) -> EpisodeValues:
    """V(h), V(s) and V(h, s) before each action of an episode, as far as they are known to within `TOLERANCE`."""
    T, analysis = len(playback.actions), exact.analysis
    states = episode_states(world, playback)[:T]
    V_h, V_hs, error = (np.full(T, np.nan) for _ in range(3))
    V_s = np.full(T, np.nan) if exact.state_values is None else exact.state_values[states]
    if analysis is None:
        return EpisodeValues(V_h, V_s, V_hs, error)
    graph, values = analysis.graph, analysis.values
    largest = TOLERANCE * max(float(np.abs(graph.pomdp.reward).max()), 1e-12)
    observations, actions = np.asarray(playback.observations), np.asarray(playback.actions)
    first = int(observations[0]) if graph.pomdp.first_observation is not None else None
    node = graph.first_node_of(first)
    for t in range(T):
        if t > 0 and node is not None:
            node = graph.successor(node, int(actions[t - 1]), int(observations[t]))
        if node is None or graph.open[node]:
            break
        pairs = graph.pairs_of(node)
        doubt = float(graph.belief[pairs] @ values.error[pairs])
        here = pairs[graph.state[pairs] == states[t]]
        if doubt <= largest:
            V_h[t], error[t] = values.V_h[node], doubt
        if len(here) and values.error[here[0]] <= largest:
            V_hs[t] = values.V_hs[here[0]]
    return EpisodeValues(V_h, V_s, V_hs, error)


def episode_states(world: FiniteWorld, playback: Playback) -> Int[np.ndarray, "T1"]:
    """The index of the true state at each step of an episode and after its end."""
    return np.asarray(jax.vmap(world.latent)(playback.states)).reshape(-1)
