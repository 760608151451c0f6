"""The page of a store says what its tables say, whatever the names in it are, and stays small."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

import asymrl
from asymrl.report.curves import curves
from asymrl.report.findings import Findings
from asymrl.report.html import Section, page_of, report_page
from asymrl.report.html.curve_data import DIGITS, curve_data
from asymrl.report.html.page import json_text
from asymrl.report.html.page_numbers import numbers, rounded
from asymrl.report.html.return_tables import returns_table
from asymrl.report.html.run_groups import groups_of
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.settings import A2CSettings
from tests.runs.engine.stores import made_result, small, store_with_networks

RESULTS = Path(__file__).parents[3] / "results" / "curves"
HOSTILE = "</script><script>alert('gone')</script><img src=x onerror=\"alert(1)\">&amp;"
MOST_BYTES = 5_000_000
ROUNDING = 0.501 * 10.0 ** (1 - DIGITS)


class Elements(HTMLParser):
    """What a browser finds in a page: its elements with attributes, and its data."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.data: dict[str, Any] = {}
        self._id: str | None = None
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._id = dict(attrs).get("id") if tag == "script" else None

    def handle_data(self, data: str) -> None:
        if self._id is not None:
            self.data[self._id] = json.loads(data)
            self._id = None
        self.text += data


