"""The exact numbers on the pages of studies 1 to 3: every cell of their tables, and what the text says about them."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import pytest

from asymrl.studies import STUDIES
from asymrl.studies.arm_tables import exact_table
from asymrl.studies.bootstrap_or_baseline import LAMBDAS, label
from asymrl.studies.half_experts import STAGES

PAGES = Path(__file__).parents[2] / "docs" / "studies"
READ_BY = {"V(h)": "h", "V(s)": "s", "V(h, s)": "hs", "V = 0": "0"}
SLOW_WORLDS = ("shopping-5", "rock-sample-3-3")  # ten seconds and more


def worlds_of(name: str) -> list[Any]:
    worlds = [setup.name for setup in STUDIES[name].setups]
    return [pytest.param(world, marks=[pytest.mark.slow] if world in SLOW_WORLDS else []) for world in worlds]


def computed(name: str, world: str) -> dict[str, dict[str, Any]]:
    """What `asymrl study NAME --exact-only` prints about a world, by arm."""
    return exact_table(STUDIES[name].narrowed([world])).rows_by_key("arm", named=True, unique=True)


@functools.cache
def exact_section(name: str) -> str:
    return (PAGES / f"{name}.md").read_text().partition("\n## The exact analysis\n")[2].partition("\n## ")[0]


def words(name: str) -> str:
    """The whole page without line breaks."""
    return " ".join((PAGES / f"{name}.md").read_text().split())


def tables(name: str) -> list[dict[str, list[str]]]:
    """The tables of the section about the exact analysis: the cells of each row by the first of them."""
    blocks = [block.splitlines() for block in exact_section(name).split("\n\n") if block.startswith("|")]
    rows = [[[cell.strip(" *") for cell in line.strip("|").split("|")] for line in block[2:]] for block in blocks]
    return [{cells[0]: cells[1:] for cells in table} for table in rows]


def cosine_cell(cosine: float) -> str:
    if math.isnan(cosine):
        return "no gradient"
    return "1" if cosine == pytest.approx(1, abs=1e-9) else f"{cosine:.2f}"


@pytest.mark.parametrize("world", worlds_of("bootstrap"))
def test_bootstrap(world: str) -> None:
    rows, (cosines, variances) = computed("bootstrap", world), tables("bootstrap")

    def numbers(critic: str, number: str, stage: str = "half") -> list[float]:
        return [rows[label(READ_BY[critic], lambda_)][f"{stage}: {number}"] for lambda_ in LAMBDAS]

    for critic in ("V(s)", "V = 0"):
        assert cosines[f"{critic}, {world}"] == [cosine_cell(each) for each in numbers(critic, "cosine")]
    for critic in ("V(h)", "V(h, s)"):
        assert cosines["V(h), V(h, s), all worlds"] == [cosine_cell(each) for each in numbers(critic, "cosine")]
    smallest = numbers("V(h)", "variance")[0]
    relative = {critic: [each / smallest for each in numbers(critic, "variance")] for critic in READ_BY}
    if world != "heaven-hell-4":
        for critic in ("V(h)", "V(s)", "V(h, s)"):
            cells = ["1" if each == 1 else f"{each:.1f}" for each in relative[critic]]
            assert variances[f"{critic}, {world}"] == cells
    # A converged V(h) is about as good as V(h, s).
    found = "for the *half* agent its variance is at most 8 % larger, for the other two at most 11 %"
    assert f"{found}, and in Heaven-Hell with TD(0) it is about 40 % smaller for the *half* agent" in words("bootstrap")
    for agent in ("random", "half", "good"):
        pairs = zip(*(numbers(critic, "variance", agent) for critic in ("V(h)", "V(h, s)")), strict=True)
        excess = [mine / theirs - 1 for mine, theirs in pairs]
        assert max(excess) < (0.085 if agent == "half" else 0.115), agent
        if agent == "half" and world != "shopping-5":
            assert excess[0] == pytest.approx(-0.41, abs=0.02)


def test_every_row_of_the_bootstrap_page_belongs_to_a_world() -> None:
    cosines, variances = tables("bootstrap")
    worlds = [setup.name for setup in STUDIES["bootstrap"].setups]
    rows = [f"{critic}, {world}" for critic in ("V(s)", "V = 0") for world in worlds]
    assert sorted(cosines) == sorted(["V(h), V(h, s), all worlds", *rows])
    shown = [
        f"{critic}, {world}" for critic in ("V(h)", "V(s)", "V(h, s)") for world in ("heaven-hell-3", "shopping-5")
    ]
    assert sorted(variances) == sorted(shown)


@pytest.mark.slow
def test_what_the_bootstrap_page_says_about_shopping() -> None:
    rows, text = computed("bootstrap", "shopping-5"), words("bootstrap")
    errors = [
        100 * row[f"{stage}: variance_error"] / row[f"{stage}: variance"] for row in rows.values() for stage in STAGES
    ]
    assert f"with standard errors of {min(errors):.0f} to {max(errors):.0f} %" in text
    random = {critic: rows[label(READ_BY[critic], 1.0)]["random: variance"] for critic in ("V(h)", "V(s)", "V(h, s)")}
    assert "for the *random* agent that of V(s) is 1.6 times that of the others" in text
    assert [random["V(s)"] / random[other] for other in ("V(h)", "V(h, s)")] == pytest.approx([1.6] * 2, abs=0.05)
    assert "for the *half* agent they are 5 times that of V(h) with TD(0) here, and 21 times in Heaven-Hell-3" in text
    other = computed("bootstrap", "heaven-hell-3")
    for table, times in ((rows, 5), (other, 21)):
        smallest = table[label("h", 0.0)]["half: variance"]
        mean = sum(table[label(critic, 1.0)]["half: variance"] for critic in ("h", "s", "hs")) / 3
        assert round(mean / smallest) == times
    shown = [rows[label("s", lambda_)]["half: cosine"] for lambda_ in (0.0, 0.5)]
    assert f"the exact cosine is {shown[0]:.2f} and {shown[1]:.2f}" in text


def test_what_the_bootstrap_page_says_about_the_heaven_hells() -> None:
    text, small, large = words("bootstrap"), *(computed("bootstrap", f"heaven-hell-{n}") for n in (3, 4))
    assert "With Monte-Carlo returns the exact variances are within 7 % of each other" in text
    variances = [small[label(critic, 1.0)]["half: variance"] for critic in ("h", "s", "hs")]
    assert round(100 * (max(variances) / min(variances) - 1)) == 7
    positive, almost, right = (large[label("s", lambda_)]["half: cosine"] for lambda_ in (0.8, 0.95, 1.0))
    assert f"has just become positive ({positive:.2f})" in text
    assert f"at 0.95 and 1, with cosines of {almost:.2f} and {right:.0f}" in text


@pytest.mark.parametrize("world", worlds_of("information"))
def test_information(world: str) -> None:
    rows, (cosines, readable) = computed("information", world), tables("information")
    for arm in ("V(b)", "V(s, t)"):
        assert cosines[f"{arm}, {world}"] == [f"{rows[arm][f'{stage}: cosine']:.2f}" for stage in STAGES]
    (cells,) = (cells for name, cells in readable.items() if name.startswith(world))
    shares = [
        [100 * rows[arm][f"{stage}: readable"] for arm in ("V(h)", "V(h, s)", "V(h, s~b)", "V(h, b)")]
        for stage in STAGES
    ]
    assert cells == [f"{nothing:.0f} / {state:.0f} / {belief:.0f} %" for nothing, state, _, belief in shares]
    # A drawn state shows as much as the true one, and no critic that reads the history is biased.
    assert [state for _, state, _, _ in shares] == pytest.approx([drawn for _, _, drawn, _ in shares])
    for arm in ("V(h)", "V(h, s)", "V(h, s~b)", "V(h, b)"):
        assert [rows[arm][f"{stage}: error"] for stage in STAGES] == pytest.approx([0] * 3, abs=1e-9)
        if arm != "V(h, s)":
            assert [rows[arm][f"{stage}: variance"] for stage in STAGES] == pytest.approx([1] * 3)
    less = [100 - 100 * rows["V(h, s)"][f"{stage}: variance"] for stage in STAGES]
    if world == "heaven-hell-3":
        assert less == pytest.approx([0] * 3, abs=1e-3)
    elif world == "shopping-5":
        less_than_history = f"V(h, s) has {less[0]:.0f} and {less[1]:.0f} % less than V(h) for the first two agents"
        assert f"{less_than_history} and as much for the third" in words("information")
        assert abs(less[2]) < 1
        assert f"the belief explains all of V(h) without memory, the state {shares[1][1]:.0f} %" in words("information")
    else:
        assert f"in RockSample {less[0]:.0f}, {less[1]:.0f} and {less[2]:.0f} % less" in words("information")
        assert f"which takes {less[0]:.0f} to {less[2]:.0f} % off the exact variance" in words("information")


@pytest.mark.parametrize("world", worlds_of("knowledge"))
def test_knowledge(world: str) -> None:
    (table,) = tables("knowledge")
    rows = computed("knowledge", world)
    lines = {name.partition(": ")[2]: cells for name, cells in table.items() if name.startswith(f"{world}: ")}
    arms = [part for parts in lines for part in parts.split(", ")]
    assert ["V(h)", *(f"V(h, {'s' if part == 'state' else part})" for part in arms)] == list(rows)
    for parts, (share, *returns) in lines.items():
        for part in parts.split(", "):
            row = rows[f"V(h, {'s' if part == 'state' else part})"]
            assert [row[f"{stage}: explained"] for stage in STAGES] == pytest.approx([float(share)] * 3, abs=1e-6)
            explained = [100 * row[f"{stage}: explained return"] for stage in STAGES]
            if share == "0":
                assert (returns, explained) == (["0"] * 3, pytest.approx([0] * 3, abs=1e-6))
            else:
                assert returns == [f"{each:.1f} %" for each in explained]
