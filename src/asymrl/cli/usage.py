"""Errors of the user, and what several commands ask the user for."""

from __future__ import annotations

import importlib.util
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asymrl.agents.trained import TrainedRun, TrainedRuns
    from asymrl.worlds import World


class UsageError(ValueError):
    """The command line asks for something that cannot be. Printed as one line, without a traceback."""


def world_named(name: str) -> World:
    """The world that the user asked for."""
    from asymrl.worlds import make

    try:
        return make(name)
    except ValueError as error:
        raise UsageError(str(error)) from error


def read_toml(path: Path) -> dict[str, Any]:
    """What the user's --config file says."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"--config {path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--config {path}: not TOML: {error}") from error


def is_run(path: str) -> bool:
    """Whether this is a folder with runs."""
    return (Path(path) / "settings.json").is_file()


def choices(where: Sequence[str]) -> dict[str, str]:
    """What `--where NAME=VALUE ...` asks for."""
    parts = [text.partition("=") for text in where]
    for name, equals, value in parts:
        if not name or not equals or not value:
            raise UsageError(f"--where {name}{equals}{value}: write NAME=VALUE, such as method=a2c-asym-hs")
    return {name.replace("-", "_"): value for name, _, value in parts}


def load_runs(folder: str | Path, where: Sequence[str] = ()) -> list[TrainedRuns]:
    """The trained runs that the user asked for, grouped by shape."""
    check_is_run(folder)
    from asymrl.api import Runs

    try:
        return Runs(folder).load(choices(where))
    except ValueError as error:
        raise UsageError(f"{folder}: {error}" if str(folder) not in str(error) else str(error)) from error


def select_run(folder: str | Path, run_seed: int | None, where: Sequence[str] = ()) -> TrainedRun:
    """The trained run with this seed and these settings, or the best of them."""
    check_is_run(folder)
    from asymrl.api import Runs

    try:
        return Runs(folder).best(choices(where), run_seed)
    except ValueError as error:
        raise UsageError(f"{folder}: {error}" if str(folder) not in str(error) else str(error)) from error


def check_is_run(folder: str | Path) -> None:
    """Complains if there are no runs in a folder."""
    if not is_run(str(folder)):
        what = "there is no such folder" if not Path(folder).is_dir() else "it holds no settings.json"
        raise UsageError(f"{folder}: no runs here, {what}; `asymrl train` makes some")


def check_writable(path: Path, endings: Sequence[str], otherwise: str = "") -> None:
    """Complains, before any work is done, if this file cannot be written or has another ending."""
    if path.suffix.lower() not in endings:
        raise UsageError(f"{path}: unknown file ending {path.suffix!r}; use {' or '.join(endings)}{otherwise}")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {str(path.parent)!r}; create it first")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path}: cannot be written; choose another place with -o")


def require_packages(names: Sequence[str], extra: str, purpose: str) -> None:
    """Complains, before any work is done, if a package of this extra is missing."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise UsageError(f'{purpose} needs the package {name}: pip install "asymrl[{extra}]"')
