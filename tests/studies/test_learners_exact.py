"""The exact analysis of the study of learners: what its page says, and which worlds have one."""

from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import Path

import polars as pl
import pytest

from asymrl.studies.arm_tables import exact_parts, exact_table
from asymrl.studies.half_experts import STAGES
from asymrl.studies.other_learners import STUDY, exact
from asymrl.theory import q_fixed_point

PAGE = (Path(__file__).parents[2] / "docs" / "studies" / "learners.md").read_text()
CACHED = functools.cache(exact)
CACHED_STUDY = dataclasses.replace(STUDY, exact=CACHED)
LAMBDAS = ("lambda 0", "lambda 0.95")


def numbers(world: str) -> dict[str, dict[str, float]]:
    """The exact numbers of a world, by arm."""
    return {row["arm"]: row for row in CACHED(world).to_dicts()}


def shown(title: str, world: str) -> list[str]:
    """The cells of a world in the table of the page whose first cell is this."""
    table = PAGE.partition(f"\n| {title} |")[2].partition("\n\n")[0]
    (cells,) = re.findall(rf"^\| {world} \| (.*) \|$", table, re.M)
    return cells.split(" | ")


@pytest.mark.parametrize(
    "world",
    [
        "heaven-hell-3",
        pytest.param("heaven-hell-4", marks=pytest.mark.slow),
        "shopping-5",
        pytest.param("shopping-6", marks=pytest.mark.slow),
    ],
)
def test_the_page_has_the_cosines(world: str):
    """Bootstrapping on V(s) turns the gradient around, or nearly so, at lambda 0; other critics never do."""
    rows, columns = numbers(world), [f"{stage}: cosine, {lambda_}" for stage in STAGES for lambda_ in LAMBDAS]
    assert shown("V(s), cosine", world) == [f"{rows['ppo V(s)'][column]:.2f}" for column in columns]
    for critic in ("V(h)", "V(h, s)"):
        assert [rows[f"ppo {critic}"][column] for column in columns] == pytest.approx([1] * 6, abs=1e-9)


@pytest.mark.parametrize("world", ["heaven-hell-3", pytest.param("heaven-hell-4", marks=pytest.mark.slow)])
def test_the_page_has_the_greedy_returns(world: str):
    """Whichever agent fills the replay, Q(h) and Q(h, s) end with an optimal policy, and Q(s) with a worthless one."""
    rows, (*cells, optimal) = numbers(world), shown("greedy return", world)
    for critic, cell in zip(("Q(h)", "Q(s)", "Q(h, s)"), cells, strict=True):
        assert [f"{rows[f'dqn {critic}'][f'{stage}: greedy return']:.2f}" for stage in STAGES] == [cell] * 3
    assert optimal == f"{q_fixed_point(world, 'dqn').optimal_return:.2f}"


def test_worlds_without_an_exact_analysis_have_no_table():
    assert STUDY.exact is exact
    setup = next(setup for setup in STUDY.setups if setup.name == "car-flag")
    assert exact_parts(STUDY, setup) == {}
    assert exact_table(STUDY.narrowed(["car-flag", "cleaner"])).is_empty()


def test_what_is_printed_of_a_part_has_no_empty_columns():
    part = CACHED_STUDY.narrowed(["shopping-5", "heaven-hell-3"], arms=["dqn"])
    tables = {setup.name: exact_parts(part, setup) for setup in part.setups}
    assert tables["shopping-5"] == {}  # too many beliefs for tables of Q(h, a)
    assert {name: table.columns for name, table in tables["heaven-hell-3"].items()} == {
        stage: ["arm", "greedy return"] for stage in STAGES
    }


def test_the_numbers_of_the_runs_have_the_exact_ones_beside_them():
    table = exact_table(CACHED_STUDY.narrowed(["heaven-hell-3", "car-flag"]))
    assert table["setup"].unique().to_list() == ["heaven-hell-3"]
    assert table["arm"].to_list() == STUDY.labels()
    assert table.filter(pl.col("half: greedy return").is_not_null())["arm"].str.starts_with("dqn").all()
