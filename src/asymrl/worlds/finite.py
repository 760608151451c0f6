"""Finite worlds: POMDPs given by their tables, or by the outcomes of each action in each state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Float64, Int, PRNGKeyArray

from asymrl.worlds.pomdp import NOTHING, Pomdp
from asymrl.worlds.probability_tables import (
    Joint,
    ProbabilityTable,
    Rows,
    check_tables,
    joint,
    stay_at_the_end,
    with_end_rows,
)
from asymrl.worlds.spaces import Discrete
from asymrl.worlds.world import DEFAULT_TIME_LIMIT, Action, State, Step, World


class FiniteWorld(World):
    """A world with finitely many states, actions and observations, given by its tables.

    The state is an index and is its own latent. The first observation depends on the state
    (`first_observations`) or, if that is None, is a constant symbol, index `|O|`, which is never shown again.

    An action that ends the episode (`D`) leaves the state unchanged, so that the last state shows where the episode
    ended; the observation then comes from a state drawn from the start distribution, as a `reset` row of a `.pomdp`
    file prescribes.
    """

    name: str = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    time_limit: int | None = eqx.field(static=True)
    transitions: Rows  # row s * A + a: the next state; an action that ends the episode stays
    observations: Rows  # row a * (S + 1) + s': the observation; s' = S means "after the end"
    first_observations: Rows | None  # row s: the observation before the first action
    rewards: np.ndarray  # [S, A]
    ends: np.ndarray  # [S, A]
    start: Float64[np.ndarray, "S"]
    start_states: Rows  # the same as one row, to draw from
    state_names: tuple[str, ...] = eqx.field(static=True)
    names_of_actions: tuple[str, ...] = eqx.field(static=True)
    observation_names: tuple[str, ...] = eqx.field(static=True)
    sure: bool = eqx.field(static=True)  # whether nothing is random between the start of an episode and its end

    def __init__(
        self,
        *,
        name: str,
        transitions: Rows,
        observations: Rows,
        rewards: Float[np.ndarray, "S A"],
        ends: Bool[np.ndarray, "S A"],
        start: Float[np.ndarray, "S"],
        state_names: Sequence[str],
        action_names: Sequence[str],
        observation_names: Sequence[str],
        first_observations: Rows | None = None,
        discount: float = 0.99,
        time_limit: int | None = DEFAULT_TIME_LIMIT,
    ):
        """`transitions` has rows (s, a), `observations` rows (a, s'), `first_observations` rows s."""
        S, A, O = len(state_names), len(action_names), len(observation_names)
        check_tables(name, S, A, O, transitions, observations, rewards, ends, start, first_observations)
        self._describe(name, rewards, ends, start, state_names, action_names, observation_names, discount, time_limit)
        self.transitions = stay_at_the_end(transitions, ends)
        self.observations = with_end_rows(observations, start, ends)
        self.first_observations = first_observations
        self.sure = self.transitions.longest == 1 and observations.longest == 1

    def _describe(
        self,
        name: str,
        rewards: Float[np.ndarray, "S A"],
        ends: Bool[np.ndarray, "S A"],
        start: Float[np.ndarray, "S"],
        state_names: Sequence[str],
        action_names: Sequence[str],
        observation_names: Sequence[str],
        discount: float,
        time_limit: int | None,
    ) -> None:
        self.name, self.discount, self.time_limit = name, discount, time_limit
        self.rewards, self.ends = np.asarray(rewards, np.float64), np.asarray(ends, bool)
        self.start = np.asarray(start, np.float64)
        self.start_states = Rows.from_dense(self.start[None])
        self.state_names, self.names_of_actions = tuple(state_names), tuple(action_names)
        self.observation_names = tuple(observation_names)

    @classmethod
    def from_tables(
        cls,
        name: str,
        T: Float[np.ndarray, "S A S"],
        O: Float[np.ndarray, "A S O"],
        R: Float[np.ndarray, "S A"],
        start: Float[np.ndarray, "S"],
        D: Bool[np.ndarray, "S A"] | None = None,
        first_O: Float[np.ndarray, "S O"] | None = None,
        discount: float = 0.99,
        time_limit: int | None = DEFAULT_TIME_LIMIT,
    ) -> FiniteWorld:
        """A world from dense arrays. `O` is indexed by the action and the *next* state."""
        if T.ndim != 3 or T.shape[0] != T.shape[2]:
            raise ValueError(f"world {name!r}: T has shape {T.shape}, expected (states, actions, states)")
        S, A, _ = T.shape
        if O.ndim != 3 or O.shape[:2] != (A, S):
            raise ValueError(f"world {name!r}: O has shape {O.shape}, expected ({A} actions, {S} next states, ...)")
        return FiniteWorld(
            name=name,
            transitions=Rows.from_dense(T),
            observations=Rows.from_dense(O),
            rewards=R,
            ends=np.zeros((S, A), bool) if D is None else D,
            start=start,
            state_names=[f"s{i}" for i in range(S)],
            action_names=[f"a{i}" for i in range(A)],
            observation_names=[f"o{i}" for i in range(O.shape[-1])],
            first_observations=None if first_O is None else Rows.from_dense(first_O),
            discount=discount,
            time_limit=time_limit,
        )

    @property
    def T(self) -> Float32[np.ndarray, "S A S"]:
        """Transition probabilities. Where `D` is true the row is the start distribution."""
        S, A = self.ends.shape
        table = self.transitions.dense().reshape(S, A, S)
        table[self.ends] = self.start.astype(np.float32)
        return table

    @property
    def O(self) -> Float32[np.ndarray, "A S O"]:
        """Observation probabilities, by action and next state. Without the constant first symbol."""
        S, A = self.ends.shape
        return np.ascontiguousarray(self.observations.dense().reshape(A, S + 1, -1)[:, :S])

    @property
    def R(self) -> Float32[np.ndarray, "S A"]:
        """Rewards."""
        return self.rewards.astype(np.float32)

    @property
    def D(self) -> Bool[np.ndarray, "S A"]:
        """Whether the episode ends after an action in a state."""
        return self.ends

    def possible_outcomes(self) -> tuple[Joint, Float64[np.ndarray, "outcomes"]]:
        """All that can follow each action in each state, and the rewards; after an end, observations do not matter."""
        outcomes = joint(self.transitions, self.observations, self.ends.shape[1], previous=False)
        return outcomes, self.rewards.ravel()[outcomes.row]

    def pomdp(self) -> Pomdp:
        """The same problem as sparse outcomes in float64, for exact computations."""
        S, A = self.ends.shape
        (row, next_state, observation, probability), reward = self.possible_outcomes()
        ended = self.ends.ravel()[row]
        # Outcomes that end the episode differ in their reward only: those with equal rewards are merged.
        at_end = np.flatnonzero(ended)
        order = at_end[np.lexsort([reward[at_end], row[at_end]])]
        differs = (np.diff(row[order], prepend=-1) != 0) | (np.diff(reward[order], prepend=np.nan) != 0)
        ends = order[differs]
        alone = np.bincount(row[ends], minlength=S * A)[row[ends]] == 1
        probability[ends] = np.where(alone, 1.0, np.bincount(np.cumsum(differs) - 1, probability[order]))
        kept = ~ended
        kept[ends] = True
        return Pomdp(
            name=self.name,
            first=np.searchsorted(row[kept], np.arange(S * A + 1)),
            next_state=next_state[kept],
            observation=np.where(ended, NOTHING, observation)[kept],
            probability=probability[kept],
            reward=reward[kept],
            done=ended[kept],
            start=self.start,
            first_observation=None if self.first_observations is None else self.first_observations.dense(np.float64),
            discount=self.discount,
            time_limit=self.time_limit,
            state_names=self.state_names,
            action_names=self.names_of_actions,
            observation_names=self.observation_names,
        )

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.names_of_actions

    @property
    def action_space(self) -> Discrete:
        return Discrete(len(self.names_of_actions))

    @property
    def observation_space(self) -> Discrete:
        if self.first_observations is None:
            return Discrete(len(self.observation_names) + 1, blank=True)
        return Discrete(len(self.observation_names))

    @property
    def latent_space(self) -> Discrete:
        return Discrete(len(self.state_names))

    def reset(self, key: PRNGKeyArray) -> Int[Array, ""]:
        return self.start_states.draw(key, jnp.int32(0))

    def step(self, key: PRNGKeyArray, state: Int[Array, ""], action: Action) -> Step:
        row = state * self.ends.shape[1] + action
        next_state = self.transitions.draw(key, row)
        return Step(
            next_state, jnp.asarray(self.rewards, jnp.float32).ravel()[row], jnp.asarray(self.ends).ravel()[row]
        )

    def first_observation(self, key: PRNGKeyArray, state: Int[Array, ""]) -> Int[Array, ""]:
        if self.first_observations is None:
            return jnp.int32(len(self.observation_names))
        return self.first_observations.draw(key, state)

    def observe(
        self, key: PRNGKeyArray, state: Int[Array, ""], action: Action, next_state: Int[Array, ""]
    ) -> Int[Array, ""]:
        S, A = self.ends.shape
        ended = jnp.asarray(self.ends).ravel()[state * A + action]
        return self.observations.draw(key, action * (S + 1) + jnp.where(ended, S, next_state))

    def latent(self, state: Int[Array, ""]) -> Int[Array, ""]:
        return state

    def from_latent(self, latent: Int[Array, ""]) -> Int[Array, ""]:
        return jnp.asarray(latent, jnp.int32)


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
        expected = np.bincount(outcomes.row, outcomes.probability * rewards, minlength=S * A).reshape(S, A)
        self._describe(name, expected, ends, start, state_names, action_names, observation_names, discount, time_limit)
        self.transitions, self.observations, self.first_observations = transitions, observations, None
        self.previous, self.sure = previous, False
        number = np.arange(rewards.size)
        self.outcomes = Rows.from_entries(outcomes.row, number, outcomes.probability, S * A, rewards.size)
        if problem := ProbabilityTable("outcome", ("state", "action"), self.outcomes, (S, A)).problem():
            raise ValueError(f"world {name!r}: {problem}")
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

    def possible_outcomes(self) -> tuple[Joint, Float64[np.ndarray, "outcomes"]]:
        row, number, probability = self.outcomes.entries()
        outcomes = Joint(row, self.outcome_state[number], self.outcome_observation[number], probability)
        return outcomes, self.outcome_reward[number]

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
