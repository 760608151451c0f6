"""Stores that were trained in pieces, as one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from scripts.collect_results import collect

from asymrl.report.paper.fork import PAIRS
from asymrl.report.paper.parts import curve_runs
from asymrl.runs.files import RunError
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from tests.runs.engine.stores import store_with_curves


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


def test_runs_that_were_interrupted_count_as_they_were_before(tmp_path: Path):
    runs = curve_runs(["cleaner"], ["a2c"], range(2), 2000)
    source = store_with_curves(tmp_path / "source", runs)
    tables = {name: pl.read_parquet(source / f"{name}.parquet") for name in ("runs", "metrics")}
    late = (pl.col("seed") == 1) & (pl.col("timestep") > 1500)
    is_interrupted = pl.col("seed") == 1
    status = pl.when(is_interrupted).then(pl.lit("training")).otherwise(pl.col("status")).alias("status")
    timesteps = pl.when(is_interrupted).then(1500).otherwise(pl.col("timesteps")).alias("timesteps")
    tables["runs"].with_columns(status, timesteps.cast(pl.Int64)).write_parquet(source / "runs.parquet")
    tables["metrics"].filter(~late).write_parquet(source / "metrics.parquet")

    assert len(collect(tmp_path / "whole", [source])) == 1
    store = collect(tmp_path / "cut", [source], until=1000)
    assert [run.settings.steps for run in store.runs] == [1000, 1000]
    assert not Store.open(tmp_path / "cut").unfinished()
    metrics = pl.read_parquet(tmp_path / "cut" / "metrics.parquet")
    expected = tables["metrics"].filter(pl.col("timestep") < 1000)
    assert metrics["return"].to_list() == expected["return"].to_list()
    with pytest.raises(RunError, match="between two points"):
        collect(tmp_path / "odd", [source], until=1003)
