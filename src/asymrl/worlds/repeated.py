"""Worlds in which each action is held for several steps and their rewards added up, compiled or stepped in Python."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from asymrl.worlds.spaces import ActionSpace, Space
from asymrl.worlds.stepped_world import SteppedWorld, Stepper, chosen_rows
from asymrl.worlds.world import Action, Episode, Latent, Observation, Signal, State, Step, Transition, World


def repeated(world: World, times: int) -> World:
    """The world with each action held for `times` steps, or until the episode ends; 1 changes nothing.

    Its time limit is in actions: the last action of an episode that is cut off may be held for fewer steps, so that
    the limit of the world in steps is kept.
    """
    if times == 1:
        return world
    if not isinstance(world, SteppedWorld):
        return RepeatedWorld(world, times)
    limit, changed = world.time_limit, copy.copy(world)
    parts = {
        "time_limit": limit if limit is None else actions_within(limit, times),
        "open": lambda count: RepeatingStepper(world.open(count), count, times, limit),
        "make": lambda: _repeating_environment(world, times),
    }
    for name, value in parts.items():
        # Worlds are frozen, as in `World.with_time_limit`.
        object.__setattr__(changed, name, value)
    return changed


def actions_within(steps: int, times: int) -> int:
    """How many actions are taken in `steps` steps, if each is held for `times`."""
    return -(-steps // times)


class RepeatedWorld(World):
    """A compiled world in which each action is held."""

    world: World
    times: int = eqx.field(static=True)
    name: str = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    time_limit: int | None = eqx.field(static=True)

    def __init__(self, world: World, times: int):
        self.world, self.times = world, times
        self.name, self.discount = world.name, world.discount
        self.time_limit = None if world.time_limit is None else actions_within(world.time_limit, times)

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.world.action_names

    @property
    def action_space(self) -> ActionSpace:
        return self.world.action_space

    def action_text(self, action: Any) -> str:
        return self.world.action_text(action)

    @property
    def observation_space(self) -> Space:
        return self.world.observation_space

    @property
    def latent_space(self) -> Space:
        return self.world.latent_space

    def reset(self, key: PRNGKeyArray) -> State:
        return self.world.reset(key)

    def step(self, key: PRNGKeyArray, state: State, action: Action) -> Step:
        """All steps of an action, without a time limit."""
        return self._held(key, key, state, action, self.times)[0]

    def first_observation(self, key: PRNGKeyArray, state: State) -> Observation:
        return self.world.first_observation(key, state)

    def observe(self, key: PRNGKeyArray, state: State, action: Action, next_state: State) -> Observation:
        return self.world.observe(key, state, action, next_state)

    def latent(self, state: State) -> Latent:
        return self.world.latent(state)

    def from_latent(self, latent: Latent) -> State:
        return self.world.from_latent(latent)

    def latent_problem(self, latent: Any) -> str | None:
        return self.world.latent_problem(latent)

    def signals(self) -> dict[str, Signal]:
        return self.world.signals()

    def with_time_limit(self, time_limit: int | None) -> World:
        """The same with another time limit, in steps of the world that is repeated."""
        return RepeatedWorld(self.world.with_time_limit(time_limit), self.times)

    def _advance(
        self, step_key: PRNGKeyArray, observe_key: PRNGKeyArray, episode: Episode, action: Action
    ) -> tuple[Episode, Transition]:
        steps: Any = self.times
        if self.world.time_limit is not None:
            steps = jnp.minimum(self.times, self.world.time_limit - episode.t * self.times)
        (state, reward, terminated), observation = self._held(step_key, observe_key, episode.state, action, steps)
        t = episode.t + 1
        out_of_time = jnp.bool_(False) if self.time_limit is None else t >= self.time_limit
        return Episode(state, t), Transition(observation, reward, terminated, out_of_time & ~terminated)

    def _held(
        self, step_key: PRNGKeyArray, observe_key: PRNGKeyArray, state: State, action: Action, steps: Any
    ) -> tuple[Step, Observation]:
        """The result of `steps` steps of one action, the first of which is always taken."""

        def one(i: Any, state: State) -> tuple[Step, Observation]:
            after = self.world.step(jax.random.fold_in(step_key, i), state, action)
            key = jax.random.fold_in(observe_key, i)
            return after, self.world.observe(key, state, action, after.state)

        def again(held: tuple[Step, Observation], i: Array) -> tuple[tuple[Step, Observation], None]:
            previous, _ = held
            after, observation = one(i, previous.state)
            added = Step(after.state, previous.reward + after.reward, after.terminated)
            goes_on = ~previous.terminated & (i < steps)
            return jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), (added, observation), held), None

        first, first_observation = one(0, state)
        first = Step(first.state, jnp.asarray(first.reward, jnp.float32), jnp.asarray(first.terminated, bool))
        return jax.lax.scan(again, (first, first_observation), jnp.arange(1, self.times))[0]


class RepeatingStepper:
    """Steps environments several times with each action; see `Stepper`. Those whose episode ends stop at once."""

    def __init__(self, stepper: Stepper, count: int, times: int, limit: int | None):
        """`limit`: steps of an episode."""
        self.stepper, self.times, self.limit = stepper, times, limit
        self.taken = np.zeros(count, np.int64)

    def reset(self, seeds: Sequence[int], which: Bool[np.ndarray, "env"] | None = None) -> tuple[Any, Any]:
        self.taken[slice(None) if which is None else which] = 0
        return self.stepper.reset(seeds, which)

    def step(self, actions: np.ndarray, alive: Bool[np.ndarray, "env"]) -> tuple[Any, Any, Any, Any, Any]:
        total, ends = np.zeros(len(alive), np.float32), np.zeros((2, len(alive)), bool)
        now: Any = None
        going = np.asarray(alive, bool)
        for _ in range(self.times):
            observations, states, rewards, terminated, truncated = self.stepper.step(actions, going)
            total += np.where(going, rewards, 0)
            ends |= going & np.stack([terminated, truncated])
            now = (observations, states) if now is None else chosen_rows(going, (observations, states), now)
            self.taken += going
            going = going & ~ends.any(0) & (self.limit is None or self.taken < self.limit)
            if not going.any():
                break
        return *now, total, ends[0], ends[1]

    def close(self) -> None:
        self.stepper.close()


def _repeating_environment(world: SteppedWorld, times: int) -> Any:
    """One environment that takes each action several times."""
    import gymnasium

    class Repeating(gymnasium.Wrapper):
        held_for = times

        def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
            observation, total, terminated, truncated, info = self.env.step(action)
            for _ in range(times - 1):
                if terminated or truncated:
                    break
                observation, reward, terminated, truncated, info = self.env.step(action)
                total = float(total) + float(reward)
            return observation, total, terminated, truncated, info

    return Repeating(world.make())
