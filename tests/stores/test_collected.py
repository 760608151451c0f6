"""Stores that were trained in pieces, as one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from scripts.collect_results import collect

from asymrl.paper.fork import PAIRS
from asymrl.paper.parts import curve_runs
from asymrl.stores.files import RunError
from asymrl.stores.runs import Run
from asymrl.stores.store import Store
from tests.engine.stores import store_with_curves


def test_of_each_run_the_longest_version_counts(tmp_path: Path):
    old = curve_runs(["cleaner", "heaven-hell-4"], ["a2c"], range(2), 1000)
    new = [Run(replace(run.settings, steps=2000, precision="tf32"), run.seed) for run in old if run.seed == 1]
    values = dict(zip(map(str, PAIRS), (0.1, 0.2, 0.3, 0.4), strict=True))
    sources = [store_with_curves(tmp_path / "old", old, values), store_with_curves(tmp_path / "new", new[:1])]
    for order in (sources, sources[::-1]):
        out = tmp_path / f"out-{order[0].name}"
        store = collect(out, order)
        assert {(run.settings.world, run.seed, run.settings.steps) for run in store.runs} == {
            ("cleaner", 0, 1000), ("cleaner", 1, 2000), ("heaven-hell-4", 0, 1000), ("heaven-hell-4", 1, 1000),
        }  # fmt: skip
        assert not Store.open(out).unfinished()
        finals = {
            (row["world"], row["seed"]): row["final_return"] for row in pl.read_parquet(out / "runs.parquet").to_dicts()
        }
        assert finals["cleaner", 1] == pytest.approx(1.925)
        probes = pl.read_parquet(out / "probes.parquet").filter(world="heaven-hell-4")
        assert dict(probes.group_by("probe").agg(pl.col("value").mean()).rows()) == pytest.approx(values, abs=1e-6)
    with pytest.raises(RunError, match="already holds runs"):
        collect(out, sources)
