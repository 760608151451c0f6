"""Checks an environment that runs in Python: is it repeatable, and does its state seem to determine the future?"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from asymrl.worlds.checking.sampling import random_action
from asymrl.worlds.checking.world_facts import WorldFacts, space_text, state_text
from asymrl.worlds.stepped_world import SteppedWorld, UserCodeError

SECONDS = 10.0  # that sampling may take
REPEATED = 5  # episodes that are played again
FEWEST_REPEATS = 30  # recurrences of state-action pairs that a verdict needs
PERMUTATIONS, SIGNIFICANT = 600, 0.01

SAME_SEED = "the same seed and actions give the same episodes"
IN_SPACES = "observations, states and rewards are as declared"
CONTEXTS: dict[str, str] = {
    "episode": "something that stays the same during an episode",
    "time": "how many steps the episode has lasted",
    "before": "what came just before",
    "first": "what was seen at the start of the episode",
}


class SampledStep(NamedTuple):
    """A step of a sampled episode; states and actions are bytes, to be compared."""

    state: bytes
    action: bytes
    outcome: Hashable
    """Next state, reward, whether the episode ended and, if not, the observation."""
    contexts: dict[str, Hashable]
    """What else the outcome might depend on."""


class SampledEpisode(NamedTuple):
    """An episode with random actions."""

    seed: int
    actions: list[Any]
    observations: list[Any]
    states: list[Any]
    rewards: list[float]
    terminated: bool


class EnvironmentCheck(NamedTuple):
    """The findings about an environment."""

    facts: WorldFacts
    steps: int
    episodes: int
    passed: tuple[str, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]
    traceback: str = ""
    """Of the user's own code, if the first problem is its failure."""


def check_environment(env: SteppedWorld, *, steps: int = 2000, seed: int = 0) -> EnvironmentCheck:
    """Plays episodes with random actions, some of them twice.

    Args:
        env: to check.
        steps: to sample; fewer if they take longer than ten seconds.
        seed: of actions and episodes.

    Raises:
        UserCodeError: if the environment fails before a single episode is over.
    """
    problems: list[str] = []
    traceback = ""
    generator, sampled, taken = np.random.default_rng(seed), [], 0
    stepper = env.open(1)
    begin = time.perf_counter()
    try:
        while taken < steps and time.perf_counter() - begin < SECONDS:
            first = int(generator.integers(2**31))
            sampled.append(_play(env, stepper, first, lambda t: random_action(env.action_space, generator)))
            taken += len(sampled[-1].rewards)
        per_second = taken / (time.perf_counter() - begin)
    except UserCodeError as error:
        if not sampled:
            raise
        per_second = taken / (time.perf_counter() - begin)
        problems.append(str(error))
        traceback = error.traceback
    finally:
        stepper.close()
    passed = [] if problems else [IN_SPACES]
    difference = None if problems else _repeated(env, sampled[:REPEATED])
    if difference is not None:
        problems.append(difference)
    elif not problems:
        passed.append(SAME_SEED)
    rewards = np.concatenate([each.rewards for each in sampled])
    facts = WorldFacts(
        actions=space_text(env.action_space),
        observations=space_text(env.observation_space),
        state=state_text(env),
        time_limit=env.time_limit,
        lowest_reward=float(rewards.min()),
        highest_reward=float(rewards.max()),
        steps_per_second=per_second,
        episode_length=taken / len(sampled),
        ended=float(np.mean([each.terminated for each in sampled])),
    )
    if env.without_latent:
        finding = env.without_latent.removeprefix(f"{env.name}: ")
    else:
        finding = state_finding(_steps(sampled), generator)
    is_good = finding.startswith("the state seems to determine")
    notes = () if is_good else (finding,)
    return EnvironmentCheck(
        facts, taken, len(sampled), (*passed, *([finding] if is_good else [])), notes, tuple(problems), traceback
    )


def _play(env: SteppedWorld, stepper: Any, seed: int, act: Callable[[int], Any]) -> SampledEpisode:
    """An episode, up to the time limit."""
    alive, first = np.ones(1, bool), _first(stepper.reset([seed]))
    episode = SampledEpisode(seed, [], [first[0]], [first[1]], [], terminated=False)
    for t in range(env.time_limit or 1000):
        action = act(t)
        batch = jax.tree.map(lambda leaf: np.asarray(leaf)[None], action)
        observations, states, reward, terminated, truncated = stepper.step(batch, alive)
        observation, state = _first((observations, states))
        parts = (episode.actions, episode.observations, episode.states, episode.rewards)
        for part, value in zip(parts, (action, observation, state, float(reward[0])), strict=True):
            part.append(value)
        if terminated[0] or truncated[0]:
            return episode._replace(terminated=bool(terminated[0]))
    return episode


def _first(values: tuple[Any, Any]) -> tuple[Any, Any]:
    observation, state = jax.tree.map(lambda leaf: np.array(leaf[0]), values)
    return observation, state


def _repeated(env: SteppedWorld, sampled: Sequence[SampledEpisode]) -> str | None:
    """Plays episodes again, in a new environment and in a used one. Returns what differs, or None."""
    stepper = env.open(1)
    try:
        for where in ("in a new environment", "in an environment that was used before"):
            for each in sampled:
                try:
                    again = _play(env, stepper, each.seed, each.actions.__getitem__)
                except IndexError:  # it goes on where the first one ended
                    return _different(len(each.actions), "end of the episode", where)
                if (difference := _difference(each, again)) is not None:
                    return _different(*difference, where)
    except UserCodeError as error:
        return str(error)
    finally:
        stepper.close()
    return None


