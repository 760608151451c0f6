"""Networks of trained runs for new ones to begin with: the setting `start_from`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asymrl.learners.program import Program
from asymrl.runs.description import AGENTS, shipped_agents
from asymrl.runs.files import RunError
from asymrl.runs.runs import Run
from asymrl.runs.states import array_shapes
from asymrl.runs.store import Store
from asymrl.runs.wording import listed, thousands
from asymrl.settings import Settings
from asymrl.settings.run_settings import ZOO

ACTOR, CRITIC = "actor.", "critic."
OF_ACTOR, OF_CRITIC = "statistics.observations.", "statistics.signal."  # which normalise their inputs

# Second copies of networks, which a learner uses as targets.
COPIES = {
    "a2c": {"target.": CRITIC},
    "dqn": {"target.history.": ACTOR, "target.privileged.": CRITIC},
}


class TrainedNetworks(NamedTuple):
    """The best run of a folder."""

    run: Run
    arrays: dict[str, np.ndarray]
    """Everything in it, by name."""
    described: str
    """Which run it is, in words."""


class StartingNetworks(NamedTuple):
    """Networks that a run begins with."""

    arrays: dict[str, np.ndarray]
    """By their names in the state of a run."""
    new: tuple[str, ...]
    """Arrays of the critic that are not among them: missing in the trained run, or of another shape there."""
    described: str
    """Which run they come from, in words."""


def starting_networks(name: str, program: Program) -> StartingNetworks:
    """The networks of a trained run for runs of a program: its whole actor, and the parts of its critic that fit.

    Args:
        name: a folder of runs, whose best run by recent return is used; or `zoo:NAME`, an agent that ships with asymrl.
        program: of the runs that begin with these networks.

    Raises:
        RunError: if there are no networks, or they cannot act in the world of the program.
    """
    expected, found = array_shapes(program), trained_networks(name)
    _check_policy(name, found.run.settings, program.settings)
    odd = [array for array in found.arrays if array.startswith(ACTOR) and array not in expected]
    fits = {
        array: value
        for array, value in found.arrays.items()
        if array in expected and value.shape == expected[array].shape and value.dtype == expected[array].dtype
    }
    odd += [array for array in expected if array.startswith((ACTOR, OF_ACTOR)) and array not in fits]
    if odd:
        shapes = [_shape(arrays.get(odd[0])) for arrays in (found.arrays, expected)]
        raise RunError(
            f"start_from {name}: its actor does not fit: {odd[0]} is {shapes[0]} there, {shapes[1]} here; choose runs "
            "of a world with the same actions and observations, and the same memory and hidden layers"
        )
    new = tuple(array for array in expected if array.startswith(CRITIC) and array not in fits)
    kept = (ACTOR, OF_ACTOR, CRITIC) if new else (ACTOR, OF_ACTOR, CRITIC, OF_CRITIC)
    arrays = {array: value for array, value in fits.items() if array.startswith(kept)}
    for copy, original in COPIES.get(program.settings.how.learner, {}).items():
        for array in expected:
            if array.startswith(copy) and (value := arrays.get(original + array.removeprefix(copy))) is not None:
                arrays[array] = value
    return StartingNetworks(arrays, new, found.described)


def trained_networks(name: str) -> TrainedNetworks:
    """The run with the best recent return in a folder, or a shipped agent. Raises RunError if there is none."""
    folder = Path(name)
    if name.startswith(ZOO):
        if (agent := name.removeprefix(ZOO)) not in (there := shipped_agents()):
            raise RunError(f"start_from {name}: there is no such agent; there are {listed(there)}")
        folder = AGENTS / agent
    try:
        store = Store.open(folder)
        results = store.results()
    except (OSError, ValueError) as error:
        raise RunError(f"start_from {name}: {str(error).removeprefix(f'{folder}: ')}") from error
    worlds = sorted({run.settings.world for run in store.runs})
    if len(worlds) > 1:
        raise RunError(f"start_from {name}: it has runs in {listed(worlds)}, whose returns cannot be compared")
    returns = {number: result.recent_return for number, result in results.items() if np.isfinite(result.recent_return)}
    if not returns:
        raise RunError(f"start_from {name}: no episode of its runs is over; train them first")
    best = max(returns, key=lambda number: (returns[number], -number))
    run, steps = store.runs[best], thousands(results[best].timesteps)
    described = f"seed {run.seed} of {name}, {run.settings.method} with return {returns[best]:.3g} after {steps} steps"
    try:
        for _, saved in store.saved([best], say=lambda text: None):
            arrays = {array: value[0] for array, value in saved.states().items()}
            return TrainedNetworks(run, arrays, described)
    except ValueError as error:
        problem = str(error).partition(". There is no other")[0]
        raise RunError(f"start_from {name}: {problem}; restore that file, or choose other runs") from error
    raise RunError(
        f"start_from {name}: the networks of its best run, seed {run.seed}, are not there; choose other runs"
    )


def _check_policy(name: str, there: Settings, here: Settings) -> None:
    """Raises RunError if arrays of the same shapes would be another policy."""
    for setting, value in _policy(there).items():
        if value != (own := _policy(here)[setting]):
            raise RunError(f"start_from {name}: {setting} is {value} there, {own} here; both must be the same")


def _policy(settings: Settings) -> dict[str, Any]:
    """What decides how an actor acts, besides its arrays."""
    architecture = settings.architecture
    return {
        "what the actor computes": "values of actions" if settings.how.learner == "dqn" else "a policy",
        "memory": architecture.actor_memory or architecture.memory,
        "memory_size": architecture.memory_size,
        "window": architecture.window,
        "actor_sees": settings.actor_sees,
        "observation_features": settings.observation_features,
        "normalise_observations": settings.normalise_observations,
    }


def _shape(array: Any) -> str:
    return "missing" if array is None else str(list(array.shape))
