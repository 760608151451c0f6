"""Which runs to train, and the stores that hold them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asymrl.adapters.surroundings import surroundings_of
from asymrl.adapters.user_code import locate_class
from asymrl.settings import Settings, new_settings, own_values
from asymrl.settings.hyperparameters import tuned
from asymrl.settings.methods import DQN_METHODS, PAPER_METHODS, PPO_METHODS, method
from asymrl.stores.description import is_store
from asymrl.stores.files import RunError
from asymrl.stores.options import method_of, resolve
from asymrl.stores.runs import Run, product
from asymrl.stores.store import Store, free_folder
from asymrl.worlds.allowed_code import allow
from asymrl.worlds.name_options import PREFIX
from asymrl.worlds.registry import full_name, source_of

if TYPE_CHECKING:
    from asymrl.engine.placement import Placement
    from asymrl.paper.parts import Extent, Part
    from asymrl.worlds.world import World

NETWORKS_KEPT = 300  # runs of a store whose networks are kept, unless something else is asked for; each has some MB


def world_with_arguments(world: str, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The whole name of a world, with the arguments of its environment among the settings; and the other settings."""
    own = {name.removeprefix(PREFIX): value for name, value in settings.items() if name.startswith(PREFIX)}
    return full_name(world, own), {name: value for name, value in settings.items() if not name.startswith(PREFIX)}


def comparison_runs(
    world: str, methods: Sequence[str], seeds: Sequence[int], settings: Mapping[str, Any]
) -> tuple[list[Run], dict[str, str]]:
    """The runs of a comparison, and why methods are left out.

    Raises:
        ValueError: if no method is left, a method is named twice, or there is only one seed.
    """
    from asymrl.collection.signals import needs_state
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


def comparison_store(folder: Path, runs: Sequence[Run], placement: Placement | None = None) -> Store:
    """The store of a comparison, which holds its runs or some of them.

    Raises:
        RunError: if it holds others: then it is another comparison.
    """
    if is_store(folder) and not {run.key for run in Store.open(folder).runs} <= {run.key for run in runs}:
        raise RunError(f"{folder}: holds runs with other settings or seeds; choose another --out")
    check_possible(runs, placement)
    return grown_store(folder, runs)


def compare_folder(world: str) -> Path:
    return Path("runs") / re.sub(r"[^\w.-]+", "-", f"compare-{world}")


def settings_for(world: str, method: str | None = None, **settings: Any) -> Settings:
    """The given settings, then those of the preset, of the paper or of the world, then the defaults."""
    method_name = method_of({**settings, "method": method})
    return new_settings(**resolve(world, method_name, settings, tuned=tuned(world, method_name)))


