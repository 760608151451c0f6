"""Other people's Gymnasium environments as worlds to train in."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.wrappers import TimeLimit

from asymrl.envs.action_spaces import action_encoding
from asymrl.envs.constructors import checked_arguments
from asymrl.envs.gymnasium_checks import (
    Interface,
    LatentState,
    Position,
    ReturnedValueError,
    check_value,
    make_environment,
    mistakes_named,
    reset_values,
)
from asymrl.envs.gymnasium_spaces import Encoding, encoding_of_space, encoding_of_value
from asymrl.envs.gymnasium_steppers import ProcessStepper, SerialStepper, try_environment
from asymrl.envs.user_code import importable_name, load_attribute, load_module
from asymrl.worlds.name_options import with_options
from asymrl.worlds.registry import full_name
from asymrl.worlds.spaces import Box, Record, Space
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import DEFAULT_TIME_LIMIT

STEP_TIMEOUT = 300.0  # seconds; some simulators need minutes for their first reset
LatentFunction = Callable[[gymnasium.Env], Any]

LARGEST_GRID = 32  # cells along a side of a view of symbols; pictures of MiniGrid have 8 pixels for each cell

NO_LATENT = (
    "no latent state was found, neither in info['state'] nor in env.unwrapped.state. Put it into info['state'], or "
    "name a function that returns it after the name of the world (:latent=module:function). Only methods whose critic "
    "reads the history alone, such as a2c, can be trained without one"
)


def from_gymnasium(
    env: str | gymnasium.Env | Callable[..., gymnasium.Env],
    *,
    latent: str | LatentFunction | None = None,
    stepping: Literal["in-turn", "processes"] = "in-turn",
    step_timeout: float | None = STEP_TIMEOUT,
    time_limit: int | None = None,
    discount: float = 0.99,
    env_kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> SteppedWorld:
    """A world to train in, made from a Gymnasium environment that runs in Python.

    Args:
        env: an id (`CartPole-v1`, `my_module:MyEnv-v0`), an environment that has one, or a function that makes one.
        latent: a function of the environment that returns its latent state, or its name, `module:function` or
            `file.py:function`. By default `info["state"]` or `env.unwrapped.state`.
        stepping: "in-turn" steps the environments one after the other in this process, "processes" each in its own
            process, which is faster if a step takes longer than about 0.1 ms.
        step_timeout: with processes, seconds that making the environment, `reset` and `step` may take before it counts
            as hanging. None: any.
        time_limit: steps after which an episode is truncated; by default the environment's own (see `own_limit`), or
            100. A longer limit replaces the one that `gymnasium.make` sets; an environment with a limit of its own
            must be made with a longer one.
        discount: recorded with the world; training uses the one in the settings.
        env_kwargs: arguments of the environment's constructor.
        name: by default the id.

    Raises:
        ValueError: if there is no such environment or argument, or its spaces are not supported.
        UserCodeError: if its code fails.
    """
    make, default_title = _factory(env, time_limit, dict(env_kwargs or {}))
    function = _function_named(latent) if isinstance(latent, str) else latent
    if stepping not in ("in-turn", "processes"):
        raise ValueError(f"stepping {stepping!r}: choose in-turn or processes")
    if step_timeout is not None and not step_timeout > 0:
        raise ValueError(f"step_timeout {step_timeout}: choose a positive number of seconds, or none")
    title = name or default_title
    if stepping == "processes":
        try_environment(title, make, step_timeout)
    probe = make_environment(title, make)
    try:
        for which in ("observation_space", "action_space"):
            if not isinstance(getattr(probe, which, None), gymnasium.Space):
                raise ValueError(f"{title} has no {which}; set it to a space of Gymnasium")
        symbols = minigrid_symbols() if _is_minigrid(probe) and not _has_pixels(probe.observation_space) else None
        observation = encoding_of_space(probe.observation_space, f"{title}: the observation", symbols=symbols)
        if observation is None:
            raise ValueError(f"{title}: the observation has nothing but a text, which networks here cannot read")
        actions, act = action_encoding(probe.action_space, f"{title}: the action space")
        first = Position().reset(0)
        with mistakes_named(title, first, "reset"):
            value, info = reset_values(probe.reset(seed=first.seed))
            check_value(probe.observation_space, value, "the observation")
            latent_state = find_latent(probe, info, function)
        limit = own_limit(probe)
        interface = Interface(title, make, probe.observation_space, observation, latent_state, act)
    finally:
        probe.close()

    def open_stepper(count: int) -> SerialStepper | ProcessStepper:
        if stepping == "processes":
            return ProcessStepper(interface, count, step_timeout)
        return SerialStepper(interface, count)

    return SteppedWorld(
        name=title,
        discount=discount,
        time_limit=time_limit or limit or DEFAULT_TIME_LIMIT,
        actions=actions,
        observations=observation.space,
        latents=latent_state.encoding.space,
        make=make,
        open=open_stepper,
        read=observation.read,
        conversions=observation.conversions,
        act=act,
        latent_from=latent_state.where,
        recipe=_recipe(env, latent, stepping, step_timeout, env_kwargs),
        without_latent=latent_state.missing and f"{title}: {latent_state.missing}{_groups_hint(observation.space)}",
    )


def _groups_hint(observation: Space) -> str:
    """How critics can see more than actors without a latent state, where observations have named parts."""
    if not isinstance(observation, Record) or len(names := [name for name, _ in observation.items()]) < 2:
        return ""
    return (
        f". Or let the actor see some groups of the observation and the critic more of them, such as --actor-sees "
        f"{names[0]} --critic-sees {','.join(names[:4])}"
    )


def _recipe(
    env: Any, latent: Any, stepping: str, step_timeout: float | None, env_kwargs: Mapping[str, Any] | None
) -> str | None:
    """A name by which the world can be made again, or None if something in it has no name."""
    if isinstance(env, gymnasium.Env):
        env_kwargs = {**(env.spec.kwargs if env.spec else {}), **(env_kwargs or {})}
        env = env.spec and env.spec.id
    base = env if isinstance(env, str) else importable_name(env)
    function = latent if latent is None or isinstance(latent, str) else importable_name(latent)
    if base is None or (latent is not None and function is None):
        return None
    options = {"latent": function, "stepping": stepping, "step_timeout": step_timeout}
    usual = {"latent": None, "stepping": "in-turn", "step_timeout": STEP_TIMEOUT}
    own = {option: value for option, value in options.items() if value != usual[option]}
    try:
        return full_name(with_options(base, own) if own else base, env_kwargs)
    except ValueError:  # an argument that cannot be written
        return None


def own_limit(env: gymnasium.Env) -> int | None:
    """Steps after which an environment truncates an episode by itself, or None if no limit is known.

    The limit of its `TimeLimit` wrapper, which `gymnasium.make` adds, or the attribute `max_steps` of the unwrapped
    environment (MiniGrid); the shorter one if it has both.
    """
    limits = [getattr(env.unwrapped, "max_steps", None)]
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, TimeLimit):
            limits.append(layer._max_episode_steps)  # there is no public name
        layer = layer.env
    valid_limits = [int(limit) for limit in limits if isinstance(limit, int | np.integer) and limit > 0]
    return min(valid_limits, default=None)


def _factory(
    env: str | gymnasium.Env | Callable[..., gymnasium.Env], time_limit: int | None, arguments: dict[str, Any]
) -> tuple[Callable[[], gymnasium.Env], str]:
    """A function that makes the environment, and its name."""
    if isinstance(env, str):
        spec = _spec_named(env)
        if arguments:
            spec = _with_arguments(env, spec, arguments)
        return functools.partial(_make, spec, time_limit), env
    if isinstance(env, gymnasium.Env):
        if env.spec is None:
            raise ValueError(
                "this environment was not made by gymnasium.make, so it cannot be made again; "
                "pass a function that makes it"
            )
        spec = _with_arguments(env.spec.id, env.spec, arguments) if arguments else env.spec
        return functools.partial(_make, spec, time_limit), env.spec.id
    if callable(env):
        title = getattr(env, "__name__", type(env).__name__)
        keywords = checked_arguments(title, env, arguments)
        return functools.partial(env, **keywords) if keywords else env, title
    raise TypeError(f"{env!r} is not an environment; pass an id, an environment or a function that makes one")


def _spec_named(name: str) -> EnvSpec:
    """Gymnasium's spec of an id, which may follow a module or file that registers it."""
    module, _, identifier = name.rpartition(":")
    if module:
        load_module(f"world {name!r}", module)  # this registers the id
    try:
        return gymnasium.spec(identifier)
    except gymnasium.error.Error as error:
        raise ValueError(f"world {name!r}: {error}") from error


