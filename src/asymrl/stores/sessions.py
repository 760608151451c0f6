"""A record of every training of a store: when, where, with what, for how long, and what it got done."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from asymrl.stores.files import RunError, write_whole


class Session(NamedTuple):
    """One training of a store, from start to end."""

    started: str
    seconds: float
    """Wall time, compilation and planning included."""
    steps: int
    """Environment steps that were trained."""
    runs_finished: int
    runs_left: int
    devices: dict[str, int]
    """How many of each kind JAX sees on the machine of the driver."""
    versions: dict[str, str]
    commit: str | None
    """Of the repository that asymrl was run from, if it was."""

    @classmethod
    def now(cls, seconds: float, steps: int, finished: int, left: int) -> Session:
        """The session that has just ended, after so many seconds."""
        import jax

        from asymrl import __version__

        kinds = [device.device_kind for device in jax.local_devices()]
        started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
        return cls(
            started=started.isoformat(timespec="seconds"),
            seconds=round(seconds, 1),
            steps=steps,
            runs_finished=finished,
            runs_left=left,
            devices={kind: kinds.count(kind) for kind in kinds},
            versions={"asymrl": __version__, "jax": jax.__version__, "python": platform.python_version()},
            commit=_commit(),
        )


def sessions(folder: Path) -> list[dict[str, Any]]:
    """All sessions of a folder, the oldest first."""
    file = folder / "sessions.json"
    try:
        return list(json.loads(file.read_text())) if file.exists() else []
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: damaged: {error}; remove it") from error


def record(folder: Path, session: Session) -> None:
    """Adds a session to those of a folder."""
    write_whole(
        folder / "sessions.json", (json.dumps([*sessions(folder), session._asdict()], indent=1) + "\n").encode()
    )


def _commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
