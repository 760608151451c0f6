"""Samples of a world for the model checker: the traced functions, and the outcomes of all actions in many states."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.spaces import Box, Discrete, MultiDiscrete, Record, Space
from asymrl.worlds.world import State, Step, World

# A finite world with at most this many state-action pairs is examined in all its states.
EXHAUSTIVE_PAIRS = 20_000
MOST_TRIED = 64  # vectors of indices that are tried in each state
SHARES = (0.5, 0.0, 0.25, 0.75, 1.0)  # positions between the corners of the space, where actions are vectors


class CheckError(ValueError):
    """A world breaks one of the rules for worlds."""


class Shapes(NamedTuple):
    """Shapes and dtypes of the results of a world's functions."""

    state: Any
    first_observation: Any
    step: Any
    observation: Any
    latent: Any
    state_from_latent: Any


class ActionOutcome(NamedTuple):
    """All results of one action in one state."""

    state: State
    reward: Any
    terminated: Any
    observation: Any
    latent: Any


class Samples(NamedTuple):
    """The outcomes of all actions in N states, on the host."""

    first_observations: Any
    start_latents: Any
    latents: Any  # [N, ...]
    outcomes: ActionOutcome  # [N, A, ...], under a key that depends on the latent only
    latents_again: Any  # the same for the states that `from_latent` makes from the latents
    outcomes_again: ActionOutcome
    same_latent: np.ndarray  # [N], the first state with the same latent


def trace_functions(env: World, times: int = 3) -> Shapes:
    """Traces each function of a world, without running it.

    Raises:
        CheckError: if a function fails, or differs when it is traced again.
    """

    def shape_of(name: str, *arguments: Any) -> Any:
        programs, shapes = set(), None
        for _ in range(times):
            try:
                # A new function each time, since JAX caches traced functions.
                program, shapes = jax.make_jaxpr(_renewed(getattr(env, name)), return_shape=True)(*arguments)
            except Exception as error:
                raise CheckError(f"{env.name}: {name} raised {type(error).__name__}: {error}") from error
            programs.add(_fingerprint(program))
        if len(programs) > 1:
            raise CheckError(
                f"{env.name}: {name} depends on more than its arguments: it differs when it is traced again; "
                "draw randomness from the key, not from np.random, and keep no counters"
            )
        return shapes

    key = jax.eval_shape(lambda: jax.random.key(0))
    action = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, action_to_try(env, 0)))
    state = shape_of("reset", key)
    first_observation = shape_of("first_observation", key, state)
    step = shape_of("step", key, state, action)
    if not isinstance(step, Step):
        raise CheckError(f"{env.name}: step returns a {type(step).__name__}, expected asymrl.worlds.Step")
    observation = shape_of("observe", key, state, action, step.state)
    latent = shape_of("latent", state)
    return Shapes(state, first_observation, step, observation, latent, shape_of("from_latent", latent))


def _renewed(function: Callable) -> Callable:
    return lambda *arguments: function(*arguments)


def _fingerprint(program: Any) -> tuple[str, ...]:
    """Equal for equal programs; addresses of Python objects are ignored."""
    return re.sub(r"0x[0-9a-f]+", "", str(program)), *(to_numpy(jnp.asarray(c)).tobytes().hex() for c in program.consts)


def sample_world(env: World, episodes: int, steps: int, seed: int) -> Samples:
    """Follows episodes with random actions and tries every action in the states on the way.

    A small finite world is sampled in all its states instead.
    """
    random = np.random.default_rng(seed)
    try_actions = _quick_jit(jax.vmap(functools.partial(_try_actions, env)))
    no_walk = np.zeros(episodes, np.int32)
    try:
        starts, first_observations, start_latents = _quick_jit(jax.vmap(functools.partial(begin, env)))(
            _keys(_key_data(random, episodes))
        )
        if isinstance(env, FiniteWorld) and env.latent_space.n * len(env.action_names) <= EXHAUSTIVE_PAIRS:
            batches, latents = _all_states(env, episodes)
        else:
            walk = _follow(try_actions, starts, random, action_count(env), episodes, steps)
            batches, latents = [state for state, _ in walk], _join([latent for _, latent in walk])
        leader = _first_equal(latents)
        key_data = _key_data(random, leader.size)[leader].reshape(len(batches), episodes, -1)
        batch_keys = [_keys(data) for data in key_data]
        tried = [try_actions(*pair, no_walk, starts) for pair in zip(batch_keys, batches, strict=True)]
        rebuilt = [state for _, state, _, _ in tried]
        again = [try_actions(*pair, no_walk, starts) for pair in zip(batch_keys, rebuilt, strict=True)]
    except Exception as error:
        raise CheckError(f"{env.name}: fails when compiled with vmap: {type(error).__name__}: {error}") from error
    return Samples(
        first_observations=to_numpy(first_observations),
        start_latents=to_numpy(start_latents),
        latents=latents,
        outcomes=_join([outcomes for _, _, outcomes, _ in tried]),
        latents_again=_join([latent for latent, _, _, _ in again]),
        outcomes_again=_join([outcomes for _, _, outcomes, _ in again]),
        same_latent=leader,
    )


def action_count(env: World) -> int:
    """How many actions there are to try."""
    return len(jax.tree.leaves(actions_to_try(env))[0])