def _different(step: int, what: str, where: str) -> str:
    place = "after reset" if step == 0 else f"at step {step}"
    return (
        f"the same seed and actions give another {what} {place}, {where}; draw from self.np_random, which "
        "super().reset(seed=seed) seeds, and begin each episode anew"
    )


def _difference(one: SampledEpisode, other: SampledEpisode) -> tuple[int, str] | None:
    """The first step at which two episodes differ, and what differs."""
    for t in range(min(len(one.states), len(other.states))):
        for what, a, b in (
            ("observation", one.observations[t], other.observations[t]),
            ("state", one.states[t], other.states[t]),
            ("reward", *((one.rewards[t - 1], other.rewards[t - 1]) if t else (0.0, 0.0))),
        ):
            if _bytes(a) != _bytes(b):
                return t, what
    if len(one.actions) != len(other.actions) or one.terminated != other.terminated:
        return len(other.actions), "end of the episode"
    return None


def _bytes(value: Any) -> bytes:
    return b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(value))


def _steps(sampled: Sequence[SampledEpisode]) -> list[SampledStep]:
    steps = []
    for number, each in enumerate(sampled):
        observations, states, actions = (
            [*map(_bytes, part)] for part in (each.observations, each.states, each.actions)
        )
        for t, action in enumerate(actions):
            is_end = each.terminated and t + 1 == len(actions)
            outcome = (states[t + 1], each.rewards[t], is_end, None if is_end else observations[t + 1])
            context = (actions[t - 1] if t else None, observations[t])
            contexts = {"episode": number, "time": t, "before": context, "first": observations[0]}
            steps.append(SampledStep(states[t], action, outcome, contexts))
    return steps


def state_finding(steps: Sequence[SampledStep], generator: np.random.Generator) -> str:
    """A sentence on whether outcomes seem to depend on state and action alone, judged by the pairs that recurred.

    Where the same state and action had several outcomes, a permutation test looks for something else that explains
    them; it cannot show that there is nothing.
    """
    groups: dict[Hashable, list[SampledStep]] = collections.defaultdict(list)
    for step in steps:
        groups[step.state, step.action].append(step)
    met = [group for group in groups.values() if len(group) > 1]
    repeats = sum(len(group) - 1 for group in met)
    if repeats < FEWEST_REPEATS:
        recurred = f"recurred only {repeats} times" if repeats else "never recurred"
        return f"whether the state determines the future is not known: state-action pairs {recurred}"
    various = [group for group in met if len({step.outcome for step in group}) > 1]
    said = f"the state seems to determine the future: state-action pairs recurred {repeats} times"
    if not various:
        return f"{said}, with the same outcome each time"
    evidence = {context: _dependence(various, context, generator) for context in CONTEXTS}
    dependences = {context: each for context, each in evidence.items() if each.p_value * len(CONTEXTS) < SIGNIFICANT}
    if dependences:
        # One cause shows in several contexts: an end after ten steps also happens once in each episode.
        what = CONTEXTS[max(dependences, key=lambda context: dependences[context].deviations)]
        return (
            "the state does not seem to determine the future: outcomes of the same state and action depend on "
            f"{what}; put that into the state, if the critic is to know it"
        )
    return f"{said}; their outcomes vary, as chance has it, and nothing else was seen to matter"


class Dependence(NamedTuple):
    """How strongly outcomes are associated with a context within groups of the same state and action."""

    p_value: float
    """The probability of an association at least as strong if there were none."""
    deviations: float
    """Its distance from the mean under chance, in standard deviations."""


def _dependence(groups: Sequence[Sequence[SampledStep]], context: str, generator: np.random.Generator) -> Dependence:
    coded = [
        (_codes([step.outcome for step in group]), _codes([step.contexts[context] for step in group]))
        for group in groups
    ]
    # A context that is always or never the same says nothing.
    coded = [pair for pair in coded if 0 < pair[1].max() < len(pair[1]) - 1]
    if not coded:
        return Dependence(1.0, 0.0)
    association = sum(_association(outcomes, contexts) for outcomes, contexts in coded)
    by_chance = np.array(
        [
            sum(_association(generator.permutation(outcomes), contexts) for outcomes, contexts in coded)
            for _ in range(PERMUTATIONS)
        ]
    )
    as_large = int((by_chance >= association - 1e-9).sum())
    return Dependence(
        (1 + as_large) / (1 + PERMUTATIONS), float((association - by_chance.mean()) / (by_chance.std() + 1e-9))
    )


def _codes(values: Sequence[Hashable]) -> np.ndarray:
    code_of = {value: i for i, value in enumerate(dict.fromkeys(values))}
    return np.array([code_of[value] for value in values])


def _association(outcomes: np.ndarray, contexts: np.ndarray) -> float:
    """The mutual information of two codes, times their number."""
    table = np.zeros((outcomes.max() + 1, contexts.max() + 1))
    np.add.at(table, (outcomes, contexts), 1)
    expected = table.sum(1, keepdims=True) * table.sum(0, keepdims=True) / len(outcomes)
    there = table > 0
    return float((table[there] * np.log(table[there] / expected[there])).sum())
