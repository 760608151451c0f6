"""The belief and the true values along one episode of a trained agent, to compare with its critic.

Values are exact, within bounds, where the likely histories from there on fit; elsewhere they are simulated.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float64, Int

from asymrl.runs.playback import Playback
from asymrl.runs.trained import TrainedRun
from asymrl.runs.wording import thousands
from asymrl.theory.audit.simulated_values import simulated_state_values, simulated_values
from asymrl.theory.audit.trained_networks import TrainedActor
from asymrl.theory.exact.analysis import Analysis, analyse, as_pomdp
from asymrl.theory.exact.beliefs import first_belief, next_beliefs
from asymrl.theory.exact.histories import TooLargeError
from asymrl.worlds.finite import FiniteWorld

MASS = 0.99
MOST_NODES = 10_000  # two or three seconds for a recurrent policy
TRIAL_SHARE, TRIAL_DEPTH = 0.1, 0.25  # if this share of these does not reach this share of the time limit, give up
TOLERANCE = 0.05  # of the largest reward: a less certain value is not shown
CLOSE = 0.002  # of the largest reward: a less certain value is simulated, where that is possible
STATE_TARGETS = ("mc", "td0", "td-lambda")


class EpisodeValues(NamedTuple):
    """True values at the T steps of an episode; NaN where they are not known."""

    V_h: Float64[np.ndarray, "T"]
    V_s: Float64[np.ndarray, "T"]
    """What a critic V(s) is taught by the targets of the run: a mean over all histories that visit the state."""
    V_hs: Float64[np.ndarray, "T"]
    V_h_error: Float64[np.ndarray, "T"]
    """How far V(h) can be from the truth; where it is simulated, its standard error."""
    V_hs_error: Float64[np.ndarray, "T"]
    simulated: Bool[np.ndarray, "T"]
    """Where V(h) and V(h, s) are simulated."""


class ExactPolicy(NamedTuple):
    """A trained policy under exact arithmetic, or the reason why that is not possible."""

    analysis: Analysis | None
    state_values: Float64[np.ndarray, "S"] | None
    """V(s) of each state, or None if it is not known."""
    missing: str
    """Which values are not exact, and why; empty if all are."""
    simulated: TrainedActor | None = None
    """The policy, if values that are not known exactly can be simulated."""
    discount: float = 1.0


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
    estimator, parameter = settings.targets
    kind = estimator if estimator in STATE_TARGETS else "td0"
    if _can_simulate(trained) and _is_hopeless(trained, policy, mass, int(limit * TRIAL_SHARE)):
        why = "There are no exact values: this policy has far too many likely histories."
        return _simulated(trained, policy, kind, None, why)
    try:
        analysis = _followed(trained, policy, mass, limit)
    except ValueError as error:  # too many histories, or returns that are not bounded
        return _simulated(trained, policy, kind, None, f"There are no exact values: {error}.")
    left_over = analysis.left_over
    if left_over > 1 - min(mass, MASS):
        share = f"{left_over:.0%} of its episodes leave the {thousands(limit)} likeliest histories"
        return _simulated(trained, policy, kind, analysis, f"Not all values are exact: {share}.")
    return ExactPolicy(analysis, analysis.visit_values(kind, parameter if kind == "td-lambda" else None), "")


def _followed(trained: TrainedRun, policy: TrainedActor, mass: float, limit: int) -> Analysis:
    settings = trained.settings
    truncation = "bootstrap" if settings.bootstrap_truncated else "end"
    return analyse(trained.world, policy, discount=settings.discount, truncation=truncation, mass=mass, limit=limit)


def _is_hopeless(trained: TrainedRun, policy: TrainedActor, mass: float, few: int) -> bool:
    """Whether `few` histories are used up so early that following more is not worth the time.

    This is so for an agent that has hardly learned.
    """
    try:
        _followed(trained, policy, mass, few)
    except TooLargeError as error:
        limit = as_pomdp(trained.world).time_limit
        return limit is not None and error.depth is not None and error.depth < TRIAL_DEPTH * limit
    except ValueError:
        return False
    return False


def _can_simulate(trained: TrainedRun) -> bool:
    """Whether returns end with the time limit."""
    return not trained.settings.bootstrap_truncated and as_pomdp(trained.world).time_limit is not None


def _simulated(
    trained: TrainedRun, policy: TrainedActor, kind: str, analysis: Analysis | None, why: str
) -> ExactPolicy:
    """A policy whose values are simulated where they are not known exactly."""
    settings = trained.settings
    pomdp = as_pomdp(trained.world)
    if not _can_simulate(trained):
        return ExactPolicy(analysis, None, f"{why} Those that are not are missing.")
    V_s = None
    if kind != "td-lambda":
        V_s = simulated_state_values(pomdp, policy, settings.discount, bootstraps=kind == "td0")
    those = "The values shown" if analysis is None else "The others"
    how = f"{those} are means over simulated continuations, ± their standard errors, in long episodes not of every step"
    also = "; V(s) is from simulated episodes." if V_s is not None else "."
    return ExactPolicy(analysis, V_s, f"{why} {how}{also}", policy, settings.discount)


def episode_beliefs(world: FiniteWorld, playback: Playback) -> Float64[np.ndarray, "T S"]:
    """b(h) = Pr(S | h) before each action of an episode."""
    pomdp = world.pomdp()
    observations, actions = np.asarray(playback.observations), np.asarray(playback.actions)
    beliefs = [first_belief(pomdp, int(observations[0]))]
    for a, o in zip(actions[:-1], observations[1:-1], strict=True):
        beliefs.append(next_beliefs(pomdp, beliefs[-1][None], np.array([a]), np.array([o]))[0][0])
    return np.stack(beliefs)


def episode_values(world: FiniteWorld, playback: Playback, exact: ExactPolicy) -> EpisodeValues:
    """V(h), V(s) and V(h, s) before each action: exact where that is possible to within `TOLERANCE`, or simulated."""
    T = len(playback.actions)
    states = episode_states(world, playback)[:T]
    V_s = np.full(T, np.nan) if exact.state_values is None else exact.state_values[states]
    V_h, V_h_error, V_hs, V_hs_error = _exact_values(playback, states, exact.analysis)
    close = CLOSE * float(np.abs(world.pomdp().reward).max())
    uncertain_steps = ~((V_h_error <= close) & (V_hs_error <= close))  # NaN is not close
    if exact.simulated is None or not uncertain_steps.any():
        return EpisodeValues(V_h, V_s, V_hs, V_h_error, V_hs_error, np.zeros(T, bool))
    beliefs = episode_beliefs(world, playback)
    drawn = simulated_values(world.pomdp(), exact.simulated, playback, states, beliefs, exact.discount, uncertain_steps)
    there = np.isfinite(drawn.V_h)
    return EpisodeValues(
        V_h=np.where(there, drawn.V_h, V_h),
        V_s=V_s,
        V_hs=np.where(there, drawn.V_hs, V_hs),
        V_h_error=np.where(there, drawn.V_h_error, V_h_error),
        V_hs_error=np.where(there, drawn.V_hs_error, V_hs_error),
        simulated=there,
    )


def _exact_values(
    playback: Playback, states: Int[np.ndarray, "T"], analysis: Analysis | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """V(h), V(h, s) and how far each can be from the truth, NaN where they are not known to within `TOLERANCE`."""
    T = len(states)
    V_h, V_h_error, V_hs, V_hs_error = (np.full(T, np.nan) for _ in range(4))
    if analysis is None:
        return V_h, V_h_error, V_hs, V_hs_error
    graph, values = analysis.graph, analysis.values
    largest = TOLERANCE * max(float(np.abs(graph.pomdp.reward).max()), 1e-12)
    observations, actions = np.asarray(playback.observations), np.asarray(playback.actions)
    node = graph.root(int(observations[0]) if graph.pomdp.first_observation is not None else -1)
    for t in range(T):
        if t > 0 and node is not None:
            node = graph.successor(node, int(actions[t - 1]), int(observations[t]))
        if node is None or graph.open[node]:
            break
        pairs = graph.pairs_of(node)
        doubt = float(graph.belief[pairs] @ values.error[pairs])
        here = pairs[graph.state[pairs] == states[t]]
        if doubt <= largest:
            V_h[t], V_h_error[t] = values.V_h[node], doubt
        if len(here) and values.error[here[0]] <= largest:
            V_hs[t], V_hs_error[t] = values.V_hs[here[0]], values.error[here[0]]
    return V_h, V_h_error, V_hs, V_hs_error


def episode_states(world: FiniteWorld, playback: Playback) -> Int[np.ndarray, "T1"]:
    """The index of the true state at each step of an episode and after its end."""
    return np.asarray(jax.vmap(world.latent)(playback.states)).reshape(-1)