def made_store(folder: Path, *, world: str = "shopping-5", search: bool = False) -> Store:
    """Two methods with three seeds, and a third kind, perhaps of a search, whose last run failed early."""
    kinds = [A2CSettings(world, "a2c"), A2CSettings(world, "a2c-asym-hs"), A2CSettings(world, "a2c", actor_rate=3e-3)]
    # A made run returns about its seed.
    runs = [Run(kinds[seed // 3], seed + 1000 * (search and seed > 5)) for seed in range(9)]
    results = {number: made_result(run) for number, run in enumerate(runs)}
    short = results[8].curve
    assert short is not None
    results[8] = results[8]._replace(status="failed", failure=HOSTILE, timesteps=500_000, curve=short[:5])
    store = Store.create(folder, runs, keeps_networks=False)
    store.write_tables(results)
    store.release()
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return made_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def many() -> tuple[Store, dict[str, Any]]:
    store = Store.open(RESULTS)
    return store, curve_data(store)


def test_every_run_has_the_points_of_the_table(store: Store):
    data, metrics = Elements(report_page(store)).data["data-curves"], store.metrics()
    (world,) = data["worlds"]
    assert data["metrics"][0]["name"] == "return"
    assert [line["label"] for line in world["lines"]] == [
        "a2c, actor_rate 0.001", "a2c-asym-hs, actor_rate 0.001", "a2c, actor_rate 0.003",
    ]  # fmt: skip
    seen = 0
    for line in world["lines"]:
        for run, values in zip(line["runs"], line["values"]["return"], strict=True):
            rows = metrics.filter(run=run)
            times = world["axes"][line["axis"]]
            there = [i for i, value in enumerate(values) if value is not None]
            np.testing.assert_array_equal([times[i] for i in there], rows["timestep"])
            np.testing.assert_allclose([values[i] for i in there], rows["return"], rtol=ROUNDING)
            seen += 1
    assert seen == len(store)


def test_runs_of_a_search_have_a_section_of_their_own(tmp_path: Path):
    page = report_page(made_store(tmp_path, world=HOSTILE, search=True))
    found = Elements(page)
    (world,) = found.data["data-curves"]["worlds"]
    assert [(line["label"], line["runs"]) for line in world["lines"]] == [
        ("a2c", [0, 1, 2]), ("a2c-asym-hs", [3, 4, 5]),
    ]  # fmt: skip
    assert "6 runs" in found.text
    assert "3 search runs apart" in found.text
    assert "3 runs that only served to choose settings" in found.text
    assert "<h2>Search for settings</h2>" in page
    assert "&amp;lt;" not in page, "a name is escaped twice"


def test_the_mean_of_a_line_is_that_of_the_figures(store: Store):
    (world,) = curve_data(store)["worlds"]
    line = world["lines"][1]
    drawn = curves(store.metrics().filter(pl.col("run").is_in(line["runs"])))
    mean, error = drawn.band()
    times = np.asarray(world["axes"][line["axis"]])
    np.testing.assert_allclose(line["mean"]["return"], np.interp(times, drawn.timesteps, mean), rtol=1e-3)
    np.testing.assert_allclose(line["error"]["return"], np.interp(times, drawn.timesteps, error), rtol=1e-3)


def test_the_mean_ends_where_the_shortest_run_does(store: Store):
    (world,) = curve_data(store)["worlds"]
    line = world["lines"][2]
    assert line["failed"] == [False, False, True]
    assert [value is None for value in line["mean"]["return"]] == [False] * 5 + [True] * 15


def test_ranks_and_intervals_are_those_of_the_command(store: Store):
    ranking = asymrl.load(store.path).ranking()
    (groups,) = groups_of(pl.read_parquet(store.path / "runs.parquet")).values()
    table = returns_table(groups)
    for name in ("", "_low", "_high"):
        assert table[f"iqm{name}"].to_list() == ranking[f"final_return{name}"].to_list()
    assert table["failed"].to_list() == ranking["failed"].to_list()
    page = report_page(store)
    for estimate, low, high in ranking.select("^final_return.*$").rows():
        assert f"{estimate:.3f} [{low:.3f}, {high:.3f}]" in page


def test_a_critic_that_reads_the_history_alone_is_not_said_to_see_the_state():
    folder = RESULTS.parent / "studies" / "knowledge"
    groups = groups_of(pl.read_parquet(folder / "runs.parquet"))["shopping-5"]
    shown = [group.label for group in groups]
    assert shown == ["a2c", *(f"a2c-asym-hs, critic_sees {part}" for part in ("position", "item", "state"))]
    page = report_page(Store.open(folder))
    assert "a2c, critic_sees" not in page
    assert "<td>a2c</td><td>–</td>" in page


def test_names_of_others_are_text_and_nothing_else(tmp_path: Path):
    store = made_store(tmp_path, world=HOSTILE)
    notes = {"what": HOSTILE, HOSTILE: [HOSTILE, {"a": HOSTILE}]}
    (tmp_path / "manifest.json").write_text(json.dumps(notes))
    page = report_page(store)
    found, plain = Elements(page), Elements(report_page(made_store(tmp_path / "plain")))
    tags = [tag for tag, _ in found.found]
    assert tags.count("script") == [tag for tag, _ in plain.found].count("script")
    assert "img" not in tags
    assert not [name for _, attributes in found.found for name in attributes if name.startswith("on")]
    assert found.data["data-curves"]["worlds"][0]["name"] == HOSTILE
    assert HOSTILE in found.text, "and it can still be read"


def test_a_page_needs_no_other_file(store: Store):
    page = report_page(store)
    for _, attributes in Elements(page).found:
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert "default-src 'none'" in page
    assert not re.search(r"\beval\(|new Function|https?://(?!github.com/leeoniya)", page)


def test_a_section_with_a_name_that_is_no_name_is_refused():
    with pytest.raises(ValueError, match="small letters"):
        page_of("title", [Section("title", 'a" onclick="')])
    with pytest.raises(ValueError, match="not the name of a function"):
        page_of("title", [Section("title", "a", data=1, script="alert(1)")])


def test_numbers_that_json_lacks_are_none():
    values = np.array([np.nan, np.inf, 0.0, 123456.0, -0.000123456, 1.0])
    found = numbers(values, 4)
    assert found == [None, None, 0, 123456, -0.0001235, 1]
    assert json.dumps(found) == "[null, null, 0, 123456, -0.0001235, 1]"
    assert (rounded(1234567.8), rounded(0.123456789), rounded(1e-20)) == (1234568, 0.123457, 1e-20)


@pytest.mark.slow
def test_a_page_of_800_runs_is_small():
    assert len(report_page(Store.open(RESULTS)).encode()) < MOST_BYTES


def test_curves_of_800_runs_leave_room_for_more(many: tuple[Store, dict[str, Any]]):
    _, data = many
    assert len(json_text(data)) < 0.6 * MOST_BYTES
    assert sum(len(line["runs"]) for world in data["worlds"] for line in world["lines"]) == 800


def test_points_of_800_runs_are_those_of_the_table(many: tuple[Store, dict[str, Any]]):
    store, data = many
    returns = {run: rows["return"].to_numpy() for (run,), rows in store.metrics().group_by("run", maintain_order=True)}
    for world in data["worlds"]:
        for line in world["lines"]:
            for run, values in zip(line["runs"], line["values"]["return"], strict=True):
                there = [value for value in values if value is not None]
                np.testing.assert_allclose(there, returns[run], rtol=ROUNDING, atol=1e-12)


def test_runs_show_their_ranking_in_a_notebook(store: Store, tmp_path: Path):
    html, ranking = asymrl.load(store.path)._repr_html_(), asymrl.load(store.path).ranking()
    for estimate, low, high in ranking.select("^final_return.*$").rows():
        assert f"{estimate:.3f} [{low:.3f}, {high:.3f}]" in html
    Store.create(tmp_path / "new", store.runs).release()
    assert "9 runs, not begun" in asymrl.load(tmp_path / "new")._repr_html_()


def test_findings_show_their_tables_and_figures():
    numbers = pl.DataFrame({"arm": ["<i>"], "iqm": [0.5], "iqm_low": [0.25], "iqm_high": [0.75]})
    html = Findings("name", numbers, numbers, {"figure": Figure()}, ["a < b"])._repr_html_()
    assert "<td>&lt;i&gt;</td><td class=n>0.500 [0.250, 0.750]</td>" in html
    assert "<p>a &lt; b</p>" in html
    assert '<img alt="figure" src="data:image/png;base64,' in html


def test_a_page_says_why_there_are_no_episodes(store: Store, tmp_path: Path):
    """The networks of these runs should be there, but there is no checkpoint."""
    new = Store.create(tmp_path, store.runs)
    new.write_tables(store.results())
    new.release()
    assert "No episodes: " in report_page(new)
    assert "No episodes: " not in report_page(new, episodes=0)
    assert "No episodes: " not in report_page(store), "its networks were not to be kept"


@pytest.mark.slow
def test_episodes_are_on_the_page_where_networks_were_kept(tmp_path: Path):
    path = store_with_networks(tmp_path / "store", small(), [0.5, 0.25])
    store = Store.take(path)
    store.write_tables({number: made_result(run) for number, run in enumerate(store.runs)})
    store.release()
    data = Elements(report_page(store, episodes=2)).data
    assert {"data-curves", "data-player"} <= set(data)
    assert len(data["data-player"]["agents"]) == 2
    assert len(data["data-player"]["episodes"]) >= 2


def test_a_chart_shows_what_a_policy_gets_that_ignores_what_it_sees():
    from asymrl.report.html.curve_data import _references

    labels = {world: [line["label"] for line in _references(world)] for world in ("tiger", "heaven-hell-3")}
    assert labels["tiger"] == ["random policy", "best known", "ignores what it sees"]
    assert labels["heaven-hell-3"] == ["random policy", "best known"]  # where that is 0, as random actions are


def test_a_run_that_only_listens_to_the_tiger_has_reached_nothing():
    """Of the way from random (-3033) to the best (107) it is 93 %, but it uses no observation."""
    runs = pl.DataFrame(
        {"run": [0], "world": "tiger", "method": "a2c", "time_limit": 100, "seed": [0], "status": ["complete"],
         "final_return": [-100.0]}
    )  # fmt: skip
    table = returns_table(groups_of(runs)["tiger"])
    assert table["reached"][0] == pytest.approx(0.0)
    assert "normalised" not in table.columns
    best = returns_table(groups_of(runs.with_columns(final_return=pl.lit(107.08)))["tiger"])
    assert best["reached"][0] == pytest.approx(1.0, abs=0.01)
