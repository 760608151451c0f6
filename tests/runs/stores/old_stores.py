"""Folders of runs that earlier code has written: `old/NAME.zip`, each with what resuming it there gave."""

from __future__ import annotations

import zipfile
from pathlib import Path

OLD = Path(__file__).parent / "old"


def unpacked(name: str, folder: Path) -> Path:
    """The folder of runs with this name, written into `folder`. Its `longer.json` has the curves after resuming."""
    with zipfile.ZipFile(OLD / f"{name}.zip") as archive:
        archive.extractall(folder)
    return folder
