"""The search space: settings, and the values of each to try."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from asymrl.runs.files import RunError
from asymrl.runs.options import checked_values
from asymrl.settings import check_learner
from asymrl.settings.methods import method as method_named


class SearchAxis(NamedTuple):
    """The values of a setting to try: a range of numbers, or a list."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    """Whether the range is searched on a logarithmic scale."""
    choices: tuple[Any, ...] = ()

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values to check: if they are valid, so are all others."""
        return self.choices or (self.low, self.high)

    def to_json(self) -> dict[str, Any]:
        if self.choices:
            return {"choices": [list(each) if isinstance(each, tuple) else each for each in self.choices]}
        return {"low": self.low, "high": self.high, "log": self.log}


Space = dict[str, SearchAxis]

# Trials that differ in numbers only share one program; each listed rollout needs a program of its own.
DEFAULTS: dict[str, tuple[Space, dict[str, Any]]] = {
    "a2c": (
        {
            "actor_rate": SearchAxis(1e-4, 3e-3, log=True),
            "critic_rate": SearchAxis(1e-4, 1e-2, log=True),
            "entropy_weight": SearchAxis(1e-3, 1.0, log=True),
            "td_lambda": SearchAxis(0.5, 1.0),
            "target_period": SearchAxis(300, 20_000, log=True),
            "discount": SearchAxis(choices=(0.95, 0.98, 0.99, 0.995)),
        },
        {"estimator": "td-lambda"},
    ),
    "ppo": (
        {
            "learning_rate": SearchAxis(1e-4, 3e-3, log=True),
            "entropy_weight": SearchAxis(1e-4, 0.1, log=True),
            "gae_lambda": SearchAxis(0.8, 1.0),
            "clip_ratio": SearchAxis(0.1, 0.3),
            "discount": SearchAxis(choices=(0.95, 0.98, 0.99, 0.995)),
            "rollout": SearchAxis(choices=(32, 128)),
        },
        {},
    ),
    "dqn": (
        {
            "learning_rate": SearchAxis(3e-5, 3e-3, log=True),
            "target_period": SearchAxis(300, 20_000, log=True),
            "exploration_end": SearchAxis(0.01, 0.2, log=True),
            "train_ratio": SearchAxis(choices=(2.0, 4.0, 8.0)),
            "discount": SearchAxis(choices=(0.95, 0.98, 0.99, 0.995)),
        },
        {},
    ),
}


def default_space(method: str, given: Mapping[str, Any] | None = None) -> tuple[Space, dict[str, Any]]:
    """The default search space of a method, and the settings that it needs.

    Settings that are `given` are not searched. Raises ValueError if there is no such method.
    """
    space, needed = DEFAULTS[method_named(method).learner]
    given = given or {}
    if given.get("estimator", "td-lambda") != "td-lambda":
        space, needed = {name: axis for name, axis in space.items() if name != "td_lambda"}, {}
    return {name: axis for name, axis in space.items() if name not in given}, needed


def read_space(path: Path, method: str) -> Space:
    """The search space in a TOML file: a table for each setting, with low and high (and log = true), or choices.

    Raises:
        RunError: if it cannot be read, or something in it is invalid.
    """
    try:
        data = tomllib.loads(path.read_text())
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RunError(f"{path}: not TOML: {error}") from error
    return checked_space(data, method, str(path))


def checked_space(data: Mapping[str, Any], method: str, where: str = "space") -> Space:
    """The axes that these data describe, checked. Raises RunError, naming `where` and the setting."""
    if not data:
        raise RunError(f"{where}: names no setting to search")
    return {name: _axis(name, value, method, f"{where}: {name}") for name, value in data.items()}


def _axis(name: str, value: Any, method: str, where: str) -> SearchAxis:
    if name in ("world", "method", "preset", "start_from", "steps"):
        raise RunError(f"{where} is not searched; give it to the command")
    if isinstance(value, SearchAxis):
        value = value.to_json()
    if isinstance(value, list | tuple):
        value = {"choices": list(value)}
    if not isinstance(value, Mapping) or not (set(value) == {"choices"} or {"low", "high"} <= set(value)):
        raise RunError(f"{where}: write low and high, or choices")
    if unknown := sorted(set(value) - {"low", "high", "log", "choices"}):
        raise RunError(f"{where}: unknown {unknown[0]!r}; there are low, high, log, choices")
    axis = _listed(value["choices"], where) if "choices" in value else _range(value, where)
    for end in axis.ends:
        checked_values({name: list(end) if isinstance(end, tuple) else end}, where.partition(": ")[0], method)
    try:
        check_learner(method, [name])
    except ValueError as error:
        raise RunError(f"{where}: {error}") from None
    return axis


def _listed(values: Any, where: str) -> SearchAxis:
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise RunError(f"{where}: choices must be a list with at least one value")
    return SearchAxis(choices=tuple(tuple(each) if isinstance(each, list) else each for each in values))


def _range(value: Mapping[str, Any], where: str) -> SearchAxis:
    low, high, log = value["low"], value["high"], value.get("log", False)
    for number in (low, high):
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise RunError(f"{where}: {number!r} is not a number")
    if not low < high:
        raise RunError(f"{where}: low is {low} and high is {high}; low must be less")
    if not isinstance(log, bool) or (log and low <= 0):
        raise RunError(f"{where}: log must be true or false, and with it low must be positive")
    return SearchAxis(low, high, log)
