"""The numbers on the page about lost tasks, from the runs, falls and replays that ship."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import asymrl
from asymrl.report.falls import falls_table
from asymrl.report.findings import Findings
from asymrl.settings import new_settings
from asymrl.studies.answers import answer
from asymrl.studies.fall_replays.replay_tables import EPISODES
from asymrl.studies.fall_replays.variants import usual_arm
from asymrl.studies.lost_tasks import METHOD, STUDY

ROOT = Path(__file__).parents[2]
PHASES = ("before", "0", "1-2", "6-10", "21-40", "41-60")
QUANTITIES = {
    "critic_step_norm": "length of the critic's step",
    "actor_step_norm": "length of the actor's step",
    "critic_loss": "loss of the critic",
    "critic_gradient_norm": "norm of the critic's gradient",
    "actor_gradient_norm": "norm of the actor's gradient",
    "entropy": "entropy of the policy",
}
CLIPPED = ("critic clip 1", "nothing")


@functools.cache
def found() -> Findings:
    return answer(STUDY, ROOT / "results" / "studies" / "lost")


@functools.cache
def page() -> str:
    return (ROOT / "docs" / "studies" / "lost.md").read_text()


def words() -> str:
    """The page without line breaks."""
    return " ".join(page().split())


def order_rows() -> list[str]:
    rows = found().tables["lost-order"].rows_by_key("quantity", named=True, unique=True)
    return [
        f"| {name} | " + " | ".join(f"{rows[quantity][phase]:.2g}" for phase in PHASES) + " |"
        for quantity, name in QUANTITIES.items()
    ]


def replay_cells(later: int) -> dict[str, str]:
    """The last two cells of the row of each variant."""
    table = found().tables["lost-replays"].filter(later=later)
    return {
        row["variant"]: f"{row['fell']} of {row['replays']} | "
        f"{row['share']:.2f} [{row['share_low']:.2f}, {row['share_high']:.2f}] |"
        for row in table.to_dicts()
    }


def is_floor(row: dict[str, Any]) -> bool:
    return row["arm"].startswith("floor")


def hunt_rows() -> list[str]:
    return [
        table_row(row["base"], row["arm"], row["runs"], *rate_cells(row))
        for row in found().tables["lost-hunts"].to_dicts()
        if not is_floor(row)
    ]


def floor_rows() -> list[str]:
    return [
        table_row(row["base"], row["arm"].split()[-1], row["lost_before"], row["runs"], *rate_cells(row))
        for row in found().tables["lost-hunts"].to_dicts()
        if is_floor(row)
    ]


def rate_cells(row: dict[str, Any]) -> list[str]:
    bounds = f"[{row['falls_per_million_low']:.1f}, {row['falls_per_million_high']:.1f}]"
    p = "" if row["arm"] == usual_arm(row["arm"]) else f"{row['p']:.2g}"
    return [f"{row['millions']:.2f}", str(row["falls"]), f"{row['falls_per_million']:.1f} {bounds}", p]


def table_row(*cells: Any) -> str:
    return ("| " + " | ".join(map(str, cells)) + " |").replace("|  |", "| |")


def arm_cells() -> dict[str, str]:
    """All cells of the row of each arm but the first two."""
    cells = {}
    for row in found().numbers.to_dicts():
        rate = (
            f"{row['falls_per_million']:.2f} [{row['falls_per_million_low']:.2f}, {row['falls_per_million_high']:.2f}]"
        )
        numbers = [
            row["ever_solved"],
            f"{row['first_solved'] / 1e6:.2f}",
            f"{row['solved_millions']:.0f}",
            row["falls"],
        ]
        numbers += [row["fallen_runs"], rate, f"{row['kick']:.1f}"]
        cells[row["arm"]] = " | ".join(map(str, numbers)) + " |"
    return cells


def test_the_order_of_events() -> None:
    assert "\n".join(order_rows()) in page()
    falls = found().tables["lost-falls"]
    sudden = falls.filter("sudden")
    assert f"{len(falls)} falls were recorded" in words()
    assert f"In {len(sudden)} of the {len(falls)} the critic's step jumps" in words()
    low, high = (f"{value:.0f}" for value in (sudden["critic_kick"].min(), sudden["critic_kick"].max()))
    assert f"to {low} to {high} times its usual length" in words()
    assert f"{(sudden['first_return'] == -1).sum()} of these after an episode in hell" in words()


@pytest.mark.parametrize("later", [0, 10])
def test_the_replays(later: int) -> None:
    parts = page().partition("| replay, from 10 updates after |")
    text = parts[2].partition("\n\n")[0] if later else parts[0]
    cells = replay_cells(later)
    for variant, expected in cells.items():
        assert re.search(rf"^\| {re.escape(variant)} \| [^|]*\| {re.escape(expected)}$", text, re.M), variant
    listed = re.findall(r"^\| ([^|]+) \| [^|]*\| \d+ of \d+ \|", text, re.M)
    assert sorted(listed) == sorted(cells)


def test_shares_that_the_text_compares() -> None:
    rows = found().tables["lost-replays"].filter(later=0).rows_by_key("variant", named=True, unique=True)
    seed1, agent = ([rows[name][f"from_{state}"] for name in CLIPPED] for state in ("seed1", "agent"))
    fewer, few = (each[0].split()[0] for each in (seed1, agent))
    shown = f"{fewer} instead of {seed1[1]} replays from seed 1, but only {few} instead of {agent[1]}"
    assert f"(p = {rows['critic clip 1']['p']:.2g}; {shown} from the agent)" in words()
    for variant, ending in (
        ("100 updates before", "fall from 100 updates before"),
        ("10 updates after", "from 10 updates"),
    ):
        assert f"{rows[variant]['fell']} of {rows[variant]['replays']} {ending}" in words()
    # The first failed episode is not the cause: as many replays fall without it.
    for variant in ("episode does not happen", "its update skipped"):
        assert rows[variant]["share"] >= rows["nothing"]["share"]


def test_short_episodes_and_the_target() -> None:
    falls, period = found().tables["lost-falls"], new_settings(world="heaven-hell-3", method=METHOD).target_period
    lengths, since = falls["episode_length"], falls["steps_since_copy"].drop_nulls()
    assert f"{lengths.min():.0f} to {lengths.max():.0f} steps before the recorded falls" in words()
    lasting = sorted(round(period / (EPISODES * length), -1) for length in lengths)
    assert f"a copy lasts for {lasting[0]:.0f} to {lasting[-1]:.0f} updates" in words()
    assert f"{since.min()} to {since.max()} steps after one in the {len(since)} records" in words()
    # They begin in every quarter of the time between two copies.
    assert {int(4 * each / period) for each in since} == {0, 1, 2, 3}
    rows = found().tables["lost-replays"].filter(later=0).rows_by_key("variant", named=True, unique=True)
    assert rows["target never copied"]["fell"] == rows["nothing"]["fell"]
    rates = {row["arm"]: row["falls_per_million"] for row in found().numbers.to_dicts()}
    assert rates["target 1000"] > rates["paper"]


def test_runs_with_the_change_from_the_start() -> None:
    assert "\n".join(hunt_rows()) in page()
    table = found().tables["lost-hunts"]
    for arm, ending in (("both clip 1", "runs fall with it"), ("nothing", "without")):
        own = table.filter(arm=arm)
        assert f"{own['falls'].sum()} of {own['runs'].sum()} {ending}" in words()


def test_the_entropy_at_its_floor() -> None:
    assert "\n".join(floor_rows()) in page()
    rows = {(row["base"], row["arm"]): row for row in found().tables["lost-hunts"].to_dicts() if is_floor(row)}
    assert all(row["runs"] + row["lost_before"] == 20 for row in rows.values())
    lost = {arm: sum(row["lost_before"] for (_, own), row in rows.items() if own == arm) for _, arm in rows}
    assert f"{lost.pop('floor x 3')} of 40 runs lose the task on the way" in words()
    assert not any(lost.values())
    # A lower floor makes the agent's falls rarer; no other difference is shown.
    assert [key for key, row in rows.items() if row["p"] < 0.05] == [("agent", "floor x 0.3")]
    assert rows["agent", "floor x 0.3"]["falls_per_million"] < rows["agent", "floor x 1"]["falls_per_million"] / 2
    assert all(row["falls"] == row["runs"] for (base, _), row in rows.items() if base == "seed1")


def test_the_earlier_attempt() -> None:
    for arm, expected in arm_cells().items():
        assert re.search(rf"^\| {re.escape(arm)} \| [^|]*\| {re.escape(expected)}$", page(), re.M), arm
    rates = {row["arm"]: row["p"] for row in found().numbers.to_dicts() if row["p"] < 0.05}
    assert list(rates) == ["eps 1e-2", "target 1000"]
    assert [f"{p:.2g}" for p in rates.values()] == ["0.00014"] * 2
    metrics = asymrl.load(ROOT / "results" / "curves").metrics.filter(pl.col("method") == "a2c-asym-hs")
    for world, shown in (("heaven-hell-3", "10 falls in 169 M"), ("heaven-hell-4", "11 in 80 M")):
        runs = falls_table(metrics.filter(pl.col("world") == world))
        falls, millions = runs["falls"].sum(), float(runs["solved_steps"].sum()) / 1e6
        assert (f"{falls} falls in {millions:.0f} M" if "falls" in shown else f"{falls} in {millions:.0f} M") == shown
        assert shown in words()