def constructor_named(name: str) -> Callable[..., Any]:
    """The class or function that makes the environment with this id. Raises ValueError if it cannot be imported."""
    return _constructor(name, _spec_named(name))


def _constructor(title: str, spec: EnvSpec) -> Callable[..., Any]:
    if callable(spec.entry_point):
        return spec.entry_point
    try:
        return load_env_creator(str(spec.entry_point))
    except (ImportError, AttributeError, gymnasium.error.Error) as error:
        raise ValueError(f"world {title!r}: {spec.entry_point} cannot be imported: {error}") from error


def _with_arguments(title: str, spec: EnvSpec, arguments: dict[str, Any]) -> EnvSpec:
    checked = checked_arguments(title, _constructor(title, spec), arguments, given=spec.kwargs)
    return dataclasses.replace(spec, kwargs={**spec.kwargs, **checked})


def _make(spec: EnvSpec, time_limit: int | None) -> gymnasium.Env:
    # A shorter limit is applied by the code that steps the environment.
    is_longer = time_limit is not None and spec.max_episode_steps is not None and time_limit > spec.max_episode_steps
    # Gymnasium's checks would take longer than the steps of many environments.
    return gymnasium.make(spec, max_episode_steps=time_limit if is_longer else None, disable_env_checker=True)


