"""What several commands share: errors of the user, options, and the worlds and runs that the user names."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from asymrl.settings.run_settings import ZOO

if TYPE_CHECKING:
    from asymrl.api import Runs
    from asymrl.runs.store import Store
    from asymrl.runs.trained import TrainedRun, TrainedRuns
    from asymrl.worlds import World

WorldName = Annotated[
    tyro.conf.Positional[str],
    tyro.conf.arg(
        metavar="WORLD",
        help="Name of the world, such as heaven-hell-3 or cleaner:maze_seed=7 (see asymrl envs); a .pomdp file; a "
        "Gymnasium id; gymnax:NAME; MODULE:CLASS or FILE.py:CLASS of your own.",
    ),
]
EnvArgs = Annotated[
    Path | None,
    tyro.conf.arg(
        metavar="FILE",
        help="A TOML file with arguments of the environment's constructor, such as length = 9. They can also "
        "follow the name: tmaze.py:TMaze:length=9,noise=0.1.",
    ),
]
RunFolder = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER", help="Folder of the runs.")]
AgentFolder = Annotated[
    tyro.conf.Positional[Path],
    tyro.conf.arg(metavar="FOLDER", help="Folder of the runs, or zoo:NAME for an agent that ships with asymrl."),
]
Where = Annotated[
    tuple[str, ...],
    tyro.conf.arg(
        metavar="NAME=VALUE", help="Select runs of the folder by their settings, such as method=a2c-asym-hs."
    ),
]
RunSeed = Annotated[
    int | None,
    tyro.conf.arg(
        metavar="K",
        help="Seed of the run; by default the run with the best return of its last 100 episodes.",
        help_behavior_hint="(default: the best)",
    ),
]
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
Quiet = Annotated[Flag, tyro.conf.arg(help="Print errors only.")]
Trust = Annotated[
    Flag,
    tyro.conf.arg(help="Run the code that the settings of these runs name."),
]
AsJson = Annotated[Flag, tyro.conf.arg(help="Print JSON on stdout for other programs instead of text.")]

JsonAtEnd = Annotated[
    Flag,
    tyro.conf.arg(help="Print one JSON object at the end for other programs; everything else goes to stderr."),
]


class UsageError(ValueError):
    """The command line asks for something that is not possible. Printed as one line, without a traceback."""


@contextlib.contextmanager
def user_errors(place: str | Path | None = None) -> Iterator[None]:
    """Turns errors that the user can fix into `UsageError`. `place`: named in front, unless the error does."""
    from asymrl.runs.files import StorageError

    try:
        yield
    except UsageError:
        raise
    except (ValueError, StorageError) as error:
        said = str(error)
        raise UsageError(said if place is None or str(place) in said else f"{place}: {said}") from error


def full_world(name: str, env_args: Path | None) -> str:
    """The name of the world that the user asked for, with the arguments in a file."""
    from asymrl.worlds.registry import full_name

    arguments = {} if env_args is None else read_toml(env_args, "--env-args")
    with user_errors():
        return full_name(name, arguments)


def world_named(name: str) -> World:
    """The world that the user asked for."""
    from asymrl.worlds import make

    with user_errors():
        return make(name)


def read_toml(path: Path, option: str = "--config") -> dict[str, Any]:
    """The contents of the user's file that was given with this option."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{option} {path}: not TOML: {error}") from error


def run_folder(name: str | Path) -> Path:
    """The folder that the user named, where `zoo:NAME` means an agent that ships with asymrl."""
    if not str(name).startswith(ZOO):
        return Path(name)
    from asymrl.zoo import load

    with user_errors():
        return load(str(name).removeprefix(ZOO)).folder


def holds_runs(path: str | Path) -> bool:
    """Whether this is a folder with runs, or a shipped agent."""
    return (run_folder(path) / "settings.json").is_file()


