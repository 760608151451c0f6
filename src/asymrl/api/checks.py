"""What is checked before a folder of runs is made or changed: a command that fails changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from asymrl.envs.surroundings import surroundings_of
from asymrl.envs.user_code import locate_class
from asymrl.runs.files import RunError
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.settings import Settings
from asymrl.worlds.allowed_code import allow

if TYPE_CHECKING:
    from asymrl.runs.placement import Placement


def check_possible(runs: Sequence[Run], placement: Placement | None = None) -> None:
    """Raises ValueError, before anything is written, unless the runs that the user has asked for can be trained.

    Their worlds must exist, provide what the critics read, and be available to the processes that train them; and the
    runs must fit into memory.
    """
    allow(*(name for run in runs for name in run.settings.code_names))
    for name in {name for run in runs for name in run.settings.user_code}:
        locate_class(name)
    check_trainable(runs, placement)


def check_trainable(runs: Sequence[Run], placement: Placement | None = None) -> None:
    """Like `check_possible`, for the runs of a store."""
    from asymrl.learners.factory import program
    from asymrl.learners.state import training_world

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

    from asymrl.runs.devices import MemoryBudget
    from asymrl.settings import DQNSettings

    if not any(isinstance(shape, DQNSettings) for shape in shapes):
        return
    memory = MemoryBudget.of(jax.local_devices()[0])
    for shape in shapes:
        memory.check(shape)


def check_saved(store: Store, runs: Mapping[int, Run]) -> None:
    """Raises RunError, before anything is written, unless these runs can go on from their saved states, if any.

    Args:
        store: that holds them.
        runs: by number; they may be longer than in the store.
    """
    from asymrl.learners.factory import program
    from asymrl.runs.states import saved_problem

    for held, saved in store.saved(sorted(runs), say=lambda _: None):  # training them reports what is damaged
        for row, number in enumerate(held):
            if problem := saved_problem(program(runs[number].settings), saved.only([row])):
                raise RunError(
                    f"{store.checkpoints.folder}: the saved state of seed {runs[number].seed} does not fit its "
                    f"settings: {problem}"
                )


def check_starts(runs: Sequence[Run]) -> None:
    """Raises RunError if the networks that runs start from are missing, or do not fit."""
    from asymrl.learners.factory import program
    from asymrl.runs.starting import starting_networks

    for name, shape in {(run.settings.start_from, run.settings.shape()) for run in runs}:
        if name is not None:
            starting_networks(name, program(shape))