def compared_methods(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The methods to compare if none are named: the paper's, or the same of the learner of the preset.

    Raises:
        RunError: if there is no such preset.
    """
    learner = method(method_of({"preset": settings.get("preset")})).learner
    return {"a2c": PAPER_METHODS, "ppo": PPO_METHODS, "dqn": DQN_METHODS}[learner]


def sweep_runs(
    worlds: Sequence[str], methods: Sequence[str], axes: Mapping[str, Sequence[Any]], seeds: Sequence[int]
) -> list[Run]:
    """The runs of a sweep; settings that are not in `axes` are as in `settings_for`.

    An axis `env.NAME` is over an argument of the environments.
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
    """Raises ValueError if a name is not that of a world, as when it is misspelt.

    Worlds from outside this package are not made, as they may exist only where they are trained.
    """
    from asymrl.worlds.registry import make

    for world in worlds:
        if source_of(world) is None:
            make(world)


def keeps_networks(runs: Sequence[Run], wanted: bool | None) -> bool:
    """Whether a new store keeps the networks of its runs."""
    return len(runs) <= NETWORKS_KEPT if wanted is None else wanted


def new_store(runs: Sequence[Run], out: str | PathLike[str] | None, placement: Placement | None = None) -> Store:
    """A store for these runs, whose worlds are known to exist, and which fit where they will be trained."""
    check_possible(runs, placement)
    _check_starts(runs)
    first = runs[0].settings
    return Store.create(Path(out) if out is not None else free_folder(first.world, first.method), runs)


def check_possible(runs: Sequence[Run], placement: Placement | None = None) -> None:
    """Raises ValueError, before anything is written, unless the runs, which the user has asked for, can be trained.

    Their worlds can be made, tell their critics what these want to read, and reach the processes that train them; and
    they fit into memory.
    """
    allow(*(name for run in runs for name in run.settings.code_names))
    for name in {name for run in runs for name in run.settings.user_code}:
        locate_class(name)
    check_trainable(runs, placement)


def _check_starts(runs: Sequence[Run]) -> None:
    """Raises RunError if the networks that runs shall begin with are not there, or do not fit."""
    from asymrl.learning.programs.factory import program
    from asymrl.stores.checkpoints.starting import starting_networks

    for name, shape in {(run.settings.start_from, run.settings.shape()) for run in runs}:
        if name is not None:
            starting_networks(name, program(shape))


def check_trainable(runs: Sequence[Run], placement: Placement | None = None) -> None:
    """Like `check_possible`, for runs that a store says."""
    from asymrl.learning.programs.factory import program
    from asymrl.learning.state import training_world

    shapes = {settings.shape() for settings in {run.settings for run in runs}}
    for shape in shapes:
        training_world(shape)
        if shape.user_code:
            program(shape)  # raises if the user's own modules do not fit
    if placement is not None and (placement.engine != "local" or placement.processes is not None):
        surroundings_of({shape.world for shape in shapes})
    if placement is None or placement.engine == "local":
        check_memory(shapes)


def check_memory(shapes: Collection[Settings]) -> None:
    """Raises ValueError if a run of one of these shapes does not fit into the memory of this machine's devices."""
    import jax

    from asymrl.engine.memory_plan import MemoryPlan, is_large, memory_of

    if not any(map(is_large, shapes)):
        return

    device = jax.local_devices()[0]
    for shape in shapes:
        MemoryPlan(device.platform, memory_of(device), is_shared=True).check(shape)


def check_saved(store: Store, runs: Mapping[int, Run]) -> None:
    """Raises RunError, before anything is written, unless those of these runs that were saved can go on from there.

    Args:
        store: that holds them.
        runs: by number; they may be longer than in the store.
    """
    from asymrl.learning.programs.factory import program
    from asymrl.stores.checkpoints.states import saved_problem

    for held, saved in store.saved(sorted(runs), say=lambda _: None):  # who trains them says what is damaged
        for row, number in enumerate(held):
            if problem := saved_problem(program(runs[number].settings), saved.only([row])):
                raise RunError(
                    f"{store.checkpoints.folder}: the saved state of seed {runs[number].seed} does not fit its "
                    f"settings: {problem}"
                )


def grown_store(folder: Path, runs: Sequence[Run], **how: Any) -> Store:
    """`Store.take_or_create` for runs that are to be trained. Raises RunError, too, if saved ones cannot go on."""
    if not is_store(folder):
        _check_starts(runs)
    else:
        store, runs_by_key = Store.open(folder), {run.key: run for run in runs}
        held = {run.key for run in store.runs}
        _check_starts([run for run in runs if run.key not in held])
        unfinished = set(store.unfinished_or_all())
        there = {number: runs_by_key[run.key] for number, run in enumerate(store.runs) if run.key in runs_by_key}
        longer = {number for number, run in there.items() if run.settings.steps > store.runs[number].settings.steps}
        now = {number: store.runs[number] for number in there.keys() & unfinished}
        check_saved(store, now | {number: store.extended(number, there[number].settings.steps) for number in longer})
    return Store.take_or_create(folder, runs, **how)


def take_store(
    folder: str | PathLike[str],
    steps: int | None = None,
    *,
    trust: bool = False,
    current_code: bool = False,
    placement: Placement | None = None,
) -> Store:
    """The store in a folder, to go on with its runs; `steps` makes them longer.

    `current_code`: with the files of worlds as they are now, not as they were when the runs began.

    A store in which nothing is left to do is only opened, so that its folder stays as it is; it may be read-only.
    Everything is checked before anything is written: a store that cannot go on stays as it was.

    Raises:
        RunError: if there is none, another process trains it, or its runs cannot be made longer.
    """
    opened = Store.open(Path(folder), trust=trust)
    if current_code:
        opened.use_current_files()
    runs, unfinished = opened.runs, set(opened.unfinished_or_all())
    if steps is not None:
        runs = opened.extended_runs(steps)
        unfinished |= {number for number, run in enumerate(runs) if run != opened.runs[number]}
    if not unfinished and not current_code and opened.is_finished():
        return opened
    opened.make_ready(sorted(unfinished))
    unfinished_runs = {number: runs[number] for number in unfinished}
    check_trainable(list(unfinished_runs.values()), placement)
    check_saved(opened, unfinished_runs)
    store = Store.take(Path(folder), trust=trust)
    try:
        if current_code:
            store.use_current_files()
        if steps is not None:
            store.extend(steps)
        store.forget_lost_networks()
    except BaseException:
        store.release()
        raise
    return store


def reproduction_folder(part: Part, *, quick: bool = False) -> Path:
    """Where the runs of a part of the paper are kept: those of figures 3 and 4 together.

    Not in `results`, where the runs that ship with the repository are.
    """
    name = "grid" if part == "grid" else "curves"
    return Path("runs") / f"reproduce-{'quick-' if quick else ''}{name}"


def reproduction_store(
    part: Part, wanted: Extent, out: Path, *, keep_networks: bool | None = None, precision: str = "float32"
) -> tuple[Store, list[int]]:
    """The store for a part of the paper, which may hold other runs too; and the numbers of those that are wanted.

    Runs that are there but shorter are made longer: they go on from where they ended.
    """
    from asymrl.paper.parts import probes_of, runs_of

    runs = [run._replace(settings=replace(run.settings, precision=precision)) for run in runs_of(part, wanted)]
    worlds = {run.settings.world for run in runs}
    probes = {world: probe.to_json() for world, probe in probes_of(part, wanted).items() if world in worlds}
    return store_with(out, runs, keep_networks=keep_networks, probes=probes)


def store_with(
    out: Path, runs: Sequence[Run], *, keep_networks: bool | None, probes: Mapping[str, Any] | None = None
) -> tuple[Store, list[int]]:
    """The store in a folder, taken, which holds these runs and maybe others; and the numbers of these runs."""
    store = grown_store(out, runs, keeps_networks=keeps_networks(runs, keep_networks), probes=probes)
    keys = {run.key for run in runs}
    return store, [number for number, run in enumerate(store.runs) if run.key in keys]


def world_names(worlds: Sequence[Any], env_kwargs: Mapping[str, Any] | None) -> tuple[list[str], dict[str, Any]]:
    """The names of worlds, some of which may be objects, and the settings that these bring along.

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
        if source_of(name) is None and len(worlds) > 1:  # those of other worlds are known by their name
            raise ValueError(f"{name} is a world of asymrl: among several, give its name instead of an object")
        names.append(name)
        brought = own
    return names, brought


def _as_world(env: Any, env_kwargs: Mapping[str, Any] | None) -> World:
    """A world of an object that the user made."""
    from asymrl.worlds.world import World

    if isinstance(env, World):
        if env_kwargs:
            raise ValueError(f"{env.name} is already made; make it with these arguments: {', '.join(env_kwargs)}")
        return env
    import gymnasium

    if isinstance(env, gymnasium.Env) or callable(env):
        from asymrl.adapters.gym.gymnasium_world import from_gymnasium

        environment: Any = env
        return from_gymnasium(environment, env_kwargs=env_kwargs)
    raise TypeError(
        f"{env!r} is not a world; give a name such as 'heaven-hell-3', a World, a Gymnasium environment, or Settings"
    )


def known_by_name(world: World) -> tuple[str, dict[str, Any]]:
    """Registers a world under its own name; the name, and the world's time limit and discount as settings."""
    import equinox as eqx

    from asymrl.adapters.sources import register_object
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
