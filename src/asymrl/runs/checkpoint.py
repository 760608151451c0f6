"""Checkpoints: arrays in a safetensors file and a manifest that vouches for them. Loading executes nothing.

A checkpoint is there once its manifest is. The one before is kept, for the case that the newest is damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asymrl.runs.batch import Batch
from asymrl.runs.files import RunError, write_whole
from asymrl.runs.options import SETTINGS

if TYPE_CHECKING:
    import numpy as np

    from asymrl.learning.state import RunState

FORMAT = 1
KEPT = 2  # checkpoints: the newest and the one before
# A run may be made longer after a checkpoint; everything else that it was trained with must stay.
MAY_CHANGE = ("steps", "log_points")


class DamagedError(RunError):
    """A checkpoint is not what was written."""


def save(folder: Path, batch: Batch, runs: RunState) -> Path:
    """Writes a checkpoint and removes those before the last. Returns its manifest.

    Raises:
        StorageError: if there is no room, for example; the checkpoints before are still there.
    """
    import safetensors.numpy

    from asymrl.runs.arrays import key_kind, to_arrays

    arrays = to_arrays(runs, len(batch))
    data = safetensors.numpy.save(arrays)
    number = max((number for number, _ in manifests(folder)), default=0) + 1
    file = folder / f"{number:06d}.safetensors"
    manifest = {
        "format": FORMAT,
        **batch.to_json(),
        "updates": arrays["updates"].tolist(),
        "timesteps": arrays["timesteps"].tolist(),
        "key_kind": key_kind(runs),
        "file": file.name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "arrays": {name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in arrays.items()},
    }
    manifest["digest"] = _digest(manifest)
    write_whole(file, data)
    path = file.with_suffix(".json")
    write_whole(path, json.dumps(manifest, indent=1).encode())
    _remove_old(folder)
    return path


def load(folder: Path, batch: Batch, say: Callable[[str], None]) -> RunState | None:
    """The runs of the newest sound checkpoint, or None if none was written yet.

    Args:
        folder: where the checkpoints are.
        batch: what the run folder says is trained here.
        say: told about a damaged checkpoint that is passed over.

    Raises:
        RunError: if no checkpoint is sound, or the newest belongs to another version or other settings.
    """
    found = manifests(folder)
    for i, (_, path) in enumerate(found):
        try:
            return _load(path, batch)
        except DamagedError as error:
            if i == len(found) - 1:
                raise RunError(
                    f"{error}. There is no other checkpoint to go back to; nothing was changed. Restore the file, or "
                    f"remove the folder {folder} to start again from the beginning"
                ) from error
            say(f"{error}; going back to the checkpoint before it, {found[i + 1][1].name}")
    return None


def manifests(folder: Path) -> list[tuple[int, Path]]:
    """The manifests in a folder with their numbers, newest first."""
    named = ((re.fullmatch(r"(\d{6,})\.json", path.name), path) for path in folder.glob("*.json"))
    return sorted(((int(match[1]), path) for match, path in named if match), reverse=True)


def _load(path: Path, batch: Batch) -> RunState:
    from asymrl.runs.arrays import from_arrays

    manifest = _read_manifest(path)
    _check_settings(path, Batch.from_json(manifest, str(path)), batch)
    file = path.with_name(manifest["file"])
    arrays = _read_arrays(file, manifest["sha256"])
    try:
        return from_arrays(batch, arrays, manifest["key_kind"])
    except ValueError as error:
        raise RunError(f"{file}: does not fit these settings: {error}") from error


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_bytes())
        version = manifest["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path}: damaged: it is no manifest of a checkpoint") from error
    if version != FORMAT:
        raise RunError(
            f"{path}: a checkpoint of format {version}, but this version of asymrl reads format {FORMAT}; "
            "continue with the version that wrote it"
        )
    if manifest.get("digest") != _digest(manifest):
        raise DamagedError(f"{path}: damaged: its contents do not match its digest")
    return manifest


def _read_arrays(file: Path, sha256: str) -> dict[str, np.ndarray]:
    import safetensors
    import safetensors.numpy

    try:
        data = file.read_bytes()
    except OSError as error:
        raise DamagedError(f"{file}: damaged: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DamagedError(f"{file}: damaged: its {len(data)} bytes do not match the checksum in its manifest")
    try:
        return safetensors.numpy.load(data)
    except safetensors.SafetensorError as error:
        raise DamagedError(f"{file}: damaged: {error}") from error


def _check_settings(path: Path, made_with: Batch, batch: Batch) -> None:
    """Refuses a checkpoint of other runs, naming the first difference."""
    if made_with.seeds != batch.seeds:
        raise RunError(f"{path}: a checkpoint of seeds {list(made_with.seeds)}, not of {list(batch.seeds)}")
    for seed, then, now in zip(batch.seeds, made_with.settings, batch.settings, strict=True):
        for name in SETTINGS:
            old, new = getattr(then, name), getattr(now, name)
            if old != new and name not in MAY_CHANGE:
                raise RunError(
                    f"{path}: made with {name} = {old!r}, but settings.json says {new!r} for seed {seed}; "
                    "put it back, or start a new run"
                )
        if now.steps < then.steps or now.log_period != then.log_period:
            raise RunError(
                f"{path}: made with {then.steps} steps and {then.log_points} log_points, but settings.json says "
                f"{now.steps} and {now.log_points}; put them back, and use asymrl resume --steps for a longer run"
            )


def _digest(manifest: dict[str, Any]) -> str:
    rest = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _remove_old(folder: Path) -> None:
    for _, path in manifests(folder)[KEPT:]:
        with contextlib.suppress(OSError):  # what can not be removed does no harm
            path.unlink()
            path.with_suffix(".safetensors").unlink(missing_ok=True)
