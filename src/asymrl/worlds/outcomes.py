"""Finite worlds whose rewards or observations depend on more than the tables T, O and R can express."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Float64, Int, PRNGKeyArray

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.pomdp import NOTHING, Pomdp, Rows
from asymrl.worlds.probability_tables import ProbabilityTable
from asymrl.worlds.world import DEFAULT_TIME_LIMIT, Action, State, Step


@dataclass(frozen=True)
class Joint:
    """The possible outcomes of each action in each state, sorted by (s, a)."""

    row: Int[np.ndarray, "outcomes"]
    """`s * A + a`."""
    next_state: Int[np.ndarray, "outcomes"]
    observation: Int[np.ndarray, "outcomes"]
    probability: Float64[np.ndarray, "outcomes"]


def joint(T: Rows, O: Rows, actions: int, previous: bool) -> Joint:
    """Every transition combined with every observation that can follow it.

    Args:
        T: rows `s * A + a`, columns s'.
        O: rows `a * S + s'`, or, with `previous`, one row for each entry of T.
        actions: how many there are.
        previous: whether observations also depend on the previous state.
    """
    row, next_state, moves = T.entries()
    observed_in = np.arange(row.size) if previous else (row % actions) * T.columns + next_state
    first = np.asarray(O.first, np.int64)
    count = np.diff(first)[observed_in]
    move = np.repeat(np.arange(row.size), count)
    entry = np.arange(move.size) + np.repeat(first[observed_in] - (np.cumsum(count) - count), count)
    return Joint(
        row[move],
        next_state[move].astype(np.int64),
        np.asarray(O.column, np.int64)[entry],
        moves[move] * np.asarray(O.probability)[entry],
    )


class OutcomeState(NamedTuple):
    """The index of a state, and the observation that came with it."""

    state: Int[Array, ""]
    observation: Int[Array, ""]


class OutcomeWorld(FiniteWorld):
    """A finite world that draws next state and observation together, so that the reward may depend on both.

    Rewards are functions of (s, a, s', o), and observations may depend on the previous state. The state is a pair: an
    index, which is the latent, and the observation that came with it. `R` holds expected rewards.

    As in every finite world, an action that ends the episode leaves the index unchanged, and the observation belongs to
    the next episode.
    """

    previous: bool = eqx.field(static=True)  # whether observations depend on the previous state
    outcomes: Rows  # row s * A + a: the number of an outcome
    outcome_state: np.ndarray
    outcome_observation: np.ndarray
    outcome_reward: np.ndarray

    def __init__(
        self,
        *,
        name: str,
        transitions: Rows,
        observations: Rows,
        previous: bool,
        rewards: Float64[np.ndarray, "outcomes"],
        ends: Bool[np.ndarray, "S A"],
        start: Float64[np.ndarray, "S"],
        state_names: Sequence[str],
        action_names: Sequence[str],
        observation_names: Sequence[str],
        discount: float = 0.99,
        time_limit: int | None = DEFAULT_TIME_LIMIT,
    ):
        """`transitions`, `observations` and `previous` are those of `joint`, `rewards` belong to its outcomes.

        The transitions of an ending action are the start distribution.
        """
        S, A = ends.shape
        outcomes = joint(transitions, observations, A, previous)
        self.name = name
        self.discount = discount
        self.time_limit = time_limit
        self.transitions = transitions
        self.observations = observations
        self.previous = previous
        self.first_observations = None
        expected = np.bincount(outcomes.row, outcomes.probability * rewards, minlength=S * A)
        self.rewards = expected.reshape(S, A)
        self.ends = ends
        self.start = start
        self.start_states = Rows.from_dense(start[None])
        self.state_names = tuple(state_names)
        self.names_of_actions = tuple(action_names)
        self.observation_names = tuple(observation_names)
        self.sure = False
        number = np.arange(rewards.size)
        self.outcomes = Rows.from_entries(outcomes.row, number, outcomes.probability, S * A, rewards.size)
        ended = ends.ravel()[outcomes.row]
        self.outcome_state = np.where(ended, outcomes.row // A, outcomes.next_state).astype(np.int32)
        self.outcome_observation = outcomes.observation.astype(np.int32)
        self.outcome_reward = rewards

    @property
    def O(self) -> Float32[np.ndarray, "A S O"]:
        """Observation probabilities, by action and next state.

        Raises:
            ValueError: if they depend on the previous state; `pomdp()` has them all.
        """
        if self.previous:
            raise ValueError(
                f"{self.name}: observations depend on the previous state, so there is no table O[a, s', o]"
            )
        S, A = self.ends.shape
        return self.observations.dense().reshape(A, S, -1)

    def tables(self) -> list[ProbabilityTable]:
        S, A = self.ends.shape
        return [
            ProbabilityTable("outcome", ("state", "action"), self.outcomes, (S, A)),
            ProbabilityTable("start", (), self.start_states, ()),
        ]

    def pomdp(self) -> Pomdp:
        """The same problem as sparse outcomes in float64, for exact computations."""
        S, A = self.ends.shape
        row, number, probability = self.outcomes.entries()
        reward, ended = self.outcome_reward[number], self.ends.ravel()[row]
        observation = np.where(ended, NOTHING, self.outcome_observation[number])
        # Outcomes that end the episode differ in their reward only: those with equal rewards are merged.
        same = np.lexsort([reward, row])
        starts = ~ended[same] | (np.diff(row[same], prepend=-1) != 0) | (np.diff(reward[same], prepend=np.nan) != 0)
        together = np.empty(row.size, np.int64)
        together[same] = np.cumsum(starts) - 1
        mask = np.zeros(row.size, bool)
        mask[same[starts]] = True
        summed = np.bincount(together, probability)[together]
        alone = np.bincount(row[mask], minlength=S * A)[row] == 1
        probability = np.where(ended, np.where(alone, 1.0, summed), probability)[mask]
        return Pomdp(
            name=self.name,
            first=np.searchsorted(row[mask], np.arange(S * A + 1)),
            next_state=self.outcome_state[number][mask],
            observation=observation[mask],
            probability=probability,
            reward=reward[mask],
            done=ended[mask],
            start=self.start,
            first_observation=None,
            discount=self.discount,
            time_limit=self.time_limit,
            state_names=self.state_names,
            action_names=self.names_of_actions,
            observation_names=self.observation_names,
        )

    def reset(self, key: PRNGKeyArray) -> State:
        return self.from_latent(self.start_states.draw(key, jnp.int32(0)))

    def step(self, key: PRNGKeyArray, state: State, action: Action) -> Step:
        row = state.state * self.ends.shape[1] + action
        outcome = self.outcomes.draw(key, row)
        next_state = OutcomeState(
            jnp.asarray(self.outcome_state)[outcome], jnp.asarray(self.outcome_observation)[outcome]
        )
        reward = jnp.asarray(self.outcome_reward, jnp.float32)[outcome]
        return Step(next_state, reward, jnp.asarray(self.ends).ravel()[row])

    def first_observation(self, key: PRNGKeyArray, state: State) -> Int[Array, ""]:
        return jnp.int32(len(self.observation_names))

    def observe(self, key: PRNGKeyArray, state: State, action: Action, next_state: State) -> Int[Array, ""]:
        return next_state.observation

    def latent(self, state: State) -> Int[Array, ""]:
        return state.state

    def from_latent(self, latent: Int[Array, ""]) -> State:
        return OutcomeState(jnp.asarray(latent, jnp.int32), jnp.int32(len(self.observation_names)))
