"""Checks of the arguments of environments, made before anything is compiled."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from jaxtyping import UInt32

from asymrl.envs.gymnasium_spaces import entry, to_world
from asymrl.worlds.registry import make
from asymrl.worlds.spaces import Box, Discrete, MultiDiscrete, Record, Space
from asymrl.worlds.world import World


def resolve_world(world: str | World, options: Mapping[str, Any]) -> World:
    """The world given by a name and options, or by an object and possibly another `time_limit`."""
    if isinstance(world, str):
        return make(world, **options)
    if not isinstance(world, World):
        raise TypeError(f"{world!r} is not a world; pass a name such as 'heaven-hell-3' or a World")
    if unknown := sorted(set(options) - {"time_limit"}):
        raise ValueError(
            f"{world.name}: the options {', '.join(unknown)} cannot be applied to a world that is already built; "
            "build it with them, or pass its name"
        )
    return world.with_time_limit(options["time_limit"]) if options else world


def check_reset_options(options: Mapping[str, Any] | None, known: Sequence[str]) -> Mapping[str, Any]:
    options = {} if options is None else options
    for option in options:
        if option not in known:
            raise ValueError(f"reset has no option {option!r}; its options are {', '.join(known)}")
    return options


def check_latent(world: World, latent: Any, where: str = "options['state']") -> None:
    if problem := world.latent_problem(latent):
        with np.printoptions(threshold=32, edgeitems=2, precision=4):
            shown = " ".join(str(latent).split())
        raise ValueError(
            f"{world.name}: {where} {problem}; it was {shown}. "
            "Pass a latent state of the state_space, in the form of info['state']"
        )


def check_action(world: World, space: Space, action: Any) -> Any:
    """The action as a value of the world's action space: an index, a vector, or a dictionary of both."""
    if isinstance(space, Box | MultiDiscrete | Record):
        if problem := space.problem(action):
            raise ValueError(f"{world.name}: the action {problem}")
        return to_world(space, action)
    assert isinstance(space, Discrete)
    try:
        index = operator.index(action)
    except TypeError:
        index = -1
    if not 0 <= index < space.n:
        raise ValueError(f"{world.name}: action {action!r} is not in the action space; {_actions(world)}")
    return np.int32(index)


def check_actions(world: World, actions: Any, num_envs: int) -> Any:
    """Actions of all environments, `[num_envs, ...]`, as values of the world's action space."""
    space: Space = world.action_space
    if isinstance(space, Record):
        if not isinstance(actions, Mapping):
            raise ValueError(f"{world.name}: the actions are a {type(actions).__name__}, expected a dictionary")
        for i in range(num_envs):
            if problem := space.problem(entry(actions, i)):
                raise ValueError(f"{world.name}: the action of environment {i} {problem}")
        return to_world(space, actions)
    array = np.asarray(actions)
    if isinstance(space, Box | MultiDiscrete):
        if array.shape != (num_envs, *space.shape):
            raise ValueError(
                f"{world.name}: the actions have shape {array.shape}, expected {(num_envs, *space.shape)}, one for "
                f"each of the {num_envs} environments"
            )
        for i, each in enumerate(array):
            if problem := space.problem(each):
                raise ValueError(f"{world.name}: the action of environment {i} {problem}")
        return array.astype(space.dtype)
    assert isinstance(space, Discrete)
    if array.shape != (num_envs,) or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{world.name}: the actions have shape {array.shape} and dtype {array.dtype}, expected ({num_envs},) and "
            f"integers, one for each of the {num_envs} environments"
        )
    outside = (array < 0) | (array >= space.n)
    if outside.any():
        i = int(np.argmax(outside))
        raise ValueError(
            f"{world.name}: action {array[i]} of environment {i} is not in the action space; {_actions(world)}"
        )
    return array.astype(np.int32)


def _actions(world: World) -> str:
    names = ", ".join(f"{i} {name}" for i, name in enumerate(world.action_names))
    return f"actions are integers in 0..{len(world.action_names) - 1}: {names}"


def reset_needed(world: World, call: str) -> ResetNeeded:
    return ResetNeeded(f"{world.name}: {call} was called before the first reset(); call reset() first")


def key_words(seed: int | None, generator: np.random.Generator) -> UInt32[np.ndarray, "2"]:
    """The two words of `jax.random.key(seed)`; without a seed, words drawn from the generator."""
    if seed is None:
        return generator.integers(1 << 32, size=2, dtype=np.uint32)
    if seed >= 1 << 64:
        # Gymnasium accepts seeds of any length; JAX takes 64 bits.
        return np.random.SeedSequence(seed).generate_state(2)
    return np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
