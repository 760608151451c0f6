"""gymnax environments, and any class with the same interface, as worlds. Their state is the latent."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PRNGKeyArray

from asymrl.envs.constructors import checked_arguments, parameters_of
from asymrl.worlds.spaces import ActionSpace, Box, Discrete, MultiDiscrete, Record, Space, action_problem
from asymrl.worlds.stepped_world import WrappedWorld
from asymrl.worlds.world import DEFAULT_TIME_LIMIT, Step


class GymnaxState(NamedTuple):
    """A state of the environment, and the observation that came with it."""

    state: Any
    observation: Any


class GymnaxWorld(WrappedWorld):
    """A gymnax environment, with `reset_env`, `step_env` and spaces, as a world.

    The latent state is the environment's state, all its numbers in one vector.
    """

    env: Any = eqx.field(static=True)
    params: Any
    size: int = eqx.field(static=True)
    restore: Any = eqx.field(static=True)

    def __init__(self, env: Any, params: Any = None, *, name: str | None = None, discount: float = 0.99,
                 time_limit: int | None = None):  # fmt: skip
        """Wraps an environment; reaching its own step limit counts as termination."""
        params = env.default_params if params is None else params
        self.env, self.params = env, params
        self.name = name or str(getattr(env, "name", type(env).__name__))
        self.discount = discount
        own = getattr(params, "max_steps_in_episode", None)
        self.time_limit = time_limit or (int(own) if own is not None else DEFAULT_TIME_LIMIT)
        actions = space_of(env.action_space(params), f"{self.name}: the action")
        if problem := action_problem(actions):
            raise ValueError(f"{self.name}: these actions are not supported: {problem}")
        self.actions = cast(ActionSpace, actions)
        self.observations = space_of(env.observation_space(params), f"{self.name}: the observation")
        # A bound method can be compiled only once its object is complete.
        _, state = jax.jit(lambda key: self._reset(key))(jax.random.key(0))
        for leaf in jax.tree.leaves(state):
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                raise ValueError(f"{self.name}: its state holds a random key, which cannot be part of a latent state")
        vector, self.restore = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), state))
        self.size = int(vector.size)

    @property
    def latent_space(self) -> Box:
        return Box((self.size,))

    def reset(self, key: PRNGKeyArray) -> GymnaxState:
        observation, state = self._reset(key)
        return GymnaxState(state, self._encode(observation))

    def step(self, key: PRNGKeyArray, state: GymnaxState, action: Any) -> Step:
        action = _in_form(self.env.action_space(self.params), self.actions, action)
        observation, next_state, reward, done = self.env.step_env(key, state.state, action, self.params)[:4]
        # The dtypes may differ between reset and step; a scan needs those of reset.
        next_state = jax.tree.map(lambda new, old: jnp.asarray(new, jnp.asarray(old).dtype), next_state, state.state)
        reward = jnp.asarray(reward, jnp.float32).reshape(())
        return Step(GymnaxState(next_state, self._encode(observation)), reward, jnp.asarray(done, bool).reshape(()))

    def first_observation(self, key: PRNGKeyArray, state: GymnaxState) -> Any:
        return state.observation

    def observe(self, key: PRNGKeyArray, state: GymnaxState, action: Any, next_state: GymnaxState) -> Any:
        return next_state.observation

    def latent(self, state: GymnaxState) -> Any:
        return ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), state.state))[0]

    def from_latent(self, latent: Any) -> GymnaxState:
        _, like = jax.eval_shape(self._reset, jax.random.key(0))
        state = jax.tree.map(
            lambda leaf, kind: jnp.asarray(leaf, kind.dtype), self.restore(jnp.asarray(latent, jnp.float32)), like
        )
        return GymnaxState(state, self._encode(self._observation_of(state)))

    def _reset(self, key: PRNGKeyArray) -> tuple[Any, Any]:
        observation, state = self.env.reset_env(key, self.params)
        return observation, jax.tree.map(jnp.asarray, state)

    def _observation_of(self, state: Any) -> Any:
        """The observation of a state."""
        parameters = inspect.signature(self.env.get_obs).parameters
        arguments = {"params": self.params, "key": jax.random.key(0)}
        return self.env.get_obs(state, **{name: value for name, value in arguments.items() if name in parameters})

    def _encode(self, observation: Any) -> Any:
        def shaped(space: Space, value: Any) -> Any:
            if isinstance(space, Record):
                return {name: shaped(part, value[name]) for name, part in space.items()}
            return jnp.asarray(value, space.dtype).reshape(space.shape)

        return shaped(self.observations, observation)


def space_of(space: Any, where: str) -> Space:
    """A gymnax space as one of ours.

    With `n` a Discrete, with `nvec` a MultiDiscrete, with `low` and `high` a Box, with `spaces` a Record.
    """
    if hasattr(space, "spaces"):
        parts = _parts(space)
        return Record(tuple((str(name), space_of(part, f"{where} {str(name)!r}")) for name, part in parts))
    if hasattr(space, "nvec"):
        return MultiDiscrete(tuple(np.ravel(space.nvec).tolist()))
    if hasattr(space, "n"):
        return Discrete(int(space.n))
    if hasattr(space, "low") and hasattr(space, "high"):
        shape = tuple(space.shape)
        size = math.prod(shape)
        bounds = (np.broadcast_to(np.asarray(end, np.float32), shape).ravel() for end in (space.low, space.high))
        return Box((size,), *(tuple(map(float, end)) for end in bounds))
    raise ValueError(f"{where}: {type(space).__name__} spaces are not supported")


def _parts(space: Any) -> list[tuple[Any, Any]]:
    """The names and spaces of the parts of a gymnax Dict, or the numbers and spaces of those of a Tuple."""
    return list(space.spaces.items() if isinstance(space.spaces, Mapping) else enumerate(space.spaces))


def _in_form(theirs: Any, ours: Space, action: Any) -> Any:
    """An action of ours in the form that the environment declares."""
    if isinstance(ours, Record):
        parts = {name: _in_form(part, ours[str(name)], action[str(name)]) for name, part in _parts(theirs)}
        return parts if isinstance(theirs.spaces, Mapping) else tuple(parts.values())
    return action if isinstance(ours, Discrete) else action.reshape(theirs.shape)


def from_gymnax(env: Any, params: Any = None, **options: Any) -> GymnaxWorld:
    """A world made from a gymnax environment, or from any object with its functions.

    Args:
        env: with `reset_env(key, params)`, `step_env(key, state, action, params)`, `action_space(params)`,
            `observation_space(params)` and `default_params`.
        params: the environment's parameters; by default `default_params`.
        **options: `name`, `discount`, `time_limit`.
    """
    missing = [
        part for part in ("reset_env", "step_env", "action_space", "observation_space") if not hasattr(env, part)
    ]
    if missing:
        raise ValueError(f"{type(env).__name__} has no {', '.join(missing)}, so it is not a gymnax environment")
    return GymnaxWorld(env, params, **options)


def make_gymnax(identifier: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> GymnaxWorld:
    """The gymnax environment with this name.

    Args:
        identifier: its name in gymnax.
        arguments: of the environment's constructor, or fields of its parameters.
        **options: `name`, `discount`, `time_limit`.
    """
    try:
        import gymnax  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ValueError(
            f'world gymnax:{identifier}: gymnax is not installed ({error}); pip install "asymrl[gymnax]"'
        ) from error
    title = f"gymnax:{identifier}"
    try:
        env, params = gymnax.make(identifier)
        if arguments:
            env, params = _with_arguments(title, env, params, arguments)
    except (ValueError, TypeError) as error:
        said = str(error)
        raise ValueError(said if said.startswith(title) else f"world {title}: {said}") from error
    return GymnaxWorld(env, params, **{"name": title, **options})


def _with_arguments(title: str, env: Any, params: Any, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
    """The environment and its parameters with other values."""
    build, fields = type(env), {each.name: getattr(params, each.name) for each in dataclasses.fields(params)}
    of_constructor, takes_any = parameters_of(build)
    if unknown := [argument for argument in arguments if argument not in {**of_constructor, **fields}]:
        names = sorted({*of_constructor, *fields})
        close = difflib.get_close_matches(unknown[0], names, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}? " if close else ""
        if not takes_any or close:
            raise ValueError(f"{title}: there is no argument {unknown[0]!r}; {hint}it has {', '.join(names)}")
    constructor_arguments = {argument: value for argument, value in arguments.items() if argument in of_constructor}
    others = {argument: value for argument, value in arguments.items() if argument not in of_constructor}
    for argument, value in others.items():
        if not isinstance(value, bool | int | float):
            raise ValueError(f"{title}: the argument {argument} is {value!r}, expected a number")
    if constructor_arguments:
        env = build(**checked_arguments(title, build, constructor_arguments))
        params = env.default_params
    return env, params.replace(**others) if others else params
