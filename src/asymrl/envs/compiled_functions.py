"""The compiled functions of our worlds as Gymnasium environments, shared by worlds of one class and the same shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, PyTree, UInt32

from asymrl.worlds.world import Episode, Latent, Observation, State, World

Words = UInt32[Array | np.ndarray, "*num_envs 2"]  # the words of a random key, or of one for each environment


class Begun(NamedTuple):
    """One or many episodes that have just started, and the keys for their steps."""

    keys: UInt32[Array, "*num_envs 2"]
    episodes: Episode
    observation: Observation
    latent: Latent


class Stepped(NamedTuple):
    """Many episodes after a step. Where one ended, `episodes`, `observation` and `latent` belong to the next one,
    `final_observation` and `final_state` to its end.

    Latents of final states are computed when needed: they may be large, and most steps end nothing.
    """

    episodes: Episode
    observation: Observation
    latent: Latent
    outcome: Float[Array, "num_envs 3"]
    """Reward, terminated, truncated: one array, because fetching each from a device takes time."""
    final_observation: Observation
    final_state: State


class CompiledFunctions(NamedTuple):
    """The functions of one world, compiled when first called."""

    begin: Callable[..., Begun]
    step: Callable[..., tuple[Episode, Observation, Latent, Float[Array, "3"]]]
    begin_many: Callable[..., Begun]
    step_many: Callable[..., Stepped]
    latent_many: Callable[..., Latent]

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunctions:
        return self


def compiled_functions(world: World) -> CompiledFunctions:
    """The world's arrays are arguments of the compiled code: another maze of the same size needs no compilation."""
    leaves, structure = jax.tree.flatten(world)
    is_array = tuple(isinstance(leaf, np.ndarray | jax.Array) for leaf in leaves)
    constants = tuple(None if array else leaf for leaf, array in zip(leaves, is_array, strict=True))
    arrays = jax.device_put([leaf for leaf, array in zip(leaves, is_array, strict=True) if array])
    jitted = _jitted(structure, is_array, constants)
    return CompiledFunctions(*(functools.partial(function, arrays) for function in cast(Any, jitted)))


@functools.lru_cache(maxsize=64)
def _jitted(structure: Any, is_array: tuple[bool, ...], constants: tuple[Any, ...]) -> CompiledFunctions:
    def world_of(arrays: list[Array]) -> World:
        rest = iter(arrays)
        leaves = [next(rest) if array else c for array, c in zip(is_array, constants, strict=True)]
        return jax.tree.unflatten(structure, leaves)

    def begin(arrays: list[Array], words: Words, latent: Latent | None) -> Begun:
        return _begin(world_of(arrays), words, latent)

    def step(arrays: list[Array], words: Words, episode: Episode, action: Any) -> Any:
        world = world_of(arrays)
        # The start of the next episode is not used here, so the compiler drops it.
        stepped, ended = _step(world, words, episode.t, episode, action)
        return ended, stepped.final_observation, world.latent(ended.state), stepped.outcome

    def begin_many(arrays: list[Array], words: Words, latents: Latent | None) -> Begun:
        return jax.vmap(functools.partial(_begin, world_of(arrays)))(words, latents)

    def step_many(arrays: list[Array], *args: Any) -> Stepped:
        return jax.vmap(functools.partial(_step, world_of(arrays)))(*args)[0]

    def latent_many(arrays: list[Array], states: State) -> Latent:
        return jax.vmap(world_of(arrays).latent)(states)

    return CompiledFunctions(*map(jax.jit, (begin, step, begin_many, step_many, latent_many)))


@jax.jit
def blend(mask: Bool[Array, "num_envs"], new: PyTree, old: PyTree) -> PyTree:
    """`new` for the environments in the mask, `old` for the others."""
    return jax.tree.map(lambda n, o: jnp.where(mask.reshape(-1, *[1] * (n.ndim - 1)), n, o), new, old)


def _begin(world: World, words: Words, latent: Latent | None) -> Begun:
    begin_key, steps_key = jax.random.split(_key(words))
    if latent is None:
        episode, observation = world.begin(begin_key)
    else:
        episode = Episode(world.from_latent(latent), jnp.int32(0))
        observation = world.first_observation(begin_key, episode.state)
    return Begun(jax.random.key_data(steps_key), episode, observation, world.latent(episode.state))


def _step(
    world: World, words: Words, clock: Int32[Array, ""], episode: Episode, action: Any
) -> tuple[Stepped, Episode]:
    # A key derived from the step's number costs a deterministic world nothing, unlike one that is carried along.
    key = jax.random.fold_in(_key(words), clock)
    onward, observation, ended, transition = world.advance_or_begin(key, episode, action)
    outcome = jnp.stack([jnp.float32(x) for x in (transition.reward, transition.terminated, transition.truncated)])
    latent = world.latent(onward.state)
    return Stepped(onward, observation, latent, outcome, transition.observation, ended.state), ended


def _key(words: Words) -> PRNGKeyArray:
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")