def find_latent(env: gymnasium.Env, info: dict[str, Any], function: LatentFunction | None) -> LatentState:
    """Looks for the latent state of an environment that was just reset.

    Tried in this order: the user's function, `info["state"]`, `env.unwrapped.state`, the grid of a MiniGrid
    environment.
    """
    if function is not None:
        return LatentState(
            lambda env, info: function(env),
            encoding_of_value(function(env), "the latent state"),
            f"the function {getattr(function, '__name__', 'latent')}",
        )
    if info.get("state") is not None:
        return _declared_state(env, _state_in, info["state"], "info['state']")
    inner: Any = env.unwrapped
    if getattr(inner, "state", None) is not None and not callable(inner.state):
        return _declared_state(env, lambda env, info: _inner(env).state, inner.state, "env.unwrapped.state")
    if _is_minigrid(env):
        return LatentState(lambda env, info: minigrid_state(_inner(env)), _minigrid_encoding(inner), "MiniGrid's grid")
    empty = np.zeros(0, np.float32)
    return LatentState(lambda env, info: empty, Encoding(Box((0,)), lambda value: empty), "", NO_LATENT)


def _state_in(env: gymnasium.Env, info: dict[str, Any]) -> Any:
    if info.get("state") is None:
        raise ReturnedValueError("info['state'] is missing; it was there when the environment was first reset")
    return info["state"]


def _is_minigrid(env: gymnasium.Env) -> bool:
    return all(hasattr(env.unwrapped, name) for name in ("grid", "agent_pos", "agent_dir"))


def _has_pixels(space: gymnasium.Space[Any]) -> bool:
    """Whether a MiniGrid environment shows pictures: its views of symbols have few cells."""
    boxes = [space, *(space.spaces.values() if isinstance(space, spaces.Dict) else ())]
    return any(isinstance(each, spaces.Box) and each.shape[:1] and each.shape[0] > LARGEST_GRID for each in boxes)


def _inner(env: gymnasium.Env) -> Any:
    return env.unwrapped


def _declared_state(
    env: gymnasium.Env, find: Callable[[gymnasium.Env, dict[str, Any]], Any], value: Any, where: str
) -> LatentState:
    """A latent state, encoded as the environment's `state_space` declares it, or else like this value of it."""
    space = getattr(env.unwrapped, "state_space", None)
    if isinstance(space, gymnasium.Space):
        declared = encoding_of_space(space, where)
        if declared is not None:
            check_value(space, value, where)
            return LatentState(find, declared, where, space=space)
    return LatentState(find, encoding_of_value(value, where), where)


def minigrid_symbols() -> int:
    """How many kinds of objects, or of colours or states if there are more of those, a cell of MiniGrid can show."""
    try:
        from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX  # pyright: ignore[reportMissingImports]
    except ImportError:  # another environment that looks like MiniGrid's
        return 256
    return 1 + max(index for table in (OBJECT_TO_IDX, COLOR_TO_IDX, STATE_TO_IDX) for index in table.values())


def minigrid_state(inner: Any) -> dict[str, Any]:
    """Every cell of a MiniGrid environment, and the agent's position and heading."""
    place = np.asarray(inner.agent_pos, np.float32) / np.asarray([inner.width, inner.height], np.float32)
    return {"cells": inner.grid.encode(), "agent": place, "heading": int(inner.agent_dir)}


def _minigrid_encoding(inner: Any) -> Encoding:
    cells = spaces.Box(0, 255, (inner.width, inner.height, 3), np.uint8)
    grid = encoding_of_space(
        spaces.Dict({"cells": cells, "agent": spaces.Box(0.0, 1.0, (2,)), "heading": spaces.Discrete(4)}),
        "the grid",
        symbols=minigrid_symbols(),
    )
    assert grid is not None
    return grid


def _function_named(name: str) -> LatentFunction:
    """The function `module:function` or `file.py:function`. Raises ValueError if there is none."""
    module, colon, attribute = name.rpartition(":")
    if not colon:
        raise ValueError(f"latent {name!r}: write module:function or file.py:function")
    return load_attribute(f"latent {name!r}", module, attribute)
