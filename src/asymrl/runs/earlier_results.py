"""Existing results: runs of another store, and sweeps that were written by versions before 0.2.

Those versions kept the finished runs of a sweep as `cells/*.npz`, a file for each batch. Their run folders need no
conversion: they are opened as they are.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from asymrl.reading import parse_json
from asymrl.runs import runs as run_lists
from asymrl.runs.files import RunError
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.runs.tables import COMPLETE, FAILED, SOLVED, RunResult

EPISODE, UPDATE, RETURN, LENGTH = 1, 2, 3, 4  # columns of a curve


def reuse(store: Store, other: Store) -> int:
    """Copies the results of runs that are over in another store and have equal settings and seed here.

    Args:
        store: to copy into; taken, and without networks, which are not copied.
        other: to copy from.

    Returns:
        how many runs were copied.

    Raises:
        RunError: if this store keeps networks.
    """
    if store.keeps_networks:
        raise RunError(f"{store.path}: keeps the networks of its runs, which {other.path} does not give")
    over = {other.runs[number]: result for number, result in other.results().items() if result.is_over}
    results = {number: over[run] for number in store.unfinished() if (run := store.runs[number]) in over}
    if results:
        store.write_tables(results)
    return len(results)


def convert_sweep(old: Path, new: Path) -> Store:
    """Makes a store of the finished runs of an old sweep. The old folder is not changed.

    Raises:
        RunError: if there are none, a file is damaged, or the new folder holds runs already.
        StorageError: if something could not be written.
    """
    files = sorted((old / "cells").glob("*.npz"))
    if not files:
        raise RunError(f"{old}: no finished runs here: there are no files cells/*.npz in it")
    runs, results, names = [], [], ()
    for file in files:
        described, arrays = _read(file)
        batch = run_lists.from_json(described, str(file))
        runs += batch
        results += [_result(run, i, described, arrays) for i, run in enumerate(batch)]
        names = names or tuple(described["about"].get("probe_columns", ()))
    store = Store.create(new, runs, keeps_networks=False)
    try:
        store.write_tables(dict(enumerate(results)), names)
    finally:
        store.release()
    return store


def _read(file: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            contents = {name: arrays[name] for name in arrays.files}
        described = parse_json(contents.pop("description").tobytes(), str(file))
        contents["curve"] = np.moveaxis(contents["curve"], 0, -1)
        return described, contents
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise RunError(f"{file}: damaged ({error})") from error


def _result(run: Run, row: int, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> RunResult:
    curve = arrays["curve"][row, : arrays["logged"][row]]
    timesteps, failure = int(arrays["timesteps"][row]), described["failures"].get(str(row))
    last = curve[-1] if len(curve) else np.full(LENGTH + 1, np.nan)
    times = values = None
    if "probe_timesteps" in arrays:
        measured = np.diff(arrays["probe_timesteps"][:, row], prepend=-1) > 0
        times, values = arrays["probe_timesteps"][measured, row], arrays["probe_values"][measured, row]
    return RunResult(
        status=FAILED if failure else COMPLETE if timesteps >= run.settings.steps else SOLVED,
        timesteps=timesteps,
        episodes=int(np.nan_to_num(last[EPISODE])),
        updates=int(np.nan_to_num(last[UPDATE])),
        recent_return=float(last[RETURN]),
        recent_length=float(last[LENGTH]),
        curve=curve,
        failure=failure,
        seconds=float(described["about"].get("seconds") or 0.0),
        device=described["about"].get("device"),
        probe_timesteps=times,
        probe_values=values,
    )
