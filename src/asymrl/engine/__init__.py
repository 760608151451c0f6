"""Runs, lanes, pools and stores: everything that trains, and what is kept of it.

A `Run` is one training: settings and a seed. A `Store` is a folder with runs, and `train_store` trains those that are
not over. `Placement` says where to train and `Pace` how often to look and to save; a `Listener` follows the training
(`Silent` is one to build on). `convert_sweep` reads sweeps of versions before 0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.engine.conversion import convert_sweep as convert_sweep
    from asymrl.engine.driver import Outcome as Outcome
    from asymrl.engine.driver import train_store as train_store
    from asymrl.engine.files import RunError as RunError
    from asymrl.engine.files import StorageError as StorageError
    from asymrl.engine.listeners import Listener as Listener
    from asymrl.engine.listeners import Silent as Silent
    from asymrl.engine.placement import Pace as Pace
    from asymrl.engine.placement import Placement as Placement
    from asymrl.engine.progress import Progress as Progress
    from asymrl.engine.runs import Run as Run
    from asymrl.engine.store import Store as Store

__getattr__, __dir__ = exports(
    __name__,
    {
        "asymrl.engine.conversion": ["convert_sweep"],
        "asymrl.engine.driver": ["Outcome", "train_store"],
        "asymrl.engine.files": ["RunError", "StorageError"],
        "asymrl.engine.listeners": ["Listener", "Silent"],
        "asymrl.engine.placement": ["Pace", "Placement"],
        "asymrl.engine.progress": ["Progress"],
        "asymrl.engine.runs": ["Run"],
        "asymrl.engine.store": ["Store"],
    },
)
