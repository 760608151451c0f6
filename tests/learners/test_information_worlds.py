"""T-maze and RockSample can be trained, with and without tables, with their own discounts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import asymrl
from asymrl.runs.callback import Callback

SMALL = {"memory_size": 4, "hidden": (4,), "time_limit": 12, "log_points": 4}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "sees", "discount"),
    [
        ("t-maze-2", "goal-side", 0.98),
        ("rock-sample-3-2", "rocks", 0.95),
        ("rock-sample-3-2:simulated=true,position=true", "state", 0.95),
    ],
)
def test_a_short_training(world: str, sees: str, discount: float, tmp_path: Path):
    runs = asymrl.train(
        world, "a2c-asym-hs", seeds=2, steps=300, critic_sees=sees, out=tmp_path / "runs", display=Callback(), **SMALL
    )
    assert runs.table["discount"].to_list() == [discount] * 2
    assert runs.table["status"].to_list() == ["complete"] * 2
    returns = runs.metrics["return"].to_numpy()
    assert np.isfinite(returns).all()
    assert np.abs(returns).max() <= 10 * 3
