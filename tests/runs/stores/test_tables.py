"""The tables say what the runs say, in one schema, to every program that reads Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from asymrl.learners.state import METRICS
from asymrl.report.run_kinds import kinds_in
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.runs.tables import FAILED, RunResult, metrics_table, runs_table, shown_settings
from asymrl.settings import SETTINGS, A2CSettings
from tests.runs.engine.conftest import tiny
from tests.runs.engine.stores import made_result

ALWAYS = ["run", "world", "method", "steps", "actor_rate", "critic_rate", "entropy_weight"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two settings of a world, and another world and method whose middle run failed."""
    rates = [A2CSettings("shopping-5", "a2c", actor_rate=rate, entropy_weight=3.0) for rate in (1e-3, 3e-4)]
    other = A2CSettings("car-flag", "a2c-asym-s", hidden=(64, 32), clip_norm=2.0)
    runs = [Run(each, seed) for each in rates for seed in (0, 1)] + [Run(other, seed) for seed in (5, 6, 7)]
    results = {number: made_result(run) for number, run in enumerate(runs)}
    measured = {4: [0, 10, 20], 5: [0, 11], 6: [0, 12, 23]}
    for number, times in measured.items():
        values = 100 * number + np.arange(2 * len(times), dtype=np.float32).reshape(-1, 2)
        results[number] = results[number]._replace(probe_timesteps=np.asarray(times, np.int32), probe_values=values)
    results[5] = results[5]._replace(status=FAILED, failure="not finite", timesteps=11, curve=results[5].curve[:1])  # pyright: ignore[reportOptionalSubscript]
    store = Store.create(tmp_path_factory.mktemp("store"), runs, keeps_networks=False)
    store.write_tables(results, ("left", "right"))
    store.release()
    return store.path


def test_the_metrics_have_a_row_for_each_run_and_point(folder: Path):
    table = pl.read_parquet(folder / "metrics.parquet")
    assert len(table) == 6 * 20 + 1
    # Settings that differ from the defaults anywhere have a column.
    assert table.columns[: table.columns.index("timestep")] == [
        "run", "world", "method", "steps", "clip_norm", "hidden", "actor_rate", "critic_rate", "entropy_weight", "seed",
    ]  # fmt: skip
    assert table.columns[table.columns.index("timestep") :] == [*METRICS]
    assert table["world"].unique().sort().to_list() == ["car-flag", "shopping-5"]
    one = table.filter(pl.col("actor_rate") == 3e-4, pl.col("seed") == 1)
    assert one["run"].unique().to_list() == [3]
    np.testing.assert_allclose(one["return"], 1 + np.arange(20) / 20, rtol=1e-6)
    assert one["timestep"].to_list() == list(range(0, 2_000_000, 100_000))
    flag = table.filter(pl.col("world") == "car-flag")
    assert flag["hidden"].unique().to_list() == ["64:32"]
    assert flag["clip_norm"].unique().to_list() == [2.0]
    assert table.schema["return"] == table.schema["critic_loss"] == pl.Float32
    assert table.schema["update"] == pl.Int32
    # A run without evaluations has none, rather than NaN.
    assert table["evaluation_return"].null_count() == len(table)


def test_the_entropy_weight_is_the_setting_in_every_table(folder: Path):
    """What the schedule makes of it in the course of training is `negentropy_weight`."""
    for name in ("metrics.parquet", "runs.parquet", "probes.parquet"):
        table = pl.read_parquet(folder / name)
        assert table.filter(world="shopping-5")["entropy_weight"].unique().to_list() in ([3.0], [])
        assert table.filter(world="car-flag")["entropy_weight"].unique().to_list() == [A2CSettings().entropy_weight]
        assert ("negentropy_weight" in table.columns) == (name == "metrics.parquet")
    metrics = pl.read_parquet(folder / "metrics.parquet")
    assert metrics["negentropy_weight"].unique().to_list() == [0.5]


def test_the_runs_have_a_table_of_their_own(folder: Path):
    runs = pl.read_parquet(folder / "runs.parquet")
    assert runs["run"].to_list() == list(range(7))
    assert runs["status"].to_list() == ["complete"] * 5 + ["failed", "complete"]
    failed = runs.filter(pl.col("failure").is_not_null())
    assert failed.select("seed", "failure", "timesteps").rows() == [(6, "not finite", 11)]
    # The mean of the last tenth, of points at 0.9 and 0.95; of the run that failed its only point.
    finals = [0.925, 1.925, 0.925, 1.925, 5.925, 6.0, 7.925]
    np.testing.assert_allclose(runs["final_return"], finals, rtol=1e-6)


def test_no_setting_shares_its_column_with_a_result():
    """The setting `episodes` of A2C used to be replaced by the number of episodes played."""
    runs = [Run(tiny(episodes=episodes), seed) for episodes in (2, 8) for seed in (0, 1)]
    shown = shown_settings(runs)
    results = {number: RunResult(status="complete", episodes=100 + number) for number in range(4)}
    table = runs_table(dict(enumerate(runs)), results, shown)
    assert table["episodes"].to_list() == [2, 2, 8, 8]
    assert table["episodes_played"].to_list() == [100, 101, 102, 103]
    assert kinds_in(table) == ["episodes"]
    assert not set(SETTINGS) & {*METRICS, *runs_table({}, {}, ()).columns} - {"world", "method"}


