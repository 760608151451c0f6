"""Finished cells that were never trained: what is done with results does not depend on where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from asymrl.runs.batch import Batch
from asymrl.sweeps.results import Results

from asymrl.learning.settings import Settings
from asymrl.learning.state import METRICS


def made_results(settings: Sequence[Settings], seeds: Sequence[int], points: int = 20, **more: Any) -> Results:
    """Curves whose return is the seed plus the share of training that is over."""
    batch = Batch.product(settings, seeds)
    curve = np.full((len(batch), points + 1, len(METRICS)), np.nan, np.float32)
    for run, (each, seed) in enumerate(zip(batch.settings, batch.seeds, strict=True)):
        share = np.arange(points) / points
        curve[run, :points, METRICS.index("timestep")] = share * each.steps
        curve[run, :points, METRICS.index("return")] = seed + share
        curve[run, :points, METRICS.index("length")] = 10 + run
        for name in ("episode", "update", "critic_loss", "policy_loss", "negentropy_loss"):
            curve[run, :points, METRICS.index(name)] = run
        for name in ("critic_gradient_norm", "actor_gradient_norm", "negentropy_weight"):
            curve[run, :points, METRICS.index(name)] = 0.5
    done = np.asarray([each.steps for each in batch.settings])
    return Results(batch, curve, np.full(len(batch), points), done, **more)
