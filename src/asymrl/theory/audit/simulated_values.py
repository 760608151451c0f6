"""True values where exact ones do not fit: means over simulated continuations, with standard errors.

From a history and a state, the agent plays on from what it remembers, and the discounted returns are averaged. This is
unbiased for V(h, s), and for V(h) if the state is drawn from the belief.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from asymrl.runs.playback import Playback
from asymrl.runs.statistics import mean_and_error
from asymrl.theory.audit.trained_networks import ActorMemory, TrainedActor
from asymrl.worlds.pomdp import Pomdp

# A recurrent policy takes about ten seconds of one core for a million simulated steps.
EPISODE_STEPS = 40_000  # simulated for the values along one episode
STATE_STEPS = 50_000  # simulated for V(s)
FEWEST, MOST = 12, 256  # continuations of one step
TOGETHER = 512  # episodes that are played at a time for V(s)
NEGLIGIBLE = 1e-9  # probability of all other states, below which they are not visited
SEED = 0


class SimulatedValues(NamedTuple):
    """Means of returns at the T steps of an episode, and their standard errors; NaN where none were simulated."""

    V_h: Float64[np.ndarray, "T"]
    V_h_error: Float64[np.ndarray, "T"]
    V_hs: Float64[np.ndarray, "T"]
    V_hs_error: Float64[np.ndarray, "T"]


class Transitions(NamedTuple):
    """Steps of simulated episodes, in the order of time."""

    episode: Int[np.ndarray, "N"]
    state: Int[np.ndarray, "N"]
    reward: Float64[np.ndarray, "N"]
    next_state: Int[np.ndarray, "N"]
    """-1 where the episode ended."""


def simulated_values(
    pomdp: Pomdp,
    policy: TrainedActor,
    playback: Playback,
    states: Int[np.ndarray, "T"],
    beliefs: Float64[np.ndarray, "T S"],
    discount: float,
    wanted: Bool[np.ndarray, "T"],
) -> SimulatedValues:
    """V(h) and V(h, s) before the actions of an episode.

    Half of the continuations start in the true state, the others in states drawn from the rest of the belief. If this
    takes too long for all wanted steps, only every second of them is simulated, or every third, and so on.

    Args:
        pomdp: the world, with a time limit.
        policy: the one that was played.
        playback: the episode.
        states: the true ones.
        beliefs: b(h) before each action.
        discount: of the returns.
        wanted: the steps to compute values for.
    """
    T, rng = len(states), np.random.default_rng(SEED)
    times = np.flatnonzero(wanted)
    # Assumes that continuations take about as long as this episode, within the time limit.
    ahead = 2 * np.minimum((pomdp.time_limit or T) - times, T).sum()
    times = times[:: max(1, -(-FEWEST * ahead // EPISODE_STEPS))]
    V_h, V_h_error, V_hs, V_hs_error = (np.full(len(states), np.nan) for _ in range(4))
    if not times.size:
        return SimulatedValues(V_h, V_h_error, V_hs, V_hs_error)
    each = int(np.clip(EPISODE_STEPS // ahead, FEWEST, MOST))
    rest = beliefs[times].copy()
    rest[np.arange(times.size), states[times]] = 0.0
    other = np.flatnonzero(rest.sum(1) > NEGLIGIBLE)
    row = np.concatenate([np.repeat(np.arange(times.size), each), np.repeat(other, each)])
    drawn = [rng.choice(pomdp.states, each, p=rest[i] / rest[i].sum()) for i in other]
    first = np.concatenate([np.repeat(states[times], each), *drawn])
    memory = policy.rows(_memories(policy, playback), times[row])
    steps = simulate(pomdp, policy, memory, first, times[row], rng)
    returns = discounted_returns(steps, len(row), discount).reshape(-1, each)
    mean, error = mean_and_error(returns.T)
    V_hs[times], V_hs_error[times] = mean[: times.size], error[: times.size]
    share = np.zeros(times.size)
    share[other] = rest[other].sum(1)
    mean_of_rest, error_of_rest = np.zeros(times.size), np.zeros(times.size)
    mean_of_rest[other], error_of_rest[other] = mean[times.size :], error[times.size :]
    V_h[times] = (1 - share) * V_hs[times] + share * mean_of_rest
    V_h_error[times] = np.hypot((1 - share) * V_hs_error[times], share * error_of_rest)
    return SimulatedValues(V_h, V_h_error, V_hs, V_hs_error)


def simulated_state_values(
    pomdp: Pomdp, policy: TrainedActor, discount: float, *, bootstraps: bool, enough: int = STATE_STEPS
) -> Float64[np.ndarray, "S"]:
    """What a critic V(s) is taught in simulated episodes, by their returns or, if it `bootstraps`, by TD(0).

    Episodes are played until they have `enough` steps together.
    """
    rng, parts, episodes = np.random.default_rng(SEED), [], 0
    while sum(len(part.reward) for part in parts) < enough:
        part = _episodes(pomdp, policy, TOGETHER, rng)
        parts.append(part._replace(episode=part.episode + episodes))
        episodes += TOGETHER
    steps = Transitions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    visits = np.bincount(steps.state, minlength=pomdp.states)
    visited = np.flatnonzero(visits)
    V = np.full(pomdp.states, np.nan)
    if not bootstraps:
        totals = np.bincount(steps.state, returns_to_go(steps, episodes, discount), minlength=pomdp.states)
        V[visited] = totals[visited] / visits[visited]
        return V
    place = np.full(pomdp.states + 1, -1)
    place[visited] = np.arange(visited.size)
    rewards = np.bincount(steps.state, steps.reward, minlength=pomdp.states)[visited] / visits[visited]
    # A state that is only reached by the last action is never learned from, and counts as an end.
    source, target = place[steps.state], place[steps.next_state]
    chain = np.zeros((visited.size, visited.size))
    np.add.at(chain, (source[target >= 0], target[target >= 0]), 1.0)
    V[visited] = np.linalg.solve(np.eye(visited.size) - discount * chain / visits[visited, None], rewards)
    return V


def _episodes(pomdp: Pomdp, policy: TrainedActor, count: int, rng: np.random.Generator) -> Transitions:
    """Plays `count` episodes from their beginning."""
    state = rng.choice(pomdp.states, count, p=pomdp.start)
    observation = np.full(count, pomdp.observations)
    if pomdp.first_observation is not None:
        observation = _drawn(pomdp.first_observation[state], rng)
    return simulate(pomdp, policy, policy.begin(observation), state, np.zeros(count, int), rng)


def simulate(
    pomdp: Pomdp,
    policy: TrainedActor,
    memory: ActorMemory,
    state: Int[np.ndarray, "n"],
    time: Int[np.ndarray, "n"],
    rng: np.random.Generator,
) -> Transitions:
    """Continues n episodes from memories, states and times until they end or the time is over."""
    alive, parts = np.arange(len(state)), []
    upto = np.cumsum(pomdp.probability)
    limit = pomdp.time_limit or 0
    while alive.size:
        action = _drawn(policy.act(memory), rng)
        row = state * pomdp.actions + action
        start, end = pomdp.first[row], pomdp.first[row + 1]
        offset = np.where(start > 0, upto[start - 1], 0.0)
        drawn = np.searchsorted(upto, offset + rng.random(alive.size) * (upto[end - 1] - offset), "right")
        outcome = np.clip(drawn, start, end - 1)
        time = time + 1
        goes_on = ~pomdp.done[outcome] & (time < limit)
        next_state = pomdp.next_state[outcome]
        parts.append((alive, state, pomdp.reward[outcome], np.where(goes_on, next_state, -1)))
        rows = np.flatnonzero(goes_on)
        if rows.size:
            memory = policy.advance(memory, rows, action[rows], pomdp.observation[outcome[rows]])
        alive, state, time = alive[rows], next_state[rows], time[rows]
    return Transitions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def discounted_returns(steps: Transitions, episodes: int, discount: float) -> Float64[np.ndarray, "episodes"]:
    """The return of each episode from its beginning."""
    age = np.zeros(episodes, int)
    weights = np.empty(len(steps.reward))
    for here in _times(steps):
        weights[here] = discount ** age[steps.episode[here]]
        age[steps.episode[here]] += 1
    return np.bincount(steps.episode, weights * steps.reward, minlength=episodes)


def returns_to_go(steps: Transitions, episodes: int, discount: float) -> Float64[np.ndarray, "N"]:
    """The return from each step on."""
    ahead, returns = np.zeros(episodes), np.empty(len(steps.reward))
    for here in reversed(_times(steps)):
        ahead[steps.episode[here]] = returns[here] = steps.reward[here] + discount * ahead[steps.episode[here]]
    return returns


def _times(steps: Transitions) -> list[slice]:
    """The steps that were simulated together: among them, episode numbers rise."""
    cuts = [0, *(np.flatnonzero(np.diff(steps.episode) <= 0) + 1).tolist(), len(steps.episode)]
    return [slice(start, end) for start, end in itertools.pairwise(cuts)]


def _memories(policy: TrainedActor, playback: Playback) -> ActorMemory:
    """What the agent remembers before each action of an episode."""
    observations, actions = np.asarray(playback.observations), np.asarray(playback.actions)
    memory = policy.begin(observations[:1])
    memories = memory
    for a, o in zip(actions[:-1], observations[1:-1], strict=True):
        memory = policy.advance(memory, np.zeros(1, int), np.array([a]), np.array([o]))
        memories = policy.joined(memories, memory)
    return memories


def _drawn(probabilities: Float64[np.ndarray, "n k"], rng: np.random.Generator) -> Int[np.ndarray, "n"]:
    """A random index for each row."""
    upto = np.cumsum(probabilities, axis=1)
    return np.minimum((rng.random(len(upto))[:, None] * upto[:, -1:] >= upto).sum(1), upto.shape[1] - 1)
