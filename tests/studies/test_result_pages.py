"""The numbers on the pages of studies 1 to 3, from the runs that ship."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from asymrl.report.curves import Curves, curves
from asymrl.report.intervals import normalised
from asymrl.runs.wording import estimate
from asymrl.studies import STUDIES
from asymrl.studies.answers import answer
from asymrl.studies.bootstrap_or_baseline import LAMBDAS, label

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
    return estimate(row["mean"], row["standard_error"])


def steps(row: dict) -> str:
    """Millions of steps until the median run solved the world; nothing where it did not."""
    return "" if row["steps_to_solve"] is None else f"{row['steps_to_solve'] / 1e6:.2f}"


def chance(row: dict, name: str = "improvement") -> str:
    return f"{row[name]:.2f} [{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}]"


@pytest.mark.parametrize("world", [WORLD, "shopping-5", "heaven-hell-4"])
def test_bootstrap(world: str) -> None:
    (arms, compared), text = tables("bootstrap", world), page("bootstrap", world)
    for critic, name in (("h", "V(h)"), ("s", "V(s)"), ("hs", "V(h, s)")):
        rows = [arms[label(critic, lambda_)] for lambda_ in LAMBDAS]
        assert f"| {name} | " + " | ".join(str(solved(row)) for row in rows) + " |" in text
        assert f"| {name} mean | " + " | ".join(map(mean, rows)) + " |" in text
        if world == "shopping-5":
            (cells,) = re.findall(rf"^\| {re.escape(name)} steps \|(.*)\|$", text, re.M)
            assert [cell.strip() for cell in cells.split("|")] == [steps(row) for row in rows]
    for other in ("V(h, s), MC", "V(h), MC"):
        assert chance(compared["V(s), MC", other]) in text.replace("\n", " ")
    by_weight = {arm: row["entropy_weight"] for arm, row in arms.items()}
    if world != "shopping-5":
        weights = [weight for arm, weight in by_weight.items() if not arm.endswith("TD(0)")]
        assert sorted(weights) == [0.03] * 11 + [0.1]
    else:
        largest = {"V(s), MC", "V(h, s), MC", "V(s), TD(0)", "V(h), TD(0.95)", "V(s), TD(0.95)"}
        assert {arm for arm, weight in by_weight.items() if weight == 10} == largest


def test_in_the_larger_world_only_bootstrapping_on_history_and_state_gets_far() -> None:
    (arms, compared), text = tables("bootstrap", "heaven-hell-4"), page("bootstrap", "heaven-hell-4").replace("\n", " ")
    others = sum(solved(arms[label(critic, lambda_)]) for critic in ("h", "s") for lambda_ in LAMBDAS)
    assert f"of the other critics, {others} of 200 do" in text
    for other in ("V(h), TD(0)", "V(s), TD(0)"):
        assert chance(compared["V(h, s), TD(0)", other]) in text
    counts = [solved(arms[label("hs", lambda_)]) for lambda_ in LAMBDAS]
    assert (
        f"{sum(counts[:2])} of 40 solve the world with lambda 0 or 0.5, and {sum(counts[2:])} of 60 with more" in text
    )
    means = {lambda_: arms[label("s", lambda_)]["mean"] for lambda_ in LAMBDAS}
    assert [lambda_ for lambda_, value in means.items() if value > 0.1] == [0.8]
    assert arms[label("s", 0.8)]["solved_once"] * RUNS == 2


@pytest.mark.parametrize(
    ("name", "world", "pairs"),
    [
        ("information", WORLD, [("V(h, b)", "V(h, s)"), ("V(h, s)", "V(h, s~b)"), ("V(b)", "V(h, s)")]),
        ("information", "shopping-5", [("V(b)", "V(h, s)")]),
        ("information", "rock-sample-3-3", [("V(h, s)", "V(h)"), ("V(s, t)", "V(h)")]),
        ("knowledge", WORLD, [("V(h, heaven-side)", "V(h, s)"), ("V(h, position)", "V(h)")]),
        ("knowledge", "shopping-5", [("V(h, item)", "V(h, s)"), ("V(h, position)", "V(h)")]),
    ],
)
def test_critics(name: str, world: str, pairs: list[tuple[str, str]]) -> None:
    arms, compared = tables(name, world)
    lines = re.findall(r"^\| (V\([^|]+\)) \| (\d+) \| ([^|]+) \| ([^|]*?) ?\|$", page(name, world), re.M)
    assert [line[0] for line in lines] == list(arms)
    for arm, count, shown, needed in lines:
        assert (int(count), shown) == (solved(arms[arm]), mean(arms[arm]))
        assert needed == (f"{found} M" if (found := steps(arms[arm])) else "")
    for pair in pairs:
        assert chance(compared[pair]) in page(name, world).replace("\n", " ")


def first_solved(name: str, *where: pl.Expr) -> np.ndarray:
    """The step at which each final run in shopping-5 first had a normalised score above 0.98; infinite if never."""
    table = pl.read_parquet(ROOT / "results" / "studies" / name / "metrics.parquet")
    table = table.filter(pl.col("world") == "shopping-5", pl.col("seed") < RUNS, *where)
    table = table.filter(normalised(table["return"].cast(pl.Float64).to_numpy(), "shopping-5") > 0.98)
    first = table.group_by("seed").agg(pl.col("timestep").min())["timestep"].to_numpy()
    return np.concatenate([first, np.full(RUNS - len(first), np.inf)])


def test_who_solves_shopping_sooner_and_who_loses_it_again() -> None:
    (arms, compared), text = tables("knowledge", "shopping-5"), page("knowledge", "shopping-5").replace("\n", " ")
    assert arms["V(h)"]["solved_once"] == 1 > arms["V(h)"]["solved"]
    for arm, than in (("V(h, item)", "V(h, s)"), ("V(h, position)", "V(h)")):
        shown = chance(compared[arm, than], "sooner")
        assert f"a run of {arm} solves the world sooner than one of {than} with probability {shown}" in text
    arms, _ = tables("bootstrap", "shopping-5")
    for critic, lambdas in (("h", (0, 0.5, 0.8)), ("hs", (0, 0.5, 0.8, 0.95))):
        for lambda_ in lambdas:
            assert arms[label(critic, lambda_)]["solved_once"] == 1, (critic, lambda_)


@pytest.mark.parametrize(("critic", "method"), [("h", "a2c"), ("s", "a2c-asym-s"), ("hs", "a2c-asym-hs")])
def test_runs_that_solved_a_world_once_may_have_lost_it(critic: str, method: str) -> None:
    arms, _ = tables("bootstrap", "shopping-5")
    for lambda_ in LAMBDAS:
        first = first_solved("bootstrap", pl.col("method") == method, pl.col("td_lambda") == lambda_)
        row = arms[label(critic, lambda_)]
        assert row["solved_once"] == np.isfinite(first).mean() >= row["solved"]


def mean_curve(arm: str) -> tuple[np.ndarray, np.ndarray]:
    """Millions of steps and the mean return of the runs of an arm of the study `information` in shopping-5."""
    (row,) = [each for each in STUDIES["information"].arms_in(STUDIES["information"].setups[1]) if each.label == arm]
    table = pl.read_parquet(ROOT / "results" / "studies" / "information" / "metrics.parquet")
    seen = [pl.col(name) == value for name, value in row.settings.items()]
    lines: Curves = curves(table.filter(pl.col("world") == "shopping-5", *seen))
    assert len(lines.values) == RUNS
    return lines.timesteps / 1e6, lines.band()[0]


def test_state_and_time_rise_and_fall() -> None:
    text = page("information", "shopping-5").replace("\n", " ")
    steps_taken, returns = mean_curve("V(s, t)")
    best = int(returns.argmax())
    assert f"V(s, t) reaches {returns[best]:.1f} after {steps_taken[best]:.2f} million steps" in text
    assert f"million steps and ends at {returns[-1]:.1f}" in text
    passing = [float(x[np.argmax(y > -50)]) for x, y in (mean_curve("V(s, t)"), mean_curve("V(b)"))]
    assert f"pass -50 after {passing[0]:.2f} and {passing[1]:.2f} million steps" in text


@pytest.mark.slow
@pytest.mark.parametrize("world", [WORLD, "shopping-5", "rock-sample-3-3"])
def test_what_is_readable_orders_the_critics_that_read_the_history_in_two_worlds(world: str) -> None:
    """A critic whose input explains more has no lower final return; critics that explain as much are not compared."""
    arms = tables("information", world)[0]

    def is_ordered(labels: Iterable[str]) -> bool:
        pairs = itertools.permutations([arms[label] for label in labels], 2)
        clear = [(less, more) for less, more in pairs if less["half: readable"] < more["half: readable"] - 1e-6]
        return all(less["iqm"] <= more["iqm"] for less, more in clear)

    assert not is_ordered(arms)
    of_history = [label for label in arms if label.startswith("V(h")]
    assert len(of_history) == 4
    assert is_ordered(of_history) == (world != "rock-sample-3-3")
