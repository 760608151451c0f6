"""Networks of trained runs for new ones to begin with: the setting `start_from`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from asymrl.learning.programs.program import Program
from asymrl.settings.run_settings import ZOO
from asymrl.stores.checkpoints.rounded_networks import restored
from asymrl.stores.checkpoints.states import array_shapes
from asymrl.stores.description import AGENTS
from asymrl.stores.files import RunError
from asymrl.stores.store import Store
from asymrl.stores.wording import listed

NEEDED, WELCOME = ("actor.", "statistics."), ("critic.",)  # arrays that must fit, and those that may begin anew

# What a learner has a second time, as the target of its estimates.
COPIES = {
    "a2c": {"target.": "critic."},
    "dqn": {"target.history.": "actor.", "target.privileged.": "critic."},
}


class StartingNetworks(NamedTuple):
    """Networks that a run begins with."""

    arrays: dict[str, np.ndarray]
    """By their names in the state of a run."""
    new: tuple[str, ...]
    """Arrays of the critic that are not among them, since those of the trained run have other shapes."""


def starting_networks(name: str, program: Program) -> StartingNetworks:
    """The networks of a trained run, as far as they fit runs of a program.

    Args:
        name: the folder of some runs, of which that with the best recent return counts; or `zoo:NAME`, an agent that
            ships with asymrl.
        program: of the runs that begin with them.

    Raises:
        RunError: if there are no networks, or they cannot act in the world of the program.
    """
    expected, found = array_shapes(program), _networks(name)
    arrays: dict[str, np.ndarray] = {}
    new = []
    for array, leaf in expected.items():
        if not array.startswith((*NEEDED, *WELCOME)):
            continue
        there = found.get(array)
        if there is not None and there.shape == leaf.shape and there.dtype == leaf.dtype:
            arrays[array] = there
        elif array.startswith(WELCOME):
            new.append(array)
        else:
            shape = "missing there" if there is None else f"{list(there.shape)} there"
            raise RunError(
                f"start_from {name}: its actor does not fit: {array} is {shape}, {list(leaf.shape)} here; choose runs "
                "of a world with the same actions and observations, and the same memory and hidden layers"
            )
    for copy, original in COPIES.get(program.settings.how.learner, {}).items():
        for array in expected:
            if array.startswith(copy) and (value := arrays.get(original + array.removeprefix(copy))) is not None:
                arrays[array] = value
    return StartingNetworks(arrays, tuple(new))


def _networks(name: str) -> dict[str, np.ndarray]:
    """All arrays of the best run, each without the axis of runs."""
    if name.startswith(ZOO):
        there = sorted(folder.name for folder in AGENTS.iterdir() if folder.is_dir())
        if (agent := name.removeprefix(ZOO)) not in there:
            raise RunError(f"start_from {name}: there is no such agent; there are {listed(there)}")
        folder = AGENTS / agent
    else:
        folder = Path(name)
    store = Store.open(folder)
    worlds = sorted({run.settings.world for run in store.runs})
    if len(worlds) > 1:
        raise RunError(f"start_from {name}: it has runs in {listed(worlds)}, whose returns cannot be compared")
    results = store.results()
    numbers = sorted(results, key=lambda number: -np.nan_to_num(results[number].recent_return, nan=-np.inf))
    for number in numbers:
        for _, saved in store.saved([number], say=lambda text: None):
            return {array: value[0] for array, value in restored(saved.states()).items()}
    raise RunError(f"start_from {name}: the networks of its runs were not kept, or there is no checkpoint yet")