def action_to_try(env: World, i: int) -> Any:
    """One of the actions to try."""
    return jax.tree.map(lambda leaf: leaf[i], actions_to_try(env))


def random_action(space: Space, generator: np.random.Generator) -> Any:
    """An action drawn uniformly; numbers without bounds lie between -1 and 1."""
    if isinstance(space, Record):
        return {name: random_action(part, generator) for name, part in space.items()}
    if isinstance(space, Discrete):
        return np.int32(generator.integers(space.n))
    if isinstance(space, MultiDiscrete):
        return generator.integers(space.sizes, dtype=np.int32)
    assert isinstance(space, Box)
    low, high = (np.nan_to_num(end, posinf=1.0, neginf=-1.0) for end in space.bounds())
    return generator.uniform(low, high).astype(np.float32)


def actions_to_try(env: World) -> Any:
    """Every action of a world; if actions are vectors, both corners of the space and points between them.

    Vectors of indices: all or, if there are many, both corners and a fixed random sample. Records: a fixed random
    sample.
    """
    space = env.action_space
    if isinstance(space, Record):
        generator = np.random.default_rng(0)
        return jax.tree.map(lambda *each: np.stack(each), *(random_action(space, generator) for _ in range(MOST_TRIED)))
    if isinstance(space, Discrete):
        return np.arange(space.n, dtype=np.int32)
    if isinstance(space, MultiDiscrete):
        if math.prod(space.sizes) <= MOST_TRIED:
            return np.indices(space.sizes, np.int32).reshape(len(space.sizes), -1).T
        drawn = np.random.default_rng(0).integers(space.sizes, size=(MOST_TRIED, len(space.sizes)), dtype=np.int32)
        drawn[0], drawn[1] = 0, np.asarray(space.sizes) - 1
        return drawn
    low, high = (np.nan_to_num(end, posinf=1.0, neginf=-1.0) for end in space.bounds())
    return np.stack([low + share * (high - low) for share in SHARES]).astype(np.float32)


def begin(env: World, key: Any) -> tuple[State, Any, Any]:
    state = env.reset(key)
    return state, env.first_observation(key, state), env.latent(state)


def act(env: World, key: Any, state: State, action: Any) -> ActionOutcome:
    step = env.step(key, state, action)
    observation = env.observe(key, state, action, step.state)
    return ActionOutcome(*step, observation=observation, latent=env.latent(step.state))


def _try_actions(
    env: World, key: Any, state: State, action: Any, start: State
) -> tuple[Any, State, ActionOutcome, State]:
    """The latent, the state made from it, the outcome of each action, and the next state (`start` at an end)."""
    latent = env.latent(state)
    outcomes = jax.vmap(functools.partial(act, env), (None, None, 0))(
        key, state, jax.tree.map(jnp.asarray, actions_to_try(env))
    )
    ended = outcomes.terminated[action]
    onward = jax.tree.map(lambda leaf, first: jnp.where(ended, first, leaf[action]), outcomes.state, start)
    return latent, env.from_latent(latent), outcomes, onward


def _follow(
    try_actions: Callable, state: State, random: np.random.Generator, actions: int, episodes: int, steps: int
) -> list[tuple[State, Any]]:
    """The states visited by random actions and their latents, one batch per step.

    The first episode draws every action independently, the last one repeats a single action, which takes it further.
    """
    starts, visited = state, []
    persistence = np.linspace(0, 1, episodes)
    action = random.integers(actions, size=episodes, dtype=np.int32)
    for _ in range(steps):
        repeats = random.random(episodes) < persistence
        action = np.where(repeats, action, random.integers(actions, size=episodes, dtype=np.int32))
        latent, _, _, onward = try_actions(_keys(_key_data(random, episodes)), state, action, starts)
        visited.append((state, latent))
        state = onward
    return visited


def _all_states(env: FiniteWorld, size: int) -> tuple[list[State], np.ndarray]:
    """All states in batches, the last one padded with the first states, and their latents."""
    batches = -(-env.latent_space.n // size)
    latents = np.resize(np.arange(env.latent_space.n, dtype=np.int32), (batches, size))
    return [to_numpy(jax.vmap(env.from_latent)(jnp.asarray(batch))) for batch in latents], latents.ravel()


def _key_data(random: np.random.Generator, count: int) -> np.ndarray:
    """Random numbers for keys, drawn on the host, where nothing has to be compiled."""
    shape = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0))).shape
    return random.integers(2**32, size=(count, *shape), dtype=np.uint32)


def _keys(data: np.ndarray) -> Any:
    return jax.random.wrap_key_data(jnp.asarray(data))


def _first_equal(latents: Any) -> np.ndarray:
    """For each latent, the index of the first one equal to it."""
    first: dict[bytes, int] = {}
    rows = zip(*jax.tree.leaves(latents), strict=True)
    return np.array([first.setdefault(b"".join(leaf.tobytes() for leaf in row), i) for i, row in enumerate(rows)])


def _quick_jit(function: Callable) -> Callable:
    """Compiles without optimisation, since checks spend their time compiling, not running."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def to_numpy(tree: Any) -> Any:
    """The same tree as NumPy arrays; random keys become their data."""

    def numbers(leaf: Any) -> np.ndarray:
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(numbers, tree)


def _join(batches: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *map(to_numpy, batches))
