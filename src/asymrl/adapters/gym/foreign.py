"""Other people's Gymnasium environments as worlds to train in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import TimeLimit

from asymrl.adapters.gym.foreign_spaces import reading
from asymrl.adapters.gym.latents import LatentFunction, function_named, latent_of
from asymrl.adapters.gym.stepping import InProcesses, InTurn
from asymrl.adapters.user_code import load_module
from asymrl.worlds.spaces import Box, Discrete
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import DEFAULT_TIME_LIMIT


def from_gymnasium(
    env: str | gymnasium.Env | Callable[[], gymnasium.Env],
    *,
    latent: str | LatentFunction | None = None,
    stepping: Literal["in-turn", "processes"] = "in-turn",
    time_limit: int | None = None,
    discount: float = 0.99,
    name: str | None = None,
) -> SteppedWorld:
    """A world to train in, made from a Gymnasium environment that runs in Python.

    Args:
        env: an id (`CartPole-v1`, `my_module:MyEnv-v0`), an environment that has one, or a function that makes one.
        latent: a function of the environment that gives its latent state, or `module:function`, `file.py:function`.
            Without one, `info["state"]` is used, or `env.unwrapped.state`.
        stepping: environments one after the other in this process, or each in a process of its own, which pays
            where a step takes longer than about a tenth of a millisecond.
        time_limit: steps after which an episode is cut off; by default that of the environment (see `own_limit`),
            or 100. A longer one than the environment's takes its place if it was made by `gymnasium.make`; other
            environments must be made with it.
        discount: recorded with the world; the learner's own is in the settings.
        name: by default the id.

    Raises:
        ValueError: if there is no such environment, or its spaces can not be used.
    """
    make, known_as = _factory(env, time_limit)
    function = function_named(latent) if isinstance(latent, str) else latent
    if stepping not in ("in-turn", "processes"):
        raise ValueError(f"stepping {stepping!r}: choose in-turn or processes")
    probe = make()
    try:
        _, info = probe.reset(seed=0)
        title = name or known_as
        seen = reading(probe.observation_space, f"{title}: the observation")
        if seen is None:
            raise ValueError(f"{title}: the observation is a text, which can not be read")
        truth = latent_of(probe, info, function)
        actions, names, act = _actions(probe.action_space, title)
        limit = own_limit(probe)
    finally:
        probe.close()
    kind = InProcesses if stepping == "processes" else InTurn
    return SteppedWorld(
        name=title,
        discount=discount,
        time_limit=time_limit or limit or DEFAULT_TIME_LIMIT,
        names_of_actions=names,
        actions=actions,
        observations=seen.space,
        latents=truth.reading.space,
        make=make,
        open=lambda count: kind(make, count, seen, truth, act),
        read=seen.read,
        conversions=seen.conversions,
        act=act,
        without_latent=truth.missing and f"{title}: {truth.missing}",
    )


def own_limit(env: gymnasium.Env) -> int | None:
    """Steps after which an environment cuts an episode off by itself, or None if it is not known to.

    That of its `TimeLimit` wrapper, which `gymnasium.make` adds where the id has a limit, or the attribute `max_steps`
    of the environment inside (MiniGrid's); the shorter, if it has both.
    """
    limits = [getattr(env.unwrapped, "max_steps", None)]
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, TimeLimit):
            limits.append(layer._max_episode_steps)  # which has no public name
        layer = layer.env
    known = [int(limit) for limit in limits if isinstance(limit, int | np.integer) and limit > 0]
    return min(known, default=None)


def _factory(
    env: str | gymnasium.Env | Callable[[], gymnasium.Env], time_limit: int | None
) -> tuple[Callable[[], gymnasium.Env], str]:
    """How to make more of them, and what they are called."""
    if isinstance(env, str):
        module, _, identifier = env.rpartition(":")
        if module:
            load_module(f"world {env!r}", module)  # which registers it
        try:
            spec = gymnasium.spec(identifier)
        except gymnasium.error.Error as error:
            raise ValueError(f"world {env!r}: {error}") from error
        return functools.partial(_make, spec, time_limit), env
    if isinstance(env, gymnasium.Env):
        if env.spec is None:
            raise ValueError(
                "this environment was not made by gymnasium.make, so there is no way to make more of them; "
                "give a function that makes one"
            )
        return functools.partial(_make, env.spec, time_limit), env.spec.id
    if callable(env):
        return env, getattr(env, "__name__", type(env).__name__)
    raise TypeError(f"{env!r} is no environment; give an id, an environment or a function that makes one")


def _make(spec: EnvSpec, time_limit: int | None) -> gymnasium.Env:
    # Shorter episodes are cut off by those who step the environment.
    is_longer = time_limit is not None and spec.max_episode_steps is not None and time_limit > spec.max_episode_steps
    # Checking every step would take longer than many an environment does.
    return gymnasium.make(spec, max_episode_steps=time_limit if is_longer else None, disable_env_checker=True)


def _actions(space: gymnasium.Space[Any], title: str) -> tuple[Discrete | Box, tuple[str, ...], Callable[[Any], Any]]:
    """The action space, names of actions, and how an action becomes one of the environment."""
    if isinstance(space, gymnasium.spaces.Discrete):
        first = int(space.start)
        return Discrete(int(space.n)), tuple(map(str, range(int(space.n)))), lambda action: int(action) + first
    if isinstance(space, gymnasium.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        shape, dtype, least, most = space.shape, space.dtype, space.low, space.high
        low, high = (tuple(map(float, end.ravel())) for end in (space.low, space.high))
        names = tuple(f"a{i}" for i in range(len(low)))

        def act(action: Any) -> np.ndarray:
            # Our numbers have fewer digits than some bounds: what lies on one must not lie behind it.
            return np.clip(np.asarray(action, dtype).reshape(shape), least, most)

        return Box((len(low),), low, high), names, act
    raise ValueError(f"{title}: the action space {space} can not be used; it must be Discrete, or a Box of floats")
