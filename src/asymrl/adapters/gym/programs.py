"""The compiled functions behind the environments. Worlds of the same kind and shapes share them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, Num, PRNGKeyArray, PyTree, UInt8, UInt32

from asymrl.adapters.gym.packing import Layout
from asymrl.worlds.spaces import Box, Record
from asymrl.worlds.world import Episode, Latent, Observation, State, Transition, World

Words = UInt32[Array | np.ndarray, "*num_envs 2"]  # of a random key, or of one for each environment


class Begun(NamedTuple):
    """Many episodes that have just begun, and the keys that their steps draw from."""

    keys: UInt32[Array, "num_envs 2"]
    episodes: Episode
    observation: Observation
    latent: Latent


class Stepped(NamedTuple):
    """Many episodes after a step. Where one ended, `episodes`, `observation` and `latent` are those of the next,
    and `final_observation` and `final_state` those at its end.

    The latents of the final states are left to `latent_many`: most steps end nothing, and they may be large.
    """

    episodes: Episode
    observation: Observation
    latent: Latent
    reward: Float[Array, "num_envs"]
    terminated: Bool[Array, "num_envs"]
    truncated: Bool[Array, "num_envs"]
    final_observation: Observation
    final_state: State


class Programs:
    """The functions of one world, compiled when first called.

    The world's arrays are arguments of the compiled code: another maze of the same size needs no compilation.
    """

    def __init__(self, world: World):
        leaves, structure = jax.tree.flatten(world)
        is_array = [isinstance(leaf, np.ndarray | jax.Array) for leaf in leaves]
        constants = tuple(None if array else leaf for leaf, array in zip(leaves, is_array, strict=True))
        self._arrays = jax.device_put([leaf for leaf, array in zip(leaves, is_array, strict=True) if array])
        self._compiled = _compiled(structure, tuple(is_array), constants)

    def __deepcopy__(self, memo: dict[int, Any]) -> Programs:
        return self

    def begin(self, words: Words) -> tuple[UInt32[Array, "2"], Episode, UInt8[Array, "bytes"]]:
        """Starts an episode: the key of its steps, the episode, and the packed result."""
        return self._compiled.begin(self._arrays, words)

    def begin_at(self, words: Words, latent: Latent) -> tuple[UInt32[Array, "2"], Episode, UInt8[Array, "bytes"]]:
        """Starts an episode from a latent state."""
        return self._compiled.begin_at(self._arrays, words, latent)

    def step(
        self, key: UInt32[Array, "2"], episode: Episode, action: np.int32 | np.ndarray
    ) -> tuple[Episode, UInt8[Array, "bytes"]]:
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
        actions: Num[np.ndarray, "num_envs ..."],
    ) -> Stepped:
        """Takes an action in each episode. `clock` counts an environment's steps since it got its key."""
        return self._compiled.step_many(self._arrays, keys, clock, episodes, actions)

    def latent_many(self, states: State) -> Latent:
        return self._compiled.latent_many(self._arrays, states)


def result_layout(world: World) -> Layout:
    """What `begin`, `begin_at` and `step` pack; the outcome is reward, terminated, truncated."""
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

    def step(arrays: list[Array], words: Words, episode: Episode, action: Num[Array, "..."]) -> Any:
        world = rebuild(arrays)
        # The start of a next episode is not used here, so that the compiler leaves it out.
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
    world: World, words: Words, clock: Int32[Array, ""], episode: Episode, action: Num[Array, "..."]
) -> tuple[Episode, Observation, Episode, Transition]:
    # A key that depends on the step's number costs a world without randomness nothing, unlike one carried along.
    return world.advance_or_begin(jax.random.fold_in(_key(words), clock), episode, action)


def _step_on(
    world: World, words: Words, clock: Int32[Array, ""], episode: Episode, action: Num[Array, "..."]
) -> Stepped:
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
