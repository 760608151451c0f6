"""The compiled functions of the environments, shared by worlds of the same class and shapes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, PyTree, UInt8, UInt32

from asymrl.worlds.spaces import Box, Discrete, Record, Space
from asymrl.worlds.world import Episode, Latent, Observation, State, Transition, World

Words = UInt32[Array | np.ndarray, "*num_envs 2"]  # the words of a random key, or of one for each environment


class Begun(NamedTuple):
    """Many episodes that have just started, and the keys for their steps."""

    keys: UInt32[Array, "num_envs 2"]
    episodes: Episode
    observation: Observation
    latent: Latent


class Stepped(NamedTuple):
    """Many episodes after a step. Where one ended, `episodes`, `observation` and `latent` belong to the next one,
    `final_observation` and `final_state` to its end.

    Latents of final states are computed by `latent_many` when needed: they may be large, and most steps end nothing.
    """

    episodes: Episode
    observation: Observation
    latent: Latent
    reward: Float[Array, "num_envs"]
    terminated: Bool[Array, "num_envs"]
    truncated: Bool[Array, "num_envs"]
    final_observation: Observation
    final_state: State


class CompiledFunctions:
    """The functions of one world, compiled when first called.

    The world's arrays are arguments of the compiled code: another maze of the same size needs no compilation.
    """

    def __init__(self, world: World):
        leaves, structure = jax.tree.flatten(world)
        is_array = [isinstance(leaf, np.ndarray | jax.Array) for leaf in leaves]
        constants = tuple(None if array else leaf for leaf, array in zip(leaves, is_array, strict=True))
        self._arrays = jax.device_put([leaf for leaf, array in zip(leaves, is_array, strict=True) if array])
        self._compiled = _compiled(structure, tuple(is_array), constants)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunctions:
        return self

    def begin(self, words: Words) -> tuple[UInt32[Array, "2"], Episode, UInt8[Array, "bytes"]]:
        """Starts an episode: the key of its steps, the episode, and the packed result."""
        return self._compiled.begin(self._arrays, words)

    def begin_at(self, words: Words, latent: Latent) -> tuple[UInt32[Array, "2"], Episode, UInt8[Array, "bytes"]]:
        """Starts an episode from a latent state."""
        return self._compiled.begin_at(self._arrays, words, latent)

    def step(self, key: UInt32[Array, "2"], episode: Episode, action: Any) -> tuple[Episode, UInt8[Array, "bytes"]]:
        """Takes an action; returns the episode and the packed result."""
        return self._compiled.step(self._arrays, key, episode, action)

    def begin_many(self, words: Words) -> Begun:
        return self._compiled.begin_many(self._arrays, words)

    def begin_many_at(self, words: Words, latents: Latent) -> Begun:
        return self._compiled.begin_many_at(self._arrays, words, latents)

    def step_many(
        self,
        keys: UInt32[Array, "num_envs 2"],
        clock: Int32[np.ndarray, "num_envs"],
        episodes: Episode,
        actions: Any,
    ) -> Stepped:
        """Takes an action in each episode. `clock` counts an environment's steps since its last reset."""
        return self._compiled.step_many(self._arrays, keys, clock, episodes, actions)

    def latent_many(self, states: State) -> Latent:
        return self._compiled.latent_many(self._arrays, states)


def result_layout(world: World) -> Layout:
    """The layout of what `begin`, `begin_at` and `step` pack; `outcome` is reward, terminated, truncated."""
    outcome = Box((3,))
    return Layout(
        Record((("observation", world.observation_space), ("latent", world.latent_space), ("outcome", outcome)))
    )


@jax.jit
def blend(mask: Bool[Array, "num_envs"], new: PyTree, old: PyTree) -> PyTree:
    """`new` for the environments in the mask, `old` for the others."""
    return jax.tree.map(lambda n, o: jnp.where(mask.reshape(-1, *[1] * (n.ndim - 1)), n, o), new, old)


class _Compiled(NamedTuple):
    begin: Callable[..., Any]
    begin_at: Callable[..., Any]
    step: Callable[..., Any]
    begin_many: Callable[..., Begun]
    begin_many_at: Callable[..., Begun]
    step_many: Callable[..., Stepped]
    latent_many: Callable[..., Latent]


