"""The end of a search: the best settings as a TOML file for `--config`, and the command that uses it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asymrl.runs.files import write_whole
from asymrl.runs.settings_search import COMPLETE, SettingsSearch, Trial
from asymrl.runs.wording import plural

SETTINGS_TOML = "settings.toml"


def write_settings(search: SettingsSearch, best: Trial) -> Path:
    """Writes the given settings and those of the best trial into the folder of the search. Returns the file."""
    values = {"method": search.base["method"], **search.given, **best.settings}
    lines = [
        f"# {search.base['world']}: the best of {search.trials} trials by asymrl tune, trial {best.number}.",
        f"# Mean final return {best.value:.4g} of {plural('run', len(search.seeds))} of {search.base['steps']} steps.",
        *(f"{name} = {toml_text(value)}" for name, value in values.items() if value is not None),
    ]
    path = search.folder / SETTINGS_TOML
    write_whole(path, ("\n".join(lines) + "\n").encode())
    return path


def train_command(search: SettingsSearch, file: Path) -> str:
    """The command that trains with these settings."""
    words = ["asymrl", "train", str(search.base["world"]), "--config", str(file), "--steps", str(search.base["steps"])]
    return shlex.join(words)


def best_of(trials: list[Trial]) -> Trial | None:
    """The best complete trial, if there is one."""
    complete = [trial for trial in trials if trial.state == COMPLETE and trial.value is not None]
    return max(complete, key=lambda trial: trial.value or 0.0, default=None)


def toml_text(value: Any) -> str:
    """A value of a setting in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml_text, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_text(name)} = {toml_text(part)}" for name, part in value.items()) + " }"
    return repr(value)
