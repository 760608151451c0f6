"""The table of results says what the cells say, to every program that reads Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from asymrl.runs.files import RunError
from asymrl.sweeps.ledger import SweepFolder
from asymrl.sweeps.results import Results
from asymrl.sweeps.table import collect_folder

from asymrl.learning.settings import Settings
from tests.engine.made import made_results


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two settings of a world, and another world and method whose middle run failed."""
    sweep = SweepFolder.take(tmp_path)
    rates = [Settings("shopping-5", "a2c", actor_rate=rate, entropy_weight=3.0) for rate in (1e-3, 3e-4)]
    sweep.write(made_results(rates, [0, 1]))
    probe = {
        "probe_timesteps": np.asarray([[0, 0, 0], [10, 11, 12], [20, 11, 12], [20, 11, 23]], np.int32),
        "probe_values": np.arange(24, dtype=np.float32).reshape(4, 3, 2),
    }
    other = Settings("car-flag", "a2c-asym-s", hidden=(64, 32), clip_norm=2.0)
    about = {"probe_columns": ["left", "right"], "device": "cpu"}
    sweep.write(made_results([other], [5, 6, 7], failures={1: "not finite"}, probe=probe, about=about))
    sweep.release()
    collect_folder(tmp_path)
    return tmp_path


def test_results_are_what_they_were(tmp_path: Path):
    results = made_results([Settings("tiger")], [1, 2], failures={1: "why"}, about={"device": "cpu"})
    path = tmp_path / "file.npz"
    path.write_bytes(results.to_bytes())
    found = Results.read(path)
    assert (found.batch, found.failures, found.about) == (results.batch, results.failures, results.about)
    np.testing.assert_array_equal(found.curve, results.curve[:, :20])
    path.write_bytes(results.to_bytes()[:-40])
    with pytest.raises(RunError, match=r"file\.npz: damaged"):
        Results.read(path)


def test_the_table_has_a_row_for_each_run_and_point(folder: Path):
    table = pl.read_parquet(folder / "results.parquet")
    assert len(table) == 7 * 20
    # Settings that differ anywhere have a column, and the weight of the entropy is the setting, not its schedule.
    assert table.columns[: table.columns.index("timestep")] == [
        "world", "method", "steps", "actor_rate", "critic_rate", "clip_norm", "entropy_weight", "hidden", "seed",
    ]  # fmt: skip
    assert table["world"].unique().cast(pl.String).sort().to_list() == ["car-flag", "shopping-5"]
    one = table.filter(pl.col("actor_rate") == 3e-4, pl.col("seed") == 1)
    np.testing.assert_allclose(one["return"], 1 + np.arange(20) / 20, rtol=1e-6)
    assert one["entropy_weight"].unique().to_list() == [3.0]
    assert one["timestep"].to_list() == list(range(0, 2_000_000, 100_000))
    flag = table.filter(pl.col("world").cast(pl.String) == "car-flag")
    assert flag["hidden"].cast(pl.String).unique().to_list() == ["64:32"]
    assert flag["clip_norm"].unique().to_list() == [2.0]
    assert table.schema["return"] == table.schema["critic_loss"] == pl.Float32
    assert isinstance(table.schema["method"], pl.Categorical)
    assert "evaluation_return" not in table.columns


def test_runs_and_probes_have_tables_of_their_own(folder: Path):
    runs = pl.read_parquet(folder / "runs.parquet")
    assert len(runs) == 7
    failed = runs.filter(pl.col("failure").is_not_null())
    assert failed.select("seed", "failure").rows() == [(6, "not finite")]
    probes = pl.read_parquet(folder / "probes.parquet").with_columns(pl.col("probe").cast(pl.String))
    found = probes.filter(pl.col("seed") == 6).select("timestep", "probe", "value").rows()
    # This run was over after 11 steps; that the others were measured later says nothing new about it.
    assert found == [(0, "left", 2.0), (0, "right", 3.0), (11, "left", 8.0), (11, "right", 9.0)]
    left = probes.filter(pl.col("probe") == "left").select("seed", "timestep", "value").rows()
    assert left == [(5, 0, 0), (5, 10, 6), (5, 20, 12), (6, 0, 2), (6, 11, 8), (7, 0, 4), (7, 12, 10), (7, 23, 22)]


def test_pandas_reads_the_table(folder: Path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pandas.read_parquet(folder / "results.parquet")
    assert str(table["method"].dtype) == "category"
    found = table.groupby(["world", "seed"], observed=True)["return"].mean()
    assert found["shopping-5", 1] == pytest.approx(1 + 0.475)


def test_duckdb_reads_the_table(folder: Path):
    duckdb = pytest.importorskip("duckdb")
    query = f"""select method, max("return") from '{folder}/results.parquet' group by method order by method"""
    found = duckdb.connect().execute(query).fetchall()
    assert found == [("a2c", pytest.approx(1.95)), ("a2c-asym-s", pytest.approx(7.95))]


def test_an_empty_folder_is_explained(tmp_path: Path):
    with pytest.raises(RunError, match="no cells are finished here"):
        collect_folder(tmp_path)