@functools.lru_cache(maxsize=64)
def _compiled(structure: Any, is_array: tuple[bool, ...], constants: tuple[Any, ...]) -> _Compiled:
    def rebuild(arrays: list[Array]) -> World:
        rest = iter(arrays)
        leaves = [next(rest) if array else c for array, c in zip(is_array, constants, strict=True)]
        return cast(World, jax.tree.unflatten(structure, leaves))

    def begin(arrays: list[Array], words: Words) -> Any:
        world = rebuild(arrays)
        begun = _begin(world, words)
        return begun.keys, begun.episodes, _pack(world, begun.observation, begun.latent)

    def begin_at(arrays: list[Array], words: Words, latent: Latent) -> Any:
        world = rebuild(arrays)
        begun = _begin_at(world, words, latent)
        return begun.keys, begun.episodes, _pack(world, begun.observation, begun.latent)

    def step(arrays: list[Array], words: Words, episode: Episode, action: Any) -> Any:
        world = rebuild(arrays)
        # The start of the next episode is not used here, so the compiler drops it.
        _, _, ended, transition = _advance(world, words, episode.t, episode, action)
        return ended, _pack(world, transition.observation, world.latent(ended.state), transition)

    def begin_many(arrays: list[Array], words: Words) -> Begun:
        return jax.vmap(functools.partial(_begin, rebuild(arrays)))(words)

    def begin_many_at(arrays: list[Array], words: Words, latents: Latent) -> Begun:
        return jax.vmap(functools.partial(_begin_at, rebuild(arrays)))(words, latents)

    def step_many(arrays: list[Array], *args: Any) -> Stepped:
        return jax.vmap(functools.partial(_step_on, rebuild(arrays)))(*args)

    def latent_many(arrays: list[Array], states: State) -> Latent:
        return jax.vmap(rebuild(arrays).latent)(states)

    functions = (begin, begin_at, step, begin_many, begin_many_at, step_many, latent_many)
    return _Compiled(*map(jax.jit, functions))


def _begin(world: World, words: Words) -> Begun:
    begin_key, steps_key = jax.random.split(_key(words))
    episode, observation = world.begin(begin_key)
    return Begun(jax.random.key_data(steps_key), episode, observation, world.latent(episode.state))


def _begin_at(world: World, words: Words, latent: Latent) -> Begun:
    observe_key, steps_key = jax.random.split(_key(words))
    state = world.from_latent(latent)
    observation = world.first_observation(observe_key, state)
    return Begun(jax.random.key_data(steps_key), Episode(state, jnp.int32(0)), observation, world.latent(state))


def _advance(
    world: World, words: Words, clock: Int32[Array, ""], episode: Episode, action: Any
) -> tuple[Episode, Observation, Episode, Transition]:
    # A key derived from the step's number costs a deterministic world nothing, unlike one that is carried along.
    return world.advance_or_begin(jax.random.fold_in(_key(words), clock), episode, action)


def _step_on(world: World, words: Words, clock: Int32[Array, ""], episode: Episode, action: Any) -> Stepped:
    onward, observation, ended, transition = _advance(world, words, clock, episode, action)
    return Stepped(
        onward,
        observation,
        world.latent(onward.state),
        transition.reward,
        transition.terminated,
        transition.truncated,
        transition.observation,
        ended.state,
    )


def _key(words: Words) -> PRNGKeyArray:
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


def _pack(world: World, observation: Observation, latent: Latent, transition: Transition | None = None) -> Array:
    outcome = jnp.zeros(3)
    if transition is not None:
        outcome = jnp.stack([jnp.float32(x) for x in (transition.reward, transition.terminated, transition.truncated)])
    return result_layout(world).pack({"observation": observation, "latent": latent, "outcome": outcome})


class _BytePosition(NamedTuple):
    """The position of an array within the bytes."""

    offset: int
    length: int
    dtype: np.dtype
    shape: tuple[int, ...] | None  # None: a single index, returned as a NumPy integer


class Layout:
    """Packs the values of a space into one array of bytes, inside compiled code, and unpacks them on the host.

    Fetching an array from a device takes about the same time whatever its size, and a step returns up to nine: in one
    piece they arrive three times as fast.
    """

    def __init__(self, space: Space):
        self._space = space
        self._positions, self.size = _positions(space, 0)

    def pack(self, value: Any) -> UInt8[Array, "bytes"]:
        return jnp.concatenate(_as_bytes(self._space, value))

    def unpack(self, packed: UInt8[Array, "bytes"]) -> Any:
        """The value in Gymnasium's form, in new arrays that the caller may change."""
        return _read(self._positions, np.asarray(packed))


def _positions(space: Space, offset: int) -> tuple[Any, int]:
    if isinstance(space, Record):
        positions = {}
        for name, part in space.items():
            positions[name], offset = _positions(part, offset)
        return positions, offset
    length = math.prod(space.shape)
    position = _BytePosition(offset, length, space.dtype, None if isinstance(space, Discrete) else space.shape)
    return position, offset + length * space.dtype.itemsize


def _as_bytes(space: Space, value: Any) -> list[UInt8[Array, "_"]]:
    if isinstance(space, Record):
        return [piece for name, part in space.items() for piece in _as_bytes(part, value[name])]
    array = jnp.asarray(value).astype(space.dtype)
    return [jax.lax.bitcast_convert_type(array, jnp.uint8).ravel()]


def _read(positions: Any, data: np.ndarray) -> Any:
    if type(positions) is dict:
        return {name: _read(position, data) for name, position in positions.items()}
    offset, length, dtype, shape = positions
    array = np.frombuffer(data, dtype, length, offset)
    return np.int64(array[0]) if shape is None else array.reshape(shape).copy()
