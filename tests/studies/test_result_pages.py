"""The numbers on the pages of studies 1 to 3, from the runs that ship."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asymrl.studies import STUDIES
from asymrl.studies.answers import answer
from asymrl.studies.bootstrap_or_baseline import LAMBDAS, label

ROOT = Path(__file__).parents[2]
WORLD = "heaven-hell-3"
RUNS = 20


def page(name: str) -> str:
    return (ROOT / "docs" / "studies" / f"{name}.md").read_text().partition("## Result")[2]


def tables(name: str) -> tuple[dict[str, dict], dict[tuple[str, str], dict]]:
    """The rows of the arms, and of the comparisons, of a study's shipped runs."""
    found = answer(STUDIES[name].narrowed([WORLD]), ROOT / "results" / "studies" / name)
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


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("information", [("V(h, b)", "V(h, s)"), ("V(h, s)", "V(h, s~b)"), ("V(b)", "V(h, s)")]),
        ("knowledge", [("V(h, heaven-side)", "V(h, s)"), ("V(h, position)", "V(h)")]),
    ],
)
def test_critics(name: str, pairs: list[tuple[str, str]]) -> None:
    arms, compared = tables(name)
    lines = re.findall(r"^\| (V\([^|]+\)) \| (\d+) \| ([^|]+) \| ([^|]*?) ?\|$", page(name), re.M)
    assert [line[0] for line in lines] == list(arms)
    for arm, count, shown, steps in lines:
        assert (int(count), shown) == (solved(arms[arm]), mean(arms[arm]))
        known = arms[arm]["steps_to_solve"]
        assert steps == ("" if known is None else f"{known / 1e6:.2f} M")
    for pair in pairs:
        assert chance(compared[pair]) in page(name).replace("\n", " ")
