"""A record of every training of a store: when, where, with what, for how long, and what it got done."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from asymrl.reading import read_json
from asymrl.runs.files import RunError, write_whole
from asymrl.runs.wording import plural

LARGEST_NUMBER = 1e18  # of seconds or steps


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
    """How many devices of each kind JAX sees on the driver's machine."""
    machine: str
    """Its processor, number of cores and system."""
    versions: dict[str, str]
    commit: str | None
    """Of the repository that asymrl was run from, if there is one."""

    @classmethod
    def now(cls, seconds: float, steps: int, finished: int, left: int) -> Session:
        """The session that has just ended, after this many seconds."""
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
            machine=machine_text(),
            versions={"asymrl": __version__, "jax": jax.__version__, "python": platform.python_version()},
            commit=_commit(),
        )


def sessions(folder: Path) -> list[dict[str, Any]]:
    """All sessions of a folder, the oldest first."""
    file = folder / "sessions.json"
    try:
        entries = read_json(file) if file.exists() or file.is_symlink() else []
    except (OSError, ValueError) as error:
        reason = str(error).removeprefix(f"{file}: ")
        raise RunError(f"{file}: damaged: {reason}; remove it") from error
    if not isinstance(entries, list) or not all(map(_is_session, entries)):
        raise RunError(f"{file}: damaged: it is not a list of sessions; remove it")
    return entries


def _is_session(data: Any) -> bool:
    """Whether the data can be those of a session; entries may be missing, as older versions wrote fewer."""
    if not isinstance(data, dict):
        return False
    numbers = all(isinstance(data.get(name) or 0, int | float) for name in ("seconds", "steps"))
    finite = numbers and all(abs(data.get(name) or 0) < LARGEST_NUMBER for name in ("seconds", "steps"))
    return finite and all(isinstance(data.get(name) or {}, dict) for name in ("devices", "versions"))


def add_session(folder: Path, session: Session) -> None:
    """Adds a session to those of a folder."""
    write_whole(
        folder / "sessions.json", (json.dumps([*sessions(folder), session._asdict()], indent=1) + "\n").encode()
    )


def machine_text() -> str:
    """The processor of this machine, the cores that may be used, and the system."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{name}, {plural('core', cores)}, {platform.system()}"


def _commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None if result.returncode == 0 else None
