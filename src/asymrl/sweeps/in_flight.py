"""Checkpoints of batches in flight: everything in the runs, in one .npz file that is replaced as a whole.

They need nothing but NumPy, unlike the checkpoints of `asymrl train`, which people keep and share; these are removed
as soon as their batch is complete.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asymrl.runs.batch import Batch
from asymrl.runs.files import RunError

FORMAT = 1
_DESCRIPTION, _RUN, _PROBE = "description", "run:", "probe_"


class Saved(NamedTuple):
    """A batch as far as it was trained."""

    batch: Batch
    arrays: dict[str, np.ndarray]
    """Everything in the runs, each array `[run, ...]`, as `runs.arrays` names them."""
    key_kind: str
    seconds: float
    """Spent on training so far."""
    probe: dict[str, np.ndarray]
    """What a probe measured so far, `[point, run, ...]`."""

    def only(self, rows: list[int]) -> Saved:
        """The same, for some of the runs; they do not depend on the others."""
        batch = Batch(tuple(self.batch.settings[i] for i in rows), tuple(self.batch.seeds[i] for i in rows))
        arrays = {name: array[rows] for name, array in self.arrays.items()}
        probe = {name: array[:, rows] for name, array in self.probe.items()}
        return Saved(batch, arrays, self.key_kind, self.seconds * len(rows) / len(self.batch), probe)

    def to_bytes(self) -> bytes:
        described = {"format": FORMAT, **self.batch.to_json(), "key_kind": self.key_kind, "seconds": self.seconds}
        arrays: dict[str, Any] = {
            _DESCRIPTION: np.frombuffer(json.dumps(described).encode(), np.uint8),
            **{f"{_RUN}{name}": array for name, array in self.arrays.items()},
            **self.probe,
        }
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    @classmethod
    def read(cls, path: Path) -> Saved:
        """The inverse of `to_bytes`. Raises RunError if the file is damaged or of another version."""
        try:
            with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
                described = json.loads(file[_DESCRIPTION].tobytes())
                arrays = {name.removeprefix(_RUN): file[name] for name in file.files if name.startswith(_RUN)}
                probe = {name: file[name] for name in file.files if name.startswith(_PROBE)}
                version, kind, seconds = described["format"], described["key_kind"], float(described["seconds"])
        except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
            raise RunError(f"{path}: damaged ({error})") from error
        if version != FORMAT:
            raise RunError(f"{path}: a checkpoint of another version of asymrl")
        return cls(Batch.from_json(described, str(path)), arrays, kind, seconds, probe)
