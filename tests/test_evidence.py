"""The numbers of pages, against the runs that ship with the repository or the function that they come from."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scripts import reproduction_page

import asymrl
from asymrl.paper.evidence import read_evidence
from asymrl.paper.results import comparison, read_results
from asymrl.paper.world_tables import world_table
from asymrl.report.intervals import detectable_difference, detectable_improvement
from asymrl.stores.statistics import final_returns, mean_and_error

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


def test_the_tables_of_the_reproduction_are_those_of_the_shipped_runs():
    evidence = read_evidence(ROOT / "results" / "curves")
    text = reproduction_page.page(evidence)
    assert reproduction_page.PAGE.read_text() == text, "write it again with `python scripts/reproduction_page.py`"
    assert reproduction_page.RULES.read_text() == reproduction_page.rules_page()
    # By another way: a row of the page is the mean over the last tenth of training of runs as a reader would take it.
    late = evidence.metrics.filter(pl.col("timestep") >= 0.9 * pl.col("steps"))
    runs = late.group_by("world", "method", "seed").agg(pl.col("return").cast(pl.Float64).mean())
    means = {
        (world, method): final
        for world, method, final in runs.group_by("world", "method").agg(pl.col("return").mean()).rows()
    }
    assert len(means) == 40
    for section in text.partition("## The worlds")[2].split("### ")[1:]:
        world = section.partition("\n")[0]
        for method, shown in re.findall(
            r"^\| (a2c[\w-]*)(?:, [\d.]+ M steps)? \| (-?[\d.]+) \[", section, re.MULTILINE
        ):
            digits = len(shown.partition(".")[2])
            assert float(shown) == pytest.approx(means.pop((world, method)), abs=0.51 * 10**-digits)
    assert not means


def test_what_the_longer_runs_of_the_small_memory_rooms_show():
    page, world = " ".join((ROOT / "docs" / "reproduction.md").read_text().split()), "memory-four-rooms-7x7"
    evidence = read_evidence(ROOT / "results" / "curves", [world])
    table = {row["method"]: row for row in world_table(evidence, world).to_dicts()}
    lengths = [
        table[method]["steps"] / 1e6 for method in ("a2c", "a2c-asym-s", "a2c-react-2", "a2c-asym-hs", "a2c-react-4")
    ]
    assert lengths == [10, 10, 10, 10, 3.15]
    solved = {method: row["solved"] for method, row in table.items()}
    words = f"learns to choose in {solved['a2c']} of 20 runs, V(h, s) in {solved['a2c-asym-hs']}, V(s) in none."
    assert words in page
    assert solved["a2c-asym-s"] == 0
    early, late = (evidence.difference(world, "a2c-asym-hs", "a2c", steps) for steps in (3_150_000, 10_000_000))
    assert f"After 3.15 million steps V(h, s) is ahead of V(h), by {early.text(2)};" in page
    assert early.low > 0 > late.estimate
    assert late.high > 0  # so the interval includes zero
    advice = " ".join((ROOT / "docs" / "explanation" / "which-critic.md").read_text().split())
    assert f"V(h) learns to choose in {solved['a2c']} of 20 runs and V(h, s) in {solved['a2c-asym-hs']}," in advice
    assert f"the difference of their final returns is not shown, {late.text(2)}." in advice


def test_when_the_large_memory_rooms_are_left():
    """Steps per episode: means over the last tenth of training, and of its first 2 million steps."""
    page, world = " ".join((ROOT / "docs" / "reproduction.md").read_text().split()), "memory-four-rooms-9x9"
    runs = read_evidence(ROOT / "results" / "curves", [world]).metrics
    early = runs.filter(pl.col("timestep").is_between(1_800_000, 2_000_000, closed="left"))
    late = runs.filter(pl.col("timestep") >= 0.9 * pl.col("steps"))
    before, after = (
        dict(part.group_by("method").agg(pl.col("length").cast(pl.Float64).mean()).rows()) for part in (early, late)
    )
    now, then = (
        [f"{lengths[name]:.0f}" for name in ("a2c", "a2c-asym-hs", "a2c-react-2", "a2c-react-4")]
        for lengths in (after, before)
    )
    assert then[:2] == ["38", "38"]
    assert f"takes {' and '.join(now[:2])} steps in the last tenth, 38 between 1.8 and 2 million steps." in page
    assert f"at first ({' and '.join(then[2:])} steps), and later in the end ({' and '.join(now[2:])})." in page


def test_sections_of_the_reproduction_are_short():
    page = (ROOT / "docs" / "reproduction.md").read_text()
    for section in page.partition("## The worlds")[2].split("### ")[1:9]:
        lines = [line for line in section.partition("\n## ")[0].splitlines()[1:] if line]
        assert len(lines) <= 10, lines[0]


def test_a_table_replaces_the_first_one_under_its_heading():
    text = "# A\n\n| no |\n\n## B\n\nwords | here\n\n| old |\n|---|\n\n| other |\n\n## C\n\n"
    found = reproduction_page.with_table(text, "B", "| new |\n|---|\n| 1 |")
    assert found == text.replace("| old |\n|---|", "| new |\n|---|\n| 1 |")
    with pytest.raises(ValueError, match="no table under the heading 'C'"):
        reproduction_page.with_table(text, "C", "")
