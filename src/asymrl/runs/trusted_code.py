"""Code that the user has trained with on this machine: a list in the user's own folder, which no store can write to.

Runs that were trained here open without a question; for all others, the user has to trust the code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SWITCH = "ASYMRL_STATE"  # a folder in place of the usual one


def state_folder() -> Path:
    """Where asymrl remembers things about this user: `~/.local/state/asymrl`, unless the environment says otherwise."""
    if folder := os.environ.get(SWITCH):
        return Path(folder)
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path("~/.local/state").expanduser()) / "asymrl"


def remember(code: Mapping[str, Any]) -> None:
    """Notes that the user has trained with this code. If nothing can be written, it has to be trusted again."""
    with contextlib.suppress(OSError, RuntimeError):
        file = _file(code)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.write_text(json.dumps(code, indent=1, sort_keys=True) + "\n")


def is_remembered(code: Mapping[str, Any]) -> bool:
    """Whether the user has trained with exactly this code on this machine."""
    try:
        return _file(code).is_file()
    except (OSError, RuntimeError):
        return False


def _file(code: Mapping[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(code, sort_keys=True).encode()).hexdigest()
    return state_folder() / "trained-with" / f"{digest}.json"
