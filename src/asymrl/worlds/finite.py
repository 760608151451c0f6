"""Finite worlds: POMDPs given by their tables."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Float64, Int, PRNGKeyArray

from asymrl.worlds.pomdp import NOTHING, Pomdp, Rows
from asymrl.worlds.probability_tables import ProbabilityTable, check_tables, stay_at_the_end, with_end_rows
from asymrl.worlds.spaces import Discrete
from asymrl.worlds.world import DEFAULT_TIME_LIMIT, Action, Step, World


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
        self.name = name
        self.discount = discount
        self.time_limit = time_limit
        self.transitions = stay_at_the_end(transitions, ends)
        self.observations = with_end_rows(observations, start, ends)
        self.first_observations = first_observations
        self.rewards = np.asarray(rewards, np.float64)
        self.ends = np.asarray(ends, bool)
        self.start = np.asarray(start, np.float64)
        self.start_states = Rows.from_dense(self.start[None])
        self.state_names = tuple(state_names)
        self.names_of_actions = tuple(action_names)
        self.observation_names = tuple(observation_names)
        self.sure = self.transitions.longest == 1 and observations.longest == 1

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

    def tables(self) -> list[ProbabilityTable]:
        """The tables that transitions, observations and starts are drawn from."""
        S, A = self.ends.shape
        tables = [
            ProbabilityTable("transition", ("state", "action"), self.transitions, (S, A)),
            ProbabilityTable("observation", ("action", "next state"), self.observations, (A, S + 1)),
            ProbabilityTable("start", (), self.start_states, ()),
        ]
        if self.first_observations is not None:
            tables.append(ProbabilityTable("first observation", ("state",), self.first_observations, (S,)))
        return tables

    def pomdp(self) -> Pomdp:
        """The same problem as sparse outcomes in float64, for exact computations."""
        S, A = self.ends.shape
        row, s_next, moves = self.transitions.entries()
        done = self.ends.ravel()[row]
        observations = self.observations
        from_row = np.where(done, 0, (row % A) * (S + 1) + s_next)
        count = np.where(done, 1, np.diff(observations.first)[from_row])
        # Each transition is repeated for every observation that can follow it.
        transition = np.repeat(np.arange(row.size), count)
        entry = np.asarray(observations.first)[from_row][transition] + np.arange(transition.size)
        entry -= np.repeat(np.cumsum(count) - count, count)
        ended = done[transition]
        first = np.searchsorted(row[transition], np.arange(S * A + 1))
        return Pomdp(
            name=self.name,
            first=first,
            next_state=s_next[transition],
            observation=np.where(ended, NOTHING, np.asarray(observations.column)[entry]),
            probability=moves[transition] * np.where(ended, 1.0, np.asarray(observations.probability)[entry]),
            reward=self.rewards.ravel()[row[transition]],
            done=ended,
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
