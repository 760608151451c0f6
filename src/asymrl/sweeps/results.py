"""What a batch of finished cells leaves behind, as one file that needs nothing but NumPy to be read."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from asymrl.learning.state import METRICS
from asymrl.runs.batch import Batch
from asymrl.runs.files import RunError
from asymrl.runs.progress import Snapshot

FORMAT = 1
_DESCRIPTION = "description"


@dataclass(frozen=True)
class Results:
    """Learning curves of a batch whose runs are complete, or have failed."""

    batch: Batch
    curve: Float[np.ndarray, "run point metric"]
    logged: Int[np.ndarray, "run"]
    """How many of the points are there."""
    timesteps: Int[np.ndarray, "run"]
    failures: Mapping[int, str] = field(default_factory=dict)
    """Why a run of the batch failed."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Where and how fast the batch was trained."""
    probe: Mapping[str, np.ndarray] = field(default_factory=dict)
    """What a probe measured: `probe_timesteps[point, run]` and `probe_values[point, run, column]`."""

    @classmethod
    def of(cls, batch: Batch, snapshot: Snapshot, about: Mapping[str, Any], probe: Mapping[str, np.ndarray]) -> Results:
        failures = {int(run): failure(batch, snapshot, int(run)) for run in np.flatnonzero(snapshot.failed)}
        return cls(batch, snapshot.curve, snapshot.logged, snapshot.timesteps, failures, about, probe)

    def to_bytes(self) -> bytes:
        """A compressed .npz file without pickled objects."""
        points = np.minimum(self.logged, self.curve.shape[1])
        described = {
            "format": FORMAT,
            "metrics": METRICS,
            **self.batch.to_json(),
            "failures": {str(run): reason for run, reason in self.failures.items()},
            "about": dict(self.about),
        }
        arrays: dict[str, Any] = {
            _DESCRIPTION: np.frombuffer(json.dumps(described).encode(), np.uint8),
            # Column by column, neighbours are alike and take less room.
            "curve": np.moveaxis(self.curve[:, : max(int(points.max()), 1)], -1, 0),
            "logged": points.astype(np.int32),
            "timesteps": self.timesteps.astype(np.int32),
        }
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays, **dict[str, Any](self.probe))
        return buffer.getvalue()

    @classmethod
    def read(cls, path: Path) -> Results:
        """The inverse of `to_bytes`. Raises RunError if the file is none of these."""
        described = describe(path)
        try:
            with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
                curve, logged, timesteps = np.moveaxis(file["curve"], 0, -1), file["logged"], file["timesteps"]
                probe = {name: file[name] for name in file.files if name.startswith("probe_")}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise _damaged(path, error) from error
        batch = Batch.from_json(described, str(path))
        failures = {int(run): str(reason) for run, reason in described["failures"].items()}
        return cls(batch, curve, logged, timesteps, failures, described["about"], probe)


def describe(path: Path) -> dict[str, Any]:
    """What a file of results says about its batch, without the curves. Raises RunError if it is no such file."""
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            described = json.loads(file[_DESCRIPTION].tobytes())
            version, metrics = described["format"], tuple(described["metrics"])
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise _damaged(path, error) from error
    if version != FORMAT or metrics != METRICS:
        raise RunError(f"{path}: results of another version of asymrl; read them with the version that wrote them")
    return described


def _damaged(path: Path, error: Exception) -> RunError:
    return RunError(f"{path}: damaged ({error}); remove it, and its cells will be run again")


def failure(batch: Batch, snapshot: Snapshot, run: int) -> str:
    """Why a run of a batch stands still."""
    return (
        f"a loss, a gradient or a parameter was not finite at update {snapshot.updates[run]} "
        f"(step {snapshot.timesteps[run]}); a lower learning rate or clip_norm may help {batch.label(run)}"
    )
