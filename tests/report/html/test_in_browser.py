"""The page in a real browser: it loads from the disk without a complaint, and its charts show the table's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from asymrl.cli.commands.report_command import claims_sections
from asymrl.report.curves import curves
from asymrl.report.html import save_report
from asymrl.runs.store import Store
from tests.report.html.browser import opened
from tests.report.html.test_report_page import HOSTILE, RESULTS, ROUNDING, made_store

pytestmark = pytest.mark.slow

# Series of a chart that are curves: label, seed, and their points.
CHART = """world => {
    const chart = document.getElementById("section-curves").charts.get(world);
    return chart.series.flatMap((one, i) => one.line
        ? [{label: one.label, seed: one.seed ?? null, x: [...chart.data[0]], y: [...chart.data[i]]}] : []);
}"""


def points(series: dict[str, Any]) -> tuple[list[float], list[float]]:
    there = [i for i, value in enumerate(series["y"]) if value is not None]
    return [series["x"][i] for i in there], [series["y"][i] for i in there]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_800_runs_are_shown_without_a_complaint(scheme: str, tmp_path: Path):
    store = Store.open(RESULTS)
    page = save_report(store, tmp_path / "page.html")
    with opened(page, scheme=scheme) as (tab, said):
        (mean,) = (one for one in tab.evaluate(CHART, "heaven-hell-3") if one["label"] == "a2c-asym-hs")
        tab.check("input[value=runs]")
        runs = [one for one in tab.evaluate(CHART, "heaven-hell-3") if one["label"] == "a2c-asym-hs"]
        pixels = tab.evaluate("""() => {
            const canvas = document.querySelector(".chart canvas");
            const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            return new Set(new Uint32Array(data.buffer)).size;
        }""")
        assert tab.locator(".chart").count() == 8
        assert said == []
    assert pixels > 10, "something is drawn"
    metrics = store.metrics().filter(world="heaven-hell-3", method="a2c-asym-hs")
    assert [one["seed"] for one in runs] == list(range(20))
    for one in runs:
        np.testing.assert_allclose(points(one)[1], metrics.filter(seed=one["seed"])["return"], rtol=ROUNDING)
    drawn = curves(metrics)
    times, values = points(mean)
    np.testing.assert_allclose(values, np.interp(times, drawn.timesteps, drawn.band()[0]), atol=0.02)


def test_tables_fit_on_paper(tmp_path: Path):
    page = save_report(Store.open(RESULTS), tmp_path / "page.html", claims_sections(Store.open(RESULTS)))
    with opened(page) as (tab, said):
        tab.set_viewport_size({"width": 718, "height": 1000})  # A4 without its margins
        tab.emulate_media(media="print")
        widths = tab.evaluate("[...document.querySelectorAll('.table table')].map(table => table.scrollWidth)")
        assert said == []
    assert 0 < max(widths) <= 743


def test_what_is_chosen_is_shown(tmp_path: Path):
    page = save_report(made_store(tmp_path / "store"), tmp_path / "page.html")
    with opened(page) as (tab, said):
        labels = [one["label"] for one in tab.evaluate(CHART, "shopping-5")]
        tab.uncheck(f'[data-choice="Method:{labels[0]}"]')
        assert [one["label"] for one in tab.evaluate(CHART, "shopping-5")] == labels[1:]
        tab.check("input[value=runs]")
        assert [one["seed"] for one in tab.evaluate(CHART, "shopping-5")] == [3, 4, 5, 6, 7, 8]
        tab.uncheck('[data-choice="Seed:4"]')
        assert [one["seed"] for one in tab.evaluate(CHART, "shopping-5")] == [3, 5, 6, 7, 8]
        tab.select_option("select", "length")
        assert points(tab.evaluate(CHART, "shopping-5")[0])[1] == [13] * 20
        assert said == []


def test_a_panel_says_that_nothing_was_measured(tmp_path: Path):
    store = Store.open(RESULTS.parent / "studies" / "learners")
    with opened(save_report(store, tmp_path / "page.html")) as (tab, said):
        missing = tab.get_by_text("Not measured in these runs.")
        tab.select_option("select", "evaluation_return")
        assert missing.count() == 0
        for choice in tab.locator('[data-choice*="dqn"]').all():
            choice.uncheck()
        assert missing.count() == tab.locator(".chart").count() == 8  # what is left is PPO, which was not evaluated
        tab.select_option("select", "return")
        assert missing.count() == 0
        assert said == []


def test_a_chart_tells_values_and_zooms(tmp_path: Path):
    store = made_store(tmp_path / "store")
    page = save_report(store, tmp_path / "page.html")
    with opened(page) as (tab, said):
        box = tab.locator(".chart .u-over").bounding_box()
        tab.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"])
        tip = tab.locator(".tip").inner_text()
        assert "a2c-asym-hs, actor_rate 0.001" in tip
        halfway = store.metrics().filter(method="a2c-asym-hs").filter(pl.col("timestep") == 900_000)
        assert "step 900k" in tip
        assert f"{halfway['return'].mean():.4g} ± 0.5774" in tip, "three seeds with distance 1"
        tab.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 0.5 * box["height"])
        tab.mouse.down()
        tab.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"], steps=4)
        tab.mouse.up()
        span = """() => { const {min, max} = [...document.getElementById("section-curves").charts.values()][0].scales.x;
            return [min, max]; }"""
        np.testing.assert_allclose(tab.evaluate(span), [475_000, 950_000], rtol=0.02)
        tab.get_by_text("reset zoom").click()
        assert tab.evaluate(span) == [0, 1_900_000]
        assert said == []


def test_hostile_names_stay_text(tmp_path: Path):
    page = save_report(made_store(tmp_path / "store", world=HOSTILE), tmp_path / "page.html")
    with opened(page) as (tab, said):
        assert tab.locator(".chart h3").inner_text() == HOSTILE
        assert tab.locator("img").count() == 0
        assert said == []
