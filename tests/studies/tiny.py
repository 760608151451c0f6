"""A study that trains in seconds, and stores of it whose curves are made up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import polars as pl

from asymrl.learners.state import METRICS
from asymrl.runs.store import Store
from study import Arm, PlannedRun, Search, Setup, Study
from tests.runs.engine.stores import made_result

SMALL = {"memory_size": 8, "hidden": (16,), "time_limit": 10}


def exact(world: str) -> pl.DataFrame:
    return pl.DataFrame({"arm": ["V(h)", "V(h, s)"], "variance": [len(world) / 1.0, 2.0]})


# The second world takes over what the first one's search chooses.
TINY = Study(
    name="tiny",
    title="Does it run?",
    question="Does a study run?",
    prediction="It does.",
    setups=(
        Setup("heaven-hell-3", 200, SMALL),
        Setup("heaven-hell-4", 200, SMALL, searched_as="heaven-hell-3"),
    ),
    arms_in=lambda setup: (Arm("V(h)", {"method": "a2c"}), Arm("V(h, s)", {"method": "a2c-asym-hs"})),
    seeds=2,
    search=Search(lambda setup: {"entropy_weight": (0.01, 0.3, 0.1)}, seeds=2),
    exact=exact,
    comparisons=(("V(h, s)", "V(h)"),),
    exact_score="variance",
    log_points=20,
    quick_steps=100,
)


def fill(path: Path, planned: Iterable[PlannedRun], returns: Callable[[PlannedRun], float]) -> Store:
    """A store in which each run has had the same return from the first to the last point."""
    planned = list(planned)
    store = Store.take_or_create(path, [each.run for each in planned], keeps_networks=False)
    results = {}
    for each in planned:
        result = made_result(each.run)
        assert result.curve is not None
        curve = result.curve.copy()
        curve[:, METRICS.index("return")] = np.float32(returns(each))
        results[store.runs.index(each.run)] = result._replace(curve=curve)
    try:
        store.write_tables(results)
    finally:
        store.release()
    return Store.open(path)
