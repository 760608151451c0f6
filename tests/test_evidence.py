"""The numbers of pages, against the runs that ship with the repository or the function that they come from."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import asymrl
from asymrl.report.intervals import detectable_difference, detectable_improvement
from asymrl.report.paper.results import comparison, read_results
from asymrl.runs.statistics import final_returns, mean_and_error

ROOT = Path(__file__).parents[1]
CELL = r"(-?[\d.]+) ± ([\d.]+)"


def rows_of(page: str) -> list[tuple[str, str | None, list[tuple[str, str, str]]]]:
    """World, policy if the table names one, and method, mean and error of each cell."""
    text = (ROOT / "docs" / "methods" / page).read_text().partition("## Evidence")[2]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    methods = re.findall(r"`([\w-]+)`", " ".join(lines[0]))
    rows = []
    for world, *cells in lines[2:]:
        policy = cells.pop(0) if len(cells) > len(methods) else None
        found = [match.groups() for cell in cells if (match := re.fullmatch(CELL, cell))]
        rows.append((world, policy, [(m, *numbers) for m, numbers in zip(methods, found, strict=True)]))
    return rows


@pytest.mark.parametrize(("page", "rows"), [("ppo.md", 2), ("dqn.md", 4)])
def test_the_numbers_of_a_page_are_those_of_the_shipped_runs(page: str, rows: int):
    metrics = asymrl.load(ROOT / "results" / "studies" / "learners").metrics
    listed = rows_of(page)
    assert len(listed) == rows
    for world, policy, cells in listed:
        metric = "evaluation_return" if policy == "greedy" else "return"
        finals = final_returns(metrics.drop_nulls(metric), metric)
        for method, mean, error in cells:
            values = finals.filter((finals["world"] == world) & (finals["method"] == method))["final"].to_numpy()
            assert len(values) == 20
            expected = mean_and_error(values)
            assert (mean, error) == (f"{expected[0]:.2f}", f"{expected[1]:.2f}"), (world, policy, method)


SHOWN = {
    "a2c-asym-hs": ("curves", "return"),
    "ppo-asym-hs": ("studies/learners", "return"),
    "adqn-vr": ("studies/learners", "evaluation_return"),
}


def test_the_learners_side_by_side_are_those_of_the_shipped_runs():
    text = (ROOT / "docs" / "how-to" / "train.md").read_text()
    rows = re.findall(r"^\| (heaven-hell-3|shopping-5) \| (.*) \|$", text, re.MULTILINE)
    assert [world for world, _ in rows] == ["heaven-hell-3", "shopping-5"]
    for world, cells in rows:
        for (method, (folder, metric)), shown in zip(SHOWN.items(), cells.split(" | "), strict=False):
            metrics = asymrl.load(ROOT / "results" / folder).metrics.drop_nulls(metric)
            its = metrics.filter((metrics["world"] == world) & (metrics["method"] == method))
            until = its.filter(its["timestep"] <= 600_000).with_columns(steps=600_000)
            values = final_returns(until, metric)["final"].to_numpy()
            assert len(values) == 20
            assert f"{values.mean():.{len(shown.partition('.')[2])}f}" == shown, (world, method)


def test_runs_that_began_with_a_trained_agent_end_as_the_page_says():
    text = " ".join((ROOT / "docs" / "how-to" / "train.md").read_text().split())
    started = final_returns(asymrl.load(ROOT / "results" / "rooms-started").metrics, "return")["final"].to_numpy()
    mean, error = mean_and_error(started)
    assert f"returns of {started.min():.2f} to {started.max():.2f}, in the mean {mean:.2f} ± {error:.2f}" in text
    metrics = asymrl.load(ROOT / "results" / "curves").metrics
    scratch = final_returns(metrics.filter(pl.col("world") == "memory-four-rooms-9x9"), "return")["final"].to_numpy()
    assert f"of {len(scratch)} runs from scratch the best ends at {scratch.max():.2f}" in text


def test_the_trials_of_ppo_in_the_memory_rooms_end_as_the_page_says():
    text = " ".join((ROOT / "docs" / "studies" / "learners.md").read_text().split())
    ends = final_returns(asymrl.load(ROOT / "results" / "rooms-ppo").metrics, "return")["final"].to_numpy()
    assert len(ends) == 8
    assert f"their final returns are {ends.min():.2f} to {ends.max():.2f}" in text


def test_what_so_many_runs_can_show_is_computed():
    page = (ROOT / "docs" / "explanation" / "statistics.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert len(rows) == 6
    for runs, difference, improvement in rows:
        spread = np.linspace(-1, 1, int(runs))[:, None]
        found = detectable_difference(spread, spread) / spread.std(ddof=1)
        assert (difference, improvement) == (f"{found:.2f}", f"{detectable_improvement(int(runs)):.2f}")


def test_the_example_of_a_detectable_difference_is_that_of_the_shipped_runs():
    table = read_results(ROOT / "results" / "curves").filter(pl.col("world") == "heaven-hell-3")
    rows = {row["method"]: row for row in comparison(table).to_dicts()}
    page = (ROOT / "docs" / "explanation" / "statistics.md").read_text()
    assert f"would have to differ by {rows['a2c-asym-s']['detectable']:.2f} in their final return" in page
    assert f"they differ by {rows['a2c-asym-hs']['mean'] - rows['a2c-asym-s']['mean']:.2f}" in page
