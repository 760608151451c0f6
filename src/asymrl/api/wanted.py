"""Which runs to train: their worlds, methods and settings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asymrl.runs.options import method_of, resolve
from asymrl.runs.runs import Run, product
from asymrl.settings import Settings, new_settings, own_values
from asymrl.settings.hyperparameters import tuned
from asymrl.settings.methods import DQN_METHODS, PAPER_METHODS, PPO_METHODS, method
from asymrl.worlds.name_options import PREFIX
from asymrl.worlds.registry import full_name, source_of

if TYPE_CHECKING:
    from asymrl.worlds.world import World


def world_with_arguments(world: str, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The full name of a world, with the environment arguments among the settings; and the other settings."""
    own = {name.removeprefix(PREFIX): value for name, value in settings.items() if name.startswith(PREFIX)}
    return full_name(world, own), {name: value for name, value in settings.items() if not name.startswith(PREFIX)}


def comparison_runs(
    world: str, methods: Sequence[str], seeds: Sequence[int], settings: Mapping[str, Any]
) -> tuple[list[Run], dict[str, str]]:
    """The runs of a comparison, and why methods are left out.

    Raises:
        ValueError: if no method is left, a method is named twice, or there is only one seed.
    """
    from asymrl.learners.signals import needs_state
    from asymrl.worlds.registry import make
    from asymrl.worlds.stepped_world import SteppedWorld

    if len(seeds) < 2:
        raise ValueError(f"{len(seeds)} seeds: at least 2 are needed, as one run says nothing about others")
    if len(set(methods)) < len(methods):
        raise ValueError("methods: the same method is named twice")
    env = make(world)
    no_state = env.without_latent if isinstance(env, SteppedWorld) else None
    by_method = {method: settings_for(world, method, **own_values(method, methods, settings)) for method in methods}
    exclusions = {method: no_state for method, each in by_method.items() if no_state and needs_state(env, each)}
    runs = [Run(each, seed) for method, each in by_method.items() if method not in exclusions for seed in seeds]
    if not runs:
        raise ValueError(f"no method is left to train: their critics need a latent state; a2c needs none. {no_state}")
    return runs, exclusions


def settings_for(world: str, method: str | None = None, **settings: Any) -> Settings:
    """The given settings, then those of the preset, of the paper or of the world, then the defaults."""
    method_name = method_of({**settings, "method": method})
    return new_settings(**resolve(world, method_name, settings, tuned=tuned(world, method_name)))


def compared_methods(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The methods to compare if none are named: the paper's, or their counterparts for the preset's learner.

    Raises:
        RunError: if there is no such preset.
    """
    learner = method(method_of({"preset": settings.get("preset")})).learner
    return {"a2c": PAPER_METHODS, "ppo": PPO_METHODS, "dqn": DQN_METHODS}[learner]


def sweep_runs(
    worlds: Sequence[str], methods: Sequence[str], axes: Mapping[str, Sequence[Any]], seeds: Sequence[int]
) -> list[Run]:
    """The runs of a sweep; settings that are not in `axes` are as in `settings_for`.

    An axis `env.NAME` varies an argument of the environments.
    """
    own = {name.removeprefix(PREFIX): values for name, values in axes.items() if name.startswith(PREFIX)}
    if empty := [name for name, values in own.items() if not values]:
        raise ValueError(f"the axis {PREFIX}{empty[0]} has no values")
    combinations = [dict(zip(own, values, strict=True)) for values in itertools.product(*own.values())]
    names = list(dict.fromkeys(full_name(world, arguments) for world in worlds for arguments in combinations))
    check_worlds(names)
    axes = {name: values for name, values in axes.items() if not name.startswith(PREFIX)}
    return product(
        names, methods, axes, seeds, lambda world, method: resolve(world, method, tuned=tuned(world, method))
    )


def check_worlds(worlds: Sequence[str]) -> None:
    """Raises ValueError if a name is not that of a world, for example if it is misspelt.

    Worlds from outside this package are not made, as they may exist only where they are trained.
    """
    from asymrl.worlds.registry import make

    for world in worlds:
        if source_of(world) is None:
            make(world)


def world_names(worlds: Sequence[Any], env_kwargs: Mapping[str, Any] | None) -> tuple[list[str], dict[str, Any]]:
    """The names of worlds, given as names or objects, and the settings that a single object brings along.

    Among several worlds each keeps its own: `resolve` finds them by its name.

    Args:
        worlds: names, worlds, Gymnasium environments, or classes or functions that make one.
        env_kwargs: arguments of their constructors.

    Raises:
        ValueError: if an object cannot take arguments, or has a name that means another world.
    """
    names, brought = [], {}
    for world in worlds:
        if isinstance(world, str):
            names.append(full_name(world, env_kwargs))
            continue
        name, own = known_by_name(_as_world(world, env_kwargs))
        if source_of(name) is None and len(worlds) > 1:  # its name would not carry its settings
            raise ValueError(f"{name} is a world of asymrl: among several, give its name instead of an object")
        names.append(name)
        brought = own if len(worlds) == 1 else {}
    return names, brought


def _as_world(env: Any, env_kwargs: Mapping[str, Any] | None) -> World:
    """The world of an object that the user made."""
    from asymrl.worlds.world import World

    if isinstance(env, World):
        if env_kwargs:
            raise ValueError(f"{env.name} is already made; make it with these arguments: {', '.join(env_kwargs)}")
        return env
    import gymnasium

    if isinstance(env, gymnasium.Env) or callable(env):
        from asymrl.envs.gymnasium_world import from_gymnasium

        environment: Any = env
        return from_gymnasium(environment, env_kwargs=env_kwargs)
    raise TypeError(
        f"{env!r} is not a world; give a name such as 'heaven-hell-3', a World, a Gymnasium environment, or Settings"
    )


def known_by_name(world: World) -> tuple[str, dict[str, Any]]:
    """Registers a world under its own name. Returns it, with the world's time limit and discount as settings."""
    import equinox as eqx

    from asymrl.envs.sources import register_object
    from asymrl.worlds.registry import is_built_in, make

    if not is_built_in(world.name):
        register_object(world)
    elif not eqx.tree_equal(world, make(world.name, time_limit=world.time_limit, discount=world.discount)):
        raise ValueError(
            f"this world has options or code of its own, but its name {world.name!r} means a world of asymrl; "
            "give it another name, or train it by name with its options"
        )
    return world.name, {"discount": world.discount} | (
        {} if world.time_limit is None else {"time_limit": world.time_limit}
    )
