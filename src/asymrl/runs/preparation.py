"""What a training begins with: the runs that can be trained, their newest states, and first messages to the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from asymrl.learners.program import program
from asymrl.learners.state import training_world
from asymrl.runs.files import RunError
from asymrl.runs.lanes import Assignment
from asymrl.runs.starting import starting_networks
from asymrl.runs.tables import RunResult
from asymrl.runs.training_record import TrainingRecord
from asymrl.runs.wording import listed
from asymrl.settings import Settings
from asymrl.worlds.stepped_world import UserCodeError

if TYPE_CHECKING:
    import numpy as np

    from asymrl.runs.arrays import DeviceLayout
    from asymrl.runs.devices import MemoryBudget


def possible_runs(record: TrainingRecord, numbers: Sequence[int], memory: MemoryBudget | None) -> list[int]:
    """The runs whose worlds and signals exist and that fit into memory; the others are recorded as broken."""
    reasons: dict[Settings, str | None] = {}
    possible = []
    for number in numbers:
        shape = record.store.runs[number].settings.shape()
        if shape not in reasons:
            try:
                training_world(shape)
                if memory is not None:
                    memory.check(shape)
                reasons[shape] = None
            except ValueError as error:
                reasons[shape] = error.report if isinstance(error, UserCodeError) else str(error)
        if (reason := reasons[shape]) is None:
            possible.append(number)
        else:
            record.break_runs([number], reason)
    return possible


def assignments_of(record: TrainingRecord, numbers: Sequence[int]) -> list[Assignment]:
    """The runs, each with its newest state if there is one."""
    assignments = {
        number: Assignment(number, run, None, record.probes.get(run.settings.world))
        for number in numbers
        for run in [record.store.runs[number]]
    }
    layouts = []
    for held, saved in record.store.saved(numbers, record.callback.say):
        layouts.append(saved.layout)
        for row, number in enumerate(held):
            one = saved.only([row])
            assignments[number] = assignments[number]._replace(saved=one)
            record.steps_before[number] = int(one.arrays["timesteps"][0])
            points = int(min(one.arrays["logged"][0], one.arrays["curve"].shape[1]))
            record.points_reported[number] = points
    for number in numbers:
        if number not in record.steps_before:
            record.points_reported[number] = 0
    _say_what_differs(record, layouts)
    new = [number for number in numbers if number not in record.steps_before]
    _begin_again(record, new)
    for number, networks in _networks_to_begin_with(record, new).items():
        assignments[number] = assignments[number]._replace(networks=networks)
    return [each for number, each in assignments.items() if number not in record.broken]


def _networks_to_begin_with(record: TrainingRecord, numbers: Sequence[int]) -> dict[int, dict[str, np.ndarray]]:
    """Networks for the new runs that start from trained ones; runs that cannot are recorded as broken."""
    groups: dict[tuple[str, Settings], list[int]] = {}
    for number in numbers:
        settings = record.store.runs[number].settings
        if settings.start_from is not None:
            groups.setdefault((settings.start_from, settings.shape()), []).append(number)
    found = {}
    for (name, shape), members in groups.items():
        try:
            networks = starting_networks(name, program(shape))
        except RunError as error:
            record.break_runs(members, str(error))
            continue
        found |= dict.fromkeys(members, networks.arrays)
        said = f"{record.labels(members)} begin{'s' * (len(members) == 1)} with the networks of {networks.described}"
        record.callback.say(said + (f", except {listed(networks.new)}" if networks.new else ""))
    return found


def _say_what_differs(record: TrainingRecord, layouts: Sequence[DeviceLayout | None]) -> None:
    """Says once that runs continue on other devices than they were trained on so far."""
    now = record.store.checkpoints.layout
    others = [layout for layout in layouts if layout is not None and now is not None and layout != now]
    if others and now is not None:
        record.callback.say(
            f"trained on {others[0].described} so far, now on {now.described}: the results are identical up to "
            "rounding at first, then diverge from those of an uninterrupted training"
        )


def _begin_again(record: TrainingRecord, numbers: Sequence[int]) -> None:
    """Drops the results of runs whose states are gone, and says so."""
    lost = [number for number in numbers if record.results.get(number, RunResult()).timesteps]
    lost += [number for number in record.store.lost if number in numbers]
    for number in lost:
        record.results.pop(number, None)
    if lost:
        where = record.store.checkpoints.folder
        begin, them = ("begins", "it") if len(lost) == 1 else ("begin", "them")
        record.callback.say(f"{record.labels(lost)} {begin} again: {where} has no state of {them}")
