"""The page about the reproduction, against the runs that ship with the repository."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from scripts import reproduction_page

from asymrl.report.paper import claim_rules as rules
from asymrl.report.paper.claims import MEMORY_HELPS, judged
from asymrl.report.paper.evidence import read_evidence, scale
from asymrl.report.paper.world_tables import world_table
from asymrl.settings.hyperparameters import PAPER_WORLDS
from asymrl.settings.methods import PAPER_METHODS
from asymrl.worlds.reference_scores import scores

ROOT = Path(__file__).parents[3]


def page_text() -> str:
    """The page on one line."""
    return " ".join((ROOT / "docs" / "reproduction.md").read_text().split())


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
    page, world = page_text(), "memory-four-rooms-7x7"
    evidence = read_evidence(ROOT / "results" / "curves", [world])
    table = {row["method"]: row for row in world_table(evidence, world).to_dicts()}
    lengths = [
        table[method]["steps"] / 1e6 for method in ("a2c", "a2c-asym-s", "a2c-react-2", "a2c-asym-hs", "a2c-react-4")
    ]
    assert lengths == [10] * 5
    solved = {method: row["solved"] for method, row in table.items()}
    words = (
        f"learns to choose in {solved['a2c']} of 20 runs, V(h, s) in {solved['a2c-asym-hs']}, the window of four in "
    )
    assert f"{words}{solved['a2c-react-4']}, V(s) in none." in page
    assert solved["a2c-asym-s"] == solved["a2c-react-2"] == 0
    early, late = (evidence.difference(world, "a2c-asym-hs", "a2c", steps) for steps in (3_150_000, 10_000_000))
    assert f"After 3.15 million steps V(h, s) is ahead of V(h), by {early.text(2)};" in page
    assert early.low > 0 > late.estimate
    assert late.high > 0  # so the interval includes zero
    advice = " ".join((ROOT / "docs" / "explanation" / "which-critic.md").read_text().split())
    assert f"V(h) learns to choose in {solved['a2c']} of 20 runs and V(h, s) in {solved['a2c-asym-hs']}," in advice
    rooms = " ".join((ROOT / "docs" / "worlds" / "memory-four-rooms.md").read_text().split())
    words = f"`a2c` learns to choose in {solved['a2c']} of 20 runs of 10 million steps and `a2c-asym-hs` in "
    assert f"{words}{solved['a2c-asym-hs']}; in 9x9 no method does within 6 million" in rooms
    assert f"the difference of their final returns is not shown, {late.text(2)}." in advice


def test_when_the_large_memory_rooms_are_left():
    """Steps per episode: means over the last tenth of training, and over that of the first 2 million steps."""
    page, world = page_text(), "memory-four-rooms-9x9"
    evidence = read_evidence(ROOT / "results" / "curves", [world])
    runs, steps = evidence.metrics, evidence.steps(world, *PAPER_METHODS)
    early, late = (
        runs.filter(pl.col("timestep").is_between(0.9 * end, end, closed="left")) for end in (2_000_000, steps)
    )
    before, after = (
        dict(part.group_by("method").agg(pl.col("length").cast(pl.Float64).mean()).rows()) for part in (early, late)
    )
    now, then = (
        [f"{lengths[name]:.0f}" for name in ("a2c", "a2c-asym-hs", "a2c-react-2", "a2c-react-4")]
        for lengths in (after, before)
    )
    assert steps == 6_000_000
    assert not world_table(evidence, world)["solved"].to_numpy().any()
    found = f"takes {' and '.join(now[:2])} steps in the last tenth of training, {' and '.join(then[:2])} between 1.8"
    windows = f"with windows of two and four {' and '.join(now[2:])}, after {' and '.join(then[2:])}."
    assert f"With V(h) and V(h, s) an episode {found} and 2 million (`--steps 2M`); {windows}" in page


def test_where_v_h_beats_both_windows():
    assert "in the other four of the five worlds, V(h) is shown to be better than windows." in page_text()
    assert len(MEMORY_HELPS) == 5
    evidence = read_evidence(ROOT / "results" / "curves")
    for world in MEMORY_HELPS:
        steps = evidence.steps(world, "a2c", "a2c-react-2", "a2c-react-4")
        leads = [evidence.difference(world, "a2c", window, steps).low > 0 for window in ("a2c-react-2", "a2c-react-4")]
        assert all(leads) == (world != "memory-four-rooms-9x9"), world


def test_the_margins_of_claims_and_what_a_smaller_one_would_change(monkeypatch: pytest.MonkeyPatch):
    page = page_text()
    hell, _, five, six, car, cleaner, small, large = (rules.MARGIN * scale(world) for world in PAPER_WORLDS)
    assert hell == car
    margins = f"{hell:.2f} in Heaven-Hell and car-flag, {five:.1f} and {six:.1f} in Shopping, {cleaner:.1f} in cleaner"
    assert f"{margins}, {small:.2f} and {large:.2f} in the memory rooms" in page
    evidence = read_evidence(ROOT / "results" / "curves")
    verdicts = [finding.verdict for _, finding in judged(evidence)]
    monkeypatch.setattr(rules, "MARGIN", 0.02)
    changed = [
        (claim.where, claim.text, finding.verdict)
        for (claim, finding), verdict in zip(judged(evidence), verdicts, strict=True)
        if finding.verdict != verdict
    ]
    assert changed == [("car-flag", "V(h, s) as good as V(s)", "in part")]


def test_what_the_page_says_of_runs_one_by_one():
    page = page_text()
    evidence = read_evidence(ROOT / "results" / "curves", ["cleaner", "shopping-6", "car-flag"])
    of_state = evidence.rows("cleaner", "a2c-asym-s")
    at_three = of_state.filter(pl.col("timestep").is_between(2_975_000, 3_025_000))["return"].cast(pl.Float64).mean()
    assert f"The mean of V(s) rises to {at_three:.0f} by 3 million steps." in page
    lowest = of_state.filter(pl.col("timestep") > 3_000_000).group_by("seed").agg(pl.col("return").min())
    assert (lowest["return"] < 1.02).all()
    recovered = int((evidence.finals("cleaner", "a2c-asym-s") > 45).sum())
    assert f"Then each of its {len(lowest)} runs falls to 1 at some time; {recovered} are above 45 in the last" in page
    reference = scores("shopping-6")
    assert reference is not None
    uninformed = reference.undiscounted["uninformed"].low
    two, four = (evidence.finals("shopping-6", window) for window in ("a2c-react-2", "a2c-react-4"))
    assert max(two.mean(), four.mean()) < uninformed
    assert f"both windows are below {uninformed:.0f}, the return of an agent that never asks" in page
    assert f"with the window of four, {int((four > uninformed).sum())} of 20 runs end above it." in page
    difference = evidence.difference("car-flag", "a2c-asym-hs", "a2c-asym-s", 10_000_000)
    assert -rules.MARGIN * scale("car-flag") < difference.low < difference.high < 0
    assert "V(s) ends a little higher than V(h, s), within the margin." in page


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
