"""Writing `.pomdp` files. Reading one back gives the same problem, bit for bit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from asymrl.envs.pomdp_files.problem import Problem, problem_from_pomdp, problem_from_world
from asymrl.envs.pomdp_files.tokens import NAME
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.pomdp import Pomdp

_LEGAL = re.compile(NAME)


def write_pomdp(
    problem: Problem | Pomdp | FiniteWorld, path: str | os.PathLike[str], *, first_observation: str = "refuse"
) -> None:
    """Writes a finite POMDP as a `.pomdp` file.

    Args:
        problem: what `read_pomdp` returns, a finite world, or a `Pomdp`.
        path: the file.
        first_observation: the format cannot express an observation before the first action. "refuse" raises an
            error for a world that has one; "drop" leaves it out.

    Raises:
        ValueError: if the format cannot express the problem.
    """
    Path(path).write_text(to_text(problem, first_observation=first_observation))


def to_text(problem: Problem | Pomdp | FiniteWorld, *, first_observation: str = "refuse") -> str:
    """The text of the file; see `write_pomdp`."""
    if first_observation not in ("refuse", "drop"):
        raise ValueError(f"first_observation is {first_observation!r}, expected 'refuse' or 'drop'")
    if not isinstance(problem, Problem):
        early = problem.first_observations if isinstance(problem, FiniteWorld) else problem.first_observation
        if early is not None and first_observation == "refuse":
            raise ValueError(
                f"{problem.name}: has an observation before the first action, which a .pomdp file cannot express; "
                'leave it out with first_observation="drop"'
            )
        is_world = isinstance(problem, FiniteWorld)
        problem = problem_from_world(problem) if is_world else problem_from_pomdp(problem)
    return "\n".join(_lines(problem)) + "\n"


def _lines(problem: Problem) -> Iterator[str]:
    yield f"discount: {problem.discount!r}"
    yield f"values: {'cost' if problem.cost else 'reward'}"
    for kind in ("state", "action", "observation"):
        yield f"{kind}s: {_names(problem, kind)}"
    yield ""
    yield _start(problem.start, problem.state_names)
    yield ""
    yield from _transition_lines(problem)
    yield ""
    yield from _observation_lines(problem)
    yield ""
    yield from _reward_lines(problem)


def _names(problem: Problem, kind: str) -> str:
    names: Sequence[str] = getattr(problem, f"{kind}_names")
    if all(name == str(i) for i, name in enumerate(names)):
        return str(len(names))
    for name in names:
        if not _LEGAL.fullmatch(name):
            raise ValueError(
                f"{problem.name}: {kind} {name!r} cannot be written: names are letters, digits, - and _, "
                "and begin with a letter or _"
            )
    return " ".join(names)


def _start(start: np.ndarray, states: Sequence[str]) -> str:
    support = np.flatnonzero(start)
    if np.array_equal(start, np.full(start.size, 1 / start.size)):
        return "start: uniform"
    if np.all(start[support] == 1 / support.size):
        return "start include: " + " ".join(states[i] for i in support.tolist())
    return "start: " + " ".join(_number(p) for p in start)


def _transition_lines(problem: Problem) -> Iterator[str]:
    states, actions, A = problem.state_names, problem.action_names, len(problem.action_names)
    row, column, probability = problem.T.entries()
    ended = problem.ends.ravel()
    continues = ~ended[row]
    for r, s_next, p in zip(
        row[continues].tolist(), column[continues].tolist(), probability[continues].tolist(), strict=True
    ):
        yield f"T: {actions[r % A]} : {states[r // A]} : {states[s_next]} {p!r}"
    for r in np.flatnonzero(ended).tolist():
        yield f"T: {actions[r % A]} : {states[r // A]} reset"


def _observation_lines(problem: Problem) -> Iterator[str]:
    states, actions, observations = problem.state_names, problem.action_names, problem.observation_names
    S, A = len(states), len(actions)
    row, column, probability = problem.O.entries()
    if not problem.previous:
        for r, o, p in zip(row.tolist(), column.tolist(), probability.tolist(), strict=True):
            yield f"O: {actions[r // S]} : {states[r % S]} : {observations[o]} {p!r}"
        return
    pair, s_next, _ = problem.T.entries()
    for i, o, p in zip(row.tolist(), column.tolist(), probability.tolist(), strict=True):
        s, a = divmod(int(pair[i]), A)
        yield f"OO: {actions[a]} : {states[s]} : {states[int(s_next[i])]} : {observations[o]} {p!r}"


def _reward_lines(problem: Problem) -> Iterator[str]:
    states, actions, observations = problem.state_names, problem.action_names, problem.observation_names
    A = len(actions)
    sign = -1.0 if problem.cost else 1.0
    if problem.rewards.ndim == 2:
        for s, a in np.argwhere(problem.rewards != 0).tolist():
            yield f"R: {actions[a]} : {states[s]} : * : * {_number(sign * problem.rewards[s, a])}"
        return
    outcomes = problem.joint()
    places = zip(outcomes.row.tolist(), outcomes.next_state.tolist(), outcomes.observation.tolist(), strict=True)
    for (row, s_next, o), reward in zip(places, problem.rewards.tolist(), strict=True):
        if reward:
            place = f"{actions[row % A]} : {states[row // A]} : {states[s_next]} : {observations[o]}"
            yield f"R: {place} {_number(sign * reward)}"


def _number(value: float) -> str:
    """The shortest decimal number that reads back as the same float."""
    return repr(float(value))
