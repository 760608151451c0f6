"""The numbers on the pages of studies 1 to 3, from the runs that ship."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from asymrl.stores.store import Store
from asymrl.studies import STUDIES
from asymrl.studies.answers import answer
from asymrl.studies.bootstrap_or_baseline import LAMBDAS, label
from asymrl.studies.choosing import search_table

ROOT = Path(__file__).parents[2]
WORLD = "heaven-hell-3"
RUNS = 20


def page(name: str, world: str = WORLD) -> str:
    """What the page of a study says about its result in a world."""
    text = (ROOT / "docs" / "studies" / f"{name}.md").read_text()
    return text.partition(f"## Result: {world}\n")[2].partition("\n## Result")[0]


def tables(name: str, world: str = WORLD) -> tuple[dict[str, dict], dict[tuple[str, str], dict]]:
    """The rows of the arms, and of the comparisons, of a study's shipped runs."""
    found = answer(STUDIES[name].narrowed([world]), ROOT / "results" / "studies" / name)
    compared = found.tables[f"{name}-comparisons"].to_dicts()
    return {row["arm"]: row for row in found.numbers.to_dicts()}, {(row["arm"], row["than"]): row for row in compared}


def solved(row: dict) -> int:
    return round(row["solved"] * RUNS)


def mean(row: dict) -> str:
    return f"{row['mean']:.2f} ± {row['standard_error']:.2f}"


def chance(row: dict) -> str:
    return f"{row['improvement']:.2f} [{row['improvement_low']:.2f}, {row['improvement_high']:.2f}]"


def test_bootstrap() -> None:
    arms, compared = tables("bootstrap")
    for critic, name in (("h", "V(h)"), ("s", "V(s)"), ("hs", "V(h, s)")):
        rows = [arms[label(critic, lambda_)] for lambda_ in LAMBDAS]
        assert f"| {name} | " + " | ".join(str(solved(row)) for row in rows) + " |" in page("bootstrap")
        assert f"| {name} mean | " + " | ".join(map(mean, rows)) + " |" in page("bootstrap")
    for other in ("V(h, s), MC", "V(h), MC"):
        assert chance(compared["V(s), MC", other]) in page("bootstrap").replace("\n", " ")
    weights = [row["entropy_weight"] for arm, row in arms.items() if not arm.endswith("TD(0)")]
    assert sorted(weights) == [0.03] * 11 + [0.1]


def test_search_of_shopping() -> None:
    study, folder = STUDIES["bootstrap"].narrowed(["shopping-5"]), ROOT / "results" / "studies" / "bootstrap"
    rows = search_table(study, Store.open(folder)).filter(pl.col("setup") == "shopping-5", pl.col("chosen") == "*")
    best = dict(rows.select("arm", "mean").iter_rows())
    text = (ROOT / "docs" / "studies" / "bootstrap.md").read_text().partition("## shopping-5, the search\n")[2]
    for critic, name in (("h", "V(h)"), ("s", "V(s)"), ("hs", "V(h, s)")):
        means = [f"{best[label(critic, lambda_)]:.1f}" for lambda_ in LAMBDAS]
        assert f"| {name} search | " + " | ".join(means) + " |" in text


@pytest.mark.parametrize(
    ("name", "world", "pairs"),
    [
        ("information", WORLD, [("V(h, b)", "V(h, s)"), ("V(h, s)", "V(h, s~b)"), ("V(b)", "V(h, s)")]),
        ("information", "shopping-5", [("V(b)", "V(h, s)")]),
        ("knowledge", WORLD, [("V(h, heaven-side)", "V(h, s)"), ("V(h, position)", "V(h)")]),
    ],
)
def test_critics(name: str, world: str, pairs: list[tuple[str, str]]) -> None:
    arms, compared = tables(name, world)
    lines = re.findall(r"^\| (V\([^|]+\)) \| (\d+) \| ([^|]+) \| ([^|]*?) ?\|$", page(name, world), re.M)
    assert [line[0] for line in lines] == list(arms)
    for arm, count, shown, steps in lines:
        assert (int(count), shown) == (solved(arms[arm]), mean(arms[arm]))
        known = arms[arm]["steps_to_solve"]
        assert steps == ("" if known is None else f"{known / 1e6:.2f} M")
    for pair in pairs:
        assert chance(compared[pair]) in page(name, world).replace("\n", " ")
