"""Training: runs flow through the lanes of pools, on cores, accelerators, processes and clusters.

`train_store` trains the runs of a store that are not over. `Placement` says where to train and `Pace` how often to
refresh and to save; a `Listener` follows the training (`Silent` is one to build on) and may stop runs (`StopRuns`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.engine.driver import Outcome as Outcome, train_store as train_store
    from asymrl.engine.monitoring.listeners import (
        Listener as Listener,
        Probe as Probe,
        Silent as Silent,
        StopRuns as StopRuns,
    )
    from asymrl.engine.monitoring.progress import Progress as Progress
    from asymrl.engine.placement import Pace as Pace, Placement as Placement

__getattr__, __dir__ = exports(
    __name__,
    {
        "asymrl.engine.driver": ["Outcome", "train_store"],
        "asymrl.engine.monitoring.listeners": ["Listener", "Probe", "Silent", "StopRuns"],
        "asymrl.engine.placement": ["Pace", "Placement"],
        "asymrl.engine.monitoring.progress": ["Progress"],
    },
)