def test_measurements_have_a_table_of_their_own(folder: Path):
    probes = pl.read_parquet(folder / "probes.parquet")
    one = probes.filter(seed=6).select("run", "timestep", "probe", "value").rows()
    assert one == [(5, 0, "left", 500), (5, 0, "right", 501), (5, 11, "left", 502), (5, 11, "right", 503)]
    left = probes.filter(probe="left").select("seed", "timestep", "value").rows()
    assert left == [
        (5, 0, 400), (5, 10, 402), (5, 20, 404), (6, 0, 500), (6, 11, 502), (7, 0, 600), (7, 12, 602), (7, 23, 604),
    ]  # fmt: skip


def test_a_table_of_curves_of_different_lengths():
    runs = {0: Run(tiny(clip_norm=None), 3), 1: Run(tiny(clip_norm=2.0), 3), 2: Run(tiny(), 4)}
    curve = np.arange(3 * len(METRICS), dtype=np.float32).reshape(3, len(METRICS))
    table = metrics_table(runs, {0: curve[:1], 1: curve[:2]}, ("clip_norm",))
    assert table.columns == ["run", "world", "method", "clip_norm", "seed", *METRICS]
    assert table["run"].to_list() == [0, 1, 1]
    assert table["clip_norm"].to_list() == [None, 2.0, 2.0]
    assert table["timestep"].to_list() == [0, 0, len(METRICS)]
    assert table["critic_loss"].to_list() == [5, 5, len(METRICS) + 5]
    assert table["evaluation_length"].to_list()[-1] == 2 * len(METRICS) - 1
    nothing = metrics_table(runs, {}, ("clip_norm",))
    assert (len(nothing), nothing.schema) == (0, table.schema)


def test_types_do_not_depend_on_the_values():
    """So that tables of different stores can be put together."""
    plain, rich = (
        metrics_table({0: Run(settings, 0)}, {0: np.zeros((1, len(METRICS)), np.float32)}, ("clip_norm", "window"))
        for settings in (tiny(), tiny(clip_norm=2.0, window=3, method="a2c-react-3"))
    )
    assert plain.schema == rich.schema
    assert len(pl.concat([plain, rich])) == 2


def test_which_settings_have_a_column():
    assert [*shown_settings([Run(A2CSettings(), 0)])] == ALWAYS[3:]
    assert "memory" in shown_settings([Run(A2CSettings(), 0), Run(A2CSettings(memory="lstm"), 0)])


def test_pandas_reads_the_tables(folder: Path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pandas.read_parquet(folder / "metrics.parquet")
    means = table.groupby(["world", "seed"], observed=True)["return"].mean()
    assert means["shopping-5", 1] == pytest.approx(1 + 0.475)


def test_duckdb_reads_the_tables(folder: Path):
    duckdb = pytest.importorskip("duckdb")
    query = f"""select method, max("return") from '{folder}/metrics.parquet' group by method order by method"""
    highest = duckdb.connect().execute(query).fetchall()
    assert highest == [("a2c", pytest.approx(1.95)), ("a2c-asym-s", pytest.approx(7.95))]


def test_memories_of_actor_and_critic_are_text():
    runs = {0: Run(A2CSettings("tiger", critic_memory="none"), 0), 1: Run(A2CSettings("tiger", actor_memory="lstm"), 0)}
    table = runs_table(runs, {}, shown_settings(runs.values()))
    assert table["critic_memory"].to_list() == ["none", None]
    assert table["actor_memory"].to_list() == [None, "lstm"]


def test_every_setting_that_is_a_name_is_text():
    """Also those that are None by default: what the actor sees, and modules of one's own."""
    named: dict[str, Any] = {"actor_sees": "heights", "observation_features": "a.py:B", "state_features": "a.py:B"}
    runs = {0: Run(A2CSettings(**named), 0), 1: Run(A2CSettings(), 0)}
    table = runs_table(runs, {}, shown_settings(runs.values()))
    assert {name: table[name].to_list() for name in named} == {name: [value, None] for name, value in named.items()}


def unended(run: Run) -> RunResult:
    """A run whose first episode was over at the third of its twenty points, as the state of a run has it."""
    result = made_result(run)
    assert result.curve is not None
    for name in ("episode", "return", "length"):
        result.curve[:2, METRICS.index(name)] = 0
    return result


def test_there_is_no_return_before_the_first_episode_is_over(tmp_path: Path):
    runs = [Run(A2CSettings("tiger", "a2c", steps=2000), seed) for seed in (0, 1)]
    never = unended(runs[1])
    assert never.curve is not None
    never = never._replace(episodes=0, curve=never.curve[:2], recent_return=np.nan, recent_length=np.nan)
    store = Store.create(tmp_path, runs, keeps_networks=False)
    store.write_tables({0: unended(runs[0]), 1: never})
    store.release()
    table, reached = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("metrics", "runs"))
    for name in ("return", "length"):
        assert table[name].is_null().to_list() == [True, True, *[False] * 18, True, True]
    assert table["critic_loss"].null_count() == 0
    assert reached["final_return"].to_list() == [pytest.approx(0.925), None]
    assert Store.open(tmp_path).results()[1].timesteps == 2000
