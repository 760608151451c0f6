"""The interface of all worlds, and the one place where time limits and new episodes are handled."""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from asymrl.worlds.notebook import world_html
from asymrl.worlds.registry import DEFAULT_TIME_LIMIT as DEFAULT_TIME_LIMIT
from asymrl.worlds.spaces import ActionSpace, Discrete, Space, in_order, value_text

State = PyTree[Any]
Observation = PyTree[Any]
Latent = PyTree[Any]
Action = PyTree[Any]  # an index, or in some worlds a vector, or a dictionary of both


class Step(NamedTuple):
    """The result of one action."""

    state: State
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]


class Episode(NamedTuple):
    """An episode in progress: the state of the world and the number of actions taken."""

    state: State
    t: Int[Array, ""]


class Transition(NamedTuple):
    """What an action leads to. `terminated`: the episode ended. `truncated`: only the time limit was reached."""

    observation: Observation
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]

    @property
    def done(self) -> Bool[Array | np.ndarray, "..."]:
        return self.terminated | self.truncated


class Signal(NamedTuple):
    """Information that a privileged critic may read: a function of the latent state, and its space."""

    of: Callable[[Latent], Any]
    space: Space
    about: str


class World(eqx.Module):
    """A partially observable control problem as pure functions of a random key.

    A subclass defines how the world starts (`reset`), moves (`step`) and is observed (`first_observation`, `observe`),
    and what a privileged critic may read (`latent`). All functions work on a single world; use `jax.vmap` for many.
    `begin`, `advance` and `advance_or_begin` run episodes with their time limit.
    """

    name: eqx.AbstractVar[str]
    discount: eqx.AbstractVar[float]
    time_limit: eqx.AbstractVar[int | None]

    def __check_init__(self):
        limit, discount = self.time_limit, self.discount
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise ValueError(f"{self.name}: time_limit is {limit!r}, expected a positive whole number or None")
        if not 0 <= discount <= 1:
            raise ValueError(f"{self.name}: discount is {discount!r}, expected a number between 0 and 1")

    @property
    @abc.abstractmethod
    def action_names(self) -> tuple[str, ...]:
        """The name of each action, in index order; where actions are vectors or records, the name of each entry.

        In a record, the names of all choices come first, then those of all numbers.
        """

    @property
    def action_space(self) -> ActionSpace:
        """The space of actions: one of the named actions, or in some worlds a vector of indices or of numbers, or a
        record of these.
        """
        return Discrete(len(self.action_names))

    def action_text(self, action: Any) -> str:
        """An action, as `step` takes it, as text: its name, or its numbers."""
        return (
            self.action_names[int(action)]
            if isinstance(self.action_space, Discrete)
            else value_text(in_order(self.action_space, action))
        )

    @property
    @abc.abstractmethod
    def observation_space(self) -> Space:
        """The space of observations."""

    @property
    @abc.abstractmethod
    def latent_space(self) -> Space:
        """The space of latents: the representation of the state that a privileged critic reads."""

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> State:
        """Draws a first state."""

    @abc.abstractmethod
    def step(self, key: PRNGKeyArray, state: State, action: Action) -> Step:
        """Takes an action."""

    @abc.abstractmethod
    def first_observation(self, key: PRNGKeyArray, state: State) -> Observation:
        """The observation before the first action."""

    @abc.abstractmethod
    def observe(self, key: PRNGKeyArray, state: State, action: Action, next_state: State) -> Observation:
        """The observation after `action` led from `state` to `next_state`."""

    @abc.abstractmethod
    def latent(self, state: State) -> Latent:
        """The state as the critic reads it. It must determine the future: `asymrl.worlds.check` tests that."""

    @abc.abstractmethod
    def from_latent(self, latent: Latent) -> State:
        """The state with this latent, the inverse of `latent`."""

    def latent_problem(self, latent: Any) -> str | None:
        """Why a concrete value cannot be a latent of this world, or None. Runs on the host."""
        return self.latent_space.problem(latent)

    def signals(self) -> dict[str, Signal]:
        """What a privileged critic may read, by name: `state`, the whole latent, and parts of it."""
        return {"state": Signal(lambda latent: latent, self.latent_space, "the whole state")}

    def _repr_html_(self) -> str:
        """The world in a notebook."""
        return world_html(self)

    def with_time_limit(self, time_limit: int | None) -> World:
        """The same world with another time limit; None for no limit."""
        changed = copy.copy(self)
        # Worlds are frozen, and their constructors differ too much to call them again.
        object.__setattr__(changed, "time_limit", time_limit)
        changed.__check_init__()
        return changed

    def begin(self, key: PRNGKeyArray) -> tuple[Episode, Observation]:
        """Starts an episode."""
        reset_key, observe_key = jax.random.split(key)
        return self._begin(reset_key, observe_key)

    def advance(self, key: PRNGKeyArray, episode: Episode, action: Action) -> tuple[Episode, Transition]:
        """Takes an action in an episode and applies the time limit."""
        step_key, observe_key = jax.random.split(key)
        return self._advance(step_key, observe_key, episode, action)

    def advance_or_begin(
        self, key: PRNGKeyArray, episode: Episode, action: Action
    ) -> tuple[Episode, Observation, Episode, Transition]:
        """Takes an action and, if that ends the episode, starts the next one at once.

        Returns the episode to continue with and the observation to act on next, then the episode and transition before
        a new start: the same unless the transition is `done`.
        """
        # Deriving keys is most of the cost of a small world. Keys that are folded in one by one and not used cost
        # nothing; a split computes all of them.
        step_key, observe_key, reset_key, first_key = (jax.random.fold_in(key, i) for i in range(4))
        ended, transition = self._advance(step_key, observe_key, episode, action)
        new_start = self._begin(reset_key, first_key)
        same_episode = (ended, transition.observation)
        episode, observation = jax.tree.map(
            lambda new, old: jnp.where(transition.done, new, old), new_start, same_episode
        )
        return episode, observation, ended, transition

    def _begin(self, reset_key: PRNGKeyArray, observe_key: PRNGKeyArray) -> tuple[Episode, Observation]:
        state = self.reset(reset_key)
        return Episode(state, jnp.int32(0)), self.first_observation(observe_key, state)

    def _advance(
        self, step_key: PRNGKeyArray, observe_key: PRNGKeyArray, episode: Episode, action: Action
    ) -> tuple[Episode, Transition]:
        state, reward, terminated = self.step(step_key, episode.state, action)
        observation = self.observe(observe_key, episode.state, action, state)
        t = episode.t + 1
        out_of_time = jnp.bool_(False) if self.time_limit is None else t >= self.time_limit
        return Episode(state, t), Transition(observation, reward, terminated, out_of_time & ~terminated)


def is_unchanged(world: Any, base: type, *names: str) -> bool:
    """Whether a world has these methods from `base`, and not from a subclass that does something else."""
    return all(getattr(type(world), name) is getattr(base, name) for name in names)
