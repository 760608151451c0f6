"""Whole episodes to learn from repeatedly: a ring of steps inside the compiled program.

The ring keeps the observation, latent, action and reward of each step, and the first row and length of each episode.
Indices are kept in the smallest integers that hold them, and the state instead of its latent where that is smaller.
The oldest episodes make room for new ones.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from asymrl.learners.episodes import Episodes
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.spaces import Box, Discrete, Indices, Record, Space
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World, is_unchanged


class Replay(eqx.Module):
    """The episodes of one run, or with a leading axis on every array, of several."""

    observations: Any  # [row, ...]
    latents: Any  # [row, ...], or the states themselves (`keeps_latents`); None if nothing reads the state
    actions: Array  # [row]
    rewards: Array  # [row]; in a finite world, indices into `finite_rewards`
    starts: Int[Array, "*run slot"]  # the first row of each episode
    lengths: Array  # [slot], steps
    truncated: Bool[Array, "*run slot"] | None
    first: Int[Array, "*run"]  # the slot of the oldest episode
    episodes: Int[Array, "*run"]
    rows: Int[Array, "*run"]  # in use
    end: Int[Array, "*run"]  # the row after the newest episode


@dataclass(frozen=True)
class ReplayLayout:
    """How the episodes of a world are stored."""

    world: World
    capacity: int
    """Rows: one per step, and one per episode for what followed its last action, if that is kept."""
    with_states: bool
    """Whether the states are kept."""
    with_last: bool
    """Whether what followed the last action is kept, to bootstrap from where an episode was cut off."""

    def __post_init__(self) -> None:
        if self.capacity < self.horizon + self.with_last:
            raise ValueError(
                f"replay_steps is {self.capacity}; an episode of {self.horizon} steps has no room in it, so give at "
                f"least {self.horizon + self.with_last}"
            )

    @property
    def horizon(self) -> int:
        assert self.world.time_limit is not None
        return self.world.time_limit

    @property
    def slots(self) -> int:
        """How many episodes of a single step fit."""
        return self.capacity // (1 + self.with_last)

    def empty(self) -> Replay:
        """A replay without episodes."""

        def room(space: Space) -> Any:
            if isinstance(space, Record):
                return {name: room(part) for name, part in space.items()}
            return jnp.zeros((self.capacity, *space.shape), stored_type(space))

        rewards = finite_rewards(self.world)
        zero = jnp.int32(0)
        return Replay(
            observations=room(self.world.observation_space),
            latents=self._room_for_states(room) if self.with_states else None,
            actions=room(self.world.action_space),
            rewards=room(Box(()) if rewards is None else Discrete(len(rewards))),
            starts=jnp.zeros(self.slots, jnp.int32),
            lengths=jnp.zeros(self.slots, smallest_type(self.horizon + 1)),
            truncated=jnp.zeros(self.slots, bool) if self.with_last else None,
            first=zero,
            episodes=zero,
            rows=zero,
            end=zero,
        )

    def _room_for_states(self, room: Callable[[Space], Any]) -> Any:
        if self.keeps_latents:
            return room(self.world.latent_space)
        leaves = jax.eval_shape(self.world.reset, jax.random.key(0))
        return jax.tree.map(lambda leaf: jnp.zeros((self.capacity, *leaf.shape), leaf.dtype), leaves)

    @functools.cached_property
    def keeps_latents(self) -> bool:
        """Whether states are kept as latents. The cleaner's state takes a twentieth of the memory of its latent."""
        if isinstance(self.world, SteppedWorld):
            return True
        leaves = jax.tree.leaves(jax.eval_shape(self.world.reset, jax.random.key(0)))
        has_keys = any(jnp.issubdtype(leaf.dtype, jax.dtypes.extended) for leaf in leaves)
        of_state = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
        return has_keys or bytes_of_row(self.world.latent_space) <= of_state

    def add(self, replay: Replay, episodes: Episodes, wanted: Bool[Array, ""]) -> Replay:
        """The replay with the episodes of a run `[time, episode, ...]`, if they are `wanted`.

        Only their rows are written, so the replay of a run that does not act is not copied.
        """
        for i in range(episodes.lengths.shape[0]):
            replay = self._add_one(
                replay, jax.tree.map(lambda leaf, i=i: leaf[:, i], episodes[:4]), episodes, i, wanted
            )
        return replay

    def _add_one(
        self, replay: Replay, steps: tuple[Any, ...], episodes: Episodes, i: int, wanted: Bool[Array, ""]
    ) -> Replay:
        observations, states, actions, rewards = steps
        length, more = episodes.lengths[i], int(self.with_last)
        replay = self._drop(replay, length + more, wanted)
        table = finite_rewards(self.world)
        latents = states if self.with_states else None  # if nothing reads them, there may be none
        if self.with_states and self.keeps_latents:
            latents = jax.vmap(self.world.latent)(states)
        index = rewards if table is None else jnp.searchsorted(jnp.asarray(table), rewards)

        def put(buffer: Array, values: Array, count: Int[Array, ""]) -> Array:
            time = jnp.arange(min(self.horizon + more, values.shape[0]))
            inside = wanted & (time < count)
            # The other rows are beyond the ring, where they are dropped, and all different.
            rows = jnp.where(inside, (replay.end + time) % self.capacity, self.capacity + time)
            values = values[: time.shape[0]].astype(buffer.dtype)
            return buffer.at[rows].set(values, mode="drop", unique_indices=True)

        slot = jnp.where(wanted, (replay.first + replay.episodes) % self.slots, self.slots)
        truncated = (
            None if replay.truncated is None else replay.truncated.at[slot].set(episodes.truncated[i], mode="drop")
        )
        return Replay(
            observations=jax.tree.map(lambda b, v: put(b, v, length + more), replay.observations, observations),
            latents=jax.tree.map(lambda b, v: put(b, v, length + more), replay.latents, latents),
            actions=put(replay.actions, actions, length),
            rewards=put(replay.rewards, index, length),
            starts=replay.starts.at[slot].set(replay.end, mode="drop"),
            lengths=replay.lengths.at[slot].set(length.astype(replay.lengths.dtype), mode="drop"),
            truncated=truncated,
            first=replay.first,
            episodes=replay.episodes + wanted,
            rows=replay.rows + jnp.where(wanted, length + more, 0),
            end=jnp.where(wanted, (replay.end + length + more) % self.capacity, replay.end),
        )

    def _drop(self, replay: Replay, needed: Int[Array, ""], wanted: Bool[Array, ""]) -> Replay:
        """Drops the oldest episodes until the `needed` rows are free."""

        def is_full(oldest: tuple[Array, Array, Array]) -> Bool[Array, ""]:
            return wanted & (oldest[2] + needed > self.capacity)

        def drop(oldest: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            first, episodes, rows = oldest
            freed = replay.lengths[first].astype(jnp.int32) + self.with_last
            return (first + 1) % self.slots, episodes - 1, rows - freed

        oldest = jax.lax.while_loop(is_full, drop, (replay.first, replay.episodes, replay.rows))
        return eqx.tree_at(lambda r: (r.first, r.episodes, r.rows), replay, oldest)

    def draw(self, key: PRNGKeyArray, replay: Replay, episodes: int) -> Episodes:
        """Draws episodes `[time, episode, ...]` with replacement, all equally likely whatever their length.

        After its end, an episode repeats its last step.
        """
        offsets = jax.random.randint(key, (episodes,), 0, jnp.maximum(replay.episodes, 1))
        slots = (replay.first + offsets) % self.slots
        lengths = replay.lengths[slots].astype(jnp.int32)
        time = jnp.arange(self.horizon + 1)[:, None]

        def rows(last: Int[Array, "episode"]) -> Int[Array, "time episode"]:
            return (replay.starts[slots][None] + jnp.clip(time, 0, jnp.maximum(last, 0)[None])) % self.capacity

        observation_rows, action_rows = rows(lengths - 1 + self.with_last), rows(lengths - 1)[:-1]
        states = None
        if self.with_states and not self.keeps_latents:
            states = jax.tree.map(lambda stored: stored[observation_rows], replay.latents)
        elif self.with_states:
            latents = _looked_up(self.world.latent_space, replay.latents, observation_rows)
            states = jax.vmap(jax.vmap(self.world.from_latent))(latents)
        rewards, table = replay.rewards[action_rows], finite_rewards(self.world)
        return Episodes(
            observations=_looked_up(self.world.observation_space, replay.observations, observation_rows),
            states=states,
            actions=_looked_up(self.world.action_space, replay.actions, action_rows),
            rewards=rewards if table is None else jnp.asarray(table)[rewards],
            features=jnp.zeros((self.horizon, episodes, 0)),  # those that the actor had then are of no use
            lengths=lengths,
            truncated=jnp.zeros(episodes, bool) if replay.truncated is None else replay.truncated[slots],
        )


def _looked_up(space: Space, stored: Any, rows: Int[Array, "time episode"]) -> Any:
    """Values of a space from rows of the ring."""
    if isinstance(space, Record):
        return {name: _looked_up(part, stored[name], rows) for name, part in space.items()}
    return stored[rows].astype(space.dtype)


def stored_type(space: Space) -> np.dtype:
    """The smallest type that holds the entries of a value."""
    return smallest_type(space.n) if isinstance(space, Discrete | Indices) else np.dtype(np.float32)


def bytes_of_row(space: Space) -> int:
    """Memory for one value of a space."""
    if isinstance(space, Record):
        return sum(bytes_of_row(part) for _, part in space.items())
    return math.prod(space.shape) * stored_type(space).itemsize


def smallest_type(n: int) -> np.dtype:
    """The smallest type that holds 0..n - 1."""
    return np.dtype(np.uint8 if n <= 2**8 else np.uint16 if n <= 2**16 else np.int32)


def finite_rewards(world: World) -> np.ndarray | None:
    """All rewards that a world may give, sorted; None if its tables do not say, or list too many."""
    if not isinstance(world, FiniteWorld) or not is_unchanged(world, FiniteWorld, "step", "advance", "_advance"):
        return None
    rewards = np.unique(np.asarray(world.rewards, np.float32))
    return rewards if len(rewards) <= 2**16 else None
