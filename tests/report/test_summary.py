"""The summary of runs: exact lines from tables made by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from asymrl.report.summary import comparable, next_commands, ranking_of, reference_of, summary
from asymrl.settings import A2CSettings


def runs(world: object = "heaven-hell-3", **changes: object) -> pl.DataFrame:
    """Two runs that ended with a final return of 0.5 and 0.7."""
    columns = {
        "run": [0, 1], "world": world, "method": "a2c", "steps": 1000, "critic_rate": 0.001, "seed": [0, 1],
        "status": ["complete", "complete"], "timesteps": [1001, 1003], "episodes_played": [100, 120],
        "updates": [50, 60], "final_return": [0.5, 0.7], "recent_return": [0.4, 0.8], "recent_length": [10.0, 20.0],
    }  # fmt: skip
    return pl.DataFrame({**columns, **changes})


def test_the_summary_compares_with_random_and_best():
    assert summary(runs()).splitlines() == [
        "final return    0.60 ± 0.10  over the last tenth of training (mean ± standard error of 2 runs)",
        "each run        0.50  0.70",
        "last episodes   return 0.60 ± 0.20, length 15.00 ± 5.00  over the last 100 episodes",
        "random policy   0",
        "best known      1",
        "reached         60% of the way from a random policy to the best known",
        "trained         2 004 steps, 110 updates",
    ]


def test_the_summary_says_how_many_episodes_there_were():
    few = runs(episodes_played=[10, 300])
    assert "length 15.00 ± 5.00  over the last 100 episodes, or all\n" in summary(few)
    assert "length 10.00  over all 10 episodes\n" in summary(few.head(1))
    assert "length 20.00  over the last 100 episodes\n" in summary(few.tail(1))


def test_the_summary_leaves_out_failed_runs_and_references_that_do_not_apply():
    text = summary(runs(status=["complete", "failed"]).insert_column(3, pl.Series("time_limit", [50, 50])))
    assert "final return    0.50  over the last tenth of training\n" in text
    assert "failed          seed 1: a number was not finite; left out above" in text
    assert "random" not in text


def test_references_are_for_the_usual_task():
    known = reference_of(A2CSettings(world="shopping-5"))
    assert known is not None
    assert (*known.random_and_best, known.zero) == pytest.approx((-142.494659, 4.0, -62.0))
    assert reference_of(A2CSettings(world="shopping-5", time_limit=50)) is None
    assert reference_of(A2CSettings(world="shopping-5", action_repeat=2)) is None
    others = {"time_limit": 50}, {"action_repeat": 2}
    assert [comparable(runs("shopping-5", **change)) for change in ({}, *others)] == [True, False, False]


def test_runs_without_an_episode_have_no_return():
    assert summary(runs(final_return=[None, None], timesteps=[0, 0])) == "trained         0 steps, 110 updates"
    lines = summary(runs(final_return=[None, 0.7], recent_return=[None, 0.8], recent_length=[None, 20.0])).splitlines()
    assert lines[:2] == [
        "no return yet   no episode was over in 1 of 2 runs; train for more steps, or set a shorter --time-limit",
        "final return    0.70  over the last tenth of training",
    ]


def test_bounds_are_called_so():
    text = summary(runs("memory-four-rooms-7x7"))
    assert "best known      3.73 .. 4.521 (proven bounds)" in text
    assert "48% of the way from a random policy to the lower bound of the best" in text


@pytest.mark.parametrize(
    ("final", "reached"),
    [
        # Only listening gets -100; the random policy, -3033, would make 92 % of this.
        (-142.0, "less than the best uninformed policy"),
        (-100.0, "0% of the way from the best uninformed policy to the best known"),
        (107.0769 / 2 - 50, "50% of the way from the best uninformed policy to the best known"),
    ],
)
def test_not_doing_the_worst_is_no_achievement(final: float, reached: str):
    lines = summary(runs("tiger", final_return=[final, final])).splitlines()
    assert lines[3:7] == [
        "random policy   -3033.33",
        "uninformed      -100  for the best policy that ignores what it sees",
        "best known      107.08",
        f"reached         {reached}",
    ]


def test_where_nothing_is_known_nothing_is_said():
    text = summary(runs("cart-pole:unknown=1"))
    assert "known" not in text
    # The best policy of the cleaner needs no observation, so that a random one stays the zero.
    assert "from a random policy to the best known" in summary(runs("cleaner", final_return=[40.0, 50.0]))


def test_the_summary_separates_settings_worlds_and_methods():
    """A mean over several kinds of runs would mean nothing, and one over worlds less than that."""
    assert summary(runs(critic_rate=[0.001, 0.5])).splitlines() == [
        "final return    over the last tenth of training (mean ± standard error)",
        "heaven-hell-3",
        "                0.50  a2c, critic_rate 0.001, 1 run",
        "                0.70  a2c, critic_rate 0.5, 1 run",
        "random policy   0",
        "best known      1",
        "reached         70% of the way from a random policy to the best known, by the best of these",
        "trained         2 004 steps, 110 updates",
    ]
    two = pl.concat([runs(), runs("tiger", method="a2c-asym-s", critic_rate=0.5, final_return=[-20.0, -20.0])])
    assert summary(two).splitlines() == [
        "final return    over the last tenth of training (mean ± standard error)",
        "heaven-hell-3",
        "                0.60 ± 0.10  a2c, 2 runs",
        "tiger",
        "                -20.00 ± 0.00  a2c-asym-s, 2 runs",
        "trained         4 008 steps, 220 updates",
    ]


def test_kinds_of_runs_are_ranked_within_their_world():
    """Two runs of each kind; of the last kind one failed, and a world without a sound run has no number."""
    four = pl.concat([runs(), runs(critic_rate=0.5, final_return=[0.9, 0.7])])
    ranked = ranking_of(four)
    assert ranked.columns == [
        "world", "method", "critic_rate", "runs", "final_return", "final_return_low", "final_return_high",
    ]  # fmt: skip
    assert ranked["critic_rate"].to_list() == [0.5, 0.001]
    assert ranked["final_return"].to_list() == pytest.approx([0.8, 0.6])
    assert ranked["final_return_low"].to_list() == pytest.approx([0.7, 0.5])
    failed = runs("cleaner", status=["complete", "failed"])
    nothing = runs("tiger", status=["failed", "failed"])
    ranked = ranking_of(pl.concat([failed, nothing, four]))
    assert ranked["world"].to_list() == ["cleaner", "tiger", "heaven-hell-3", "heaven-hell-3"]
    assert ranked["runs"].to_list() == [1, 0, 2, 2]
    assert ranked["failed"].to_list() == [1, 2, 0, 0]
    assert ranked["final_return"].to_list() == pytest.approx([0.5, None, 0.8, 0.6])


def test_what_follows_from_the_world_tells_nothing_apart():
    """The discount of each world is its own."""
    each = [runs(world).with_columns(critic_rate=pl.lit(rate)) for world, rate in (("tiger", 0.5), ("cleaner", 0.1))]
    assert ranking_of(pl.concat(each)).columns[:3] == ["world", "method", "runs"]


def test_references_hold_for_the_default_time_limit():
    assert comparable(runs())
    assert comparable(pl.DataFrame({"world": ["tiger"], "time_limit": [100]}))
    assert not comparable(pl.DataFrame({"world": ["tiger", "tiger"], "time_limit": [100, 50]}))
    assert comparable(pl.DataFrame({"world": ["tiger", "cart-pole"], "time_limit": [100, 500]}))
    assert not comparable(pl.DataFrame({"world": ["cart-pole"], "time_limit": [100]}))


def test_the_next_commands_double_the_steps_in_whole_periods():
    text = next_commands(Path("runs/here"), A2CSettings("tiger", steps=1000, log_points=20))
    assert text.splitlines()[-1] == "asymrl resume runs/here --steps 2000"
    text = next_commands(Path("runs/here"), A2CSettings("tiger"), {"method": "a2c"})
    assert text.splitlines()[0] == "asymrl evaluate runs/here --where method=a2c"
    assert "asymrl evaluate" not in next_commands(Path("runs/here"), A2CSettings("tiger"), has_networks=False)