def open_runs(folder: str | Path, *, trust: bool = False) -> Runs:
    """The runs in the folder that the user named."""
    from asymrl.api import Runs

    return Runs.of(open_store(folder, trust=trust))


def open_store(folder: str | Path, *, trust: bool = False) -> Store:
    """The store in the folder that the user named."""
    from asymrl.runs.description import shipped_agents
    from asymrl.runs.store import Store

    if not holds_runs(folder):
        missing = "it is a file, not a folder" if Path(folder).is_file() else "there is no such folder"
        what = "it holds no settings.json" if Path(folder).is_dir() else missing
        inside = sorted(str(file.parent) for file in Path(folder).glob("*/settings.json"))
        remedy = f"choose {' or '.join(inside[:5])}" if inside else "`asymrl train` makes some"
        if str(folder) in shipped_agents():
            remedy += f", and {ZOO}{folder} is an agent that ships with asymrl"
        raise UsageError(f"{folder}: no runs here, {what}; {remedy}")
    with user_errors(folder):
        return Store.open(run_folder(folder), trust=trust)


def load_runs(
    folder: str | Path, where: Sequence[str] = (), run_seed: int | None = None, *, trust: bool = False
) -> list[TrainedRuns]:
    """The trained runs that the user asked for, grouped by shape."""
    runs = open_runs(folder, trust=trust)
    with user_errors(folder):
        return runs.load(_settings_of(where), run_seed)


def select_run(
    folder: str | Path, run_seed: int | None, where: Sequence[str] = (), *, trust: bool = False
) -> TrainedRun:
    """The trained run with this seed and these settings, or the best of them; prints which, where there are several."""
    from asymrl.runs.trained import choose_runs

    runs, asked = open_runs(folder, trust=trust), _settings_of(where)
    with user_errors(folder):
        best, others = runs.best(asked, run_seed), len(choose_runs(runs.runs, asked, run_seed))
    if others > 1:
        print(
            f"{folder}: {best.settings.method}, seed {best.seed}, has the best recent return of {others} runs, "
            f"{best.recent_return_text}; choose others with --where NAME=VALUE and --run-seed K"
        )
    return best


def _settings_of(where: Sequence[str]) -> dict[str, str]:
    """The settings that `--where NAME=VALUE ...` asks for."""
    parts = [text.partition("=") for text in where]
    for name, equals, value in parts:
        if not name or not equals or not value:
            raise UsageError(f"--where {name}{equals}{value}: write NAME=VALUE, such as method=a2c-asym-hs")
    return {name.replace("-", "_"): value for name, _, value in parts}


def check_writable(path: Path, endings: Sequence[str], otherwise: str = "") -> None:
    """Refuses, before any work is done, a file that cannot be written or has another ending."""
    if path.suffix.lower() not in endings:
        raise UsageError(f"{path}: unknown file ending {path.suffix!r}; use {' or '.join(endings)}{otherwise}")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {str(path.parent)!r}; create it first")
    if path.is_dir() or (path.exists() and not os.access(path, os.W_OK)) or not _holds_files(path.parent):
        raise UsageError(f"{path}: cannot be written; choose another place with -o")


def check_folder(path: Path, for_file: Path | None = None) -> Path:
    """Refuses, before any work is done, a folder that cannot be made or written into. Returns it; makes nothing.

    `for_file`: what is to be written there, which the message then names.
    """
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not there.is_dir() or not _holds_files(there):
        why = "a folder that takes no files" if there.is_dir() else "a file"
        raise UsageError(f"{for_file or path}: cannot be written: {there} is {why}; choose another place")
    return path


def _holds_files(folder: Path) -> bool:
    """Whether a file can be made in a folder: found out by making one, since permissions do not tell all."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def require_packages(names: Sequence[str], extra: str, purpose: str) -> None:
    """Refuses, before any work is done, if a package of this extra is missing."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise UsageError(f'{purpose} needs the package {name}: pip install "asymrl[{extra}]"')
