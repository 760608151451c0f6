"""Which critic to use: each verdict from runs made up to deserve it."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

from asymrl.report.comparison import MethodScores, choose, needs, on_privilege, rows_of, scores_of, table
from asymrl.report.intervals import can_separate, detectable_difference
from asymrl.report.reasons import reasons
from asymrl.worlds import make

LOW, HIGH = np.array([0.1, 0.2, 0.3, 0.2]), np.array([1.1, 1.2, 1.3, 1.2])
MIXED = np.array([0.15, 0.25, 0.1, 0.3])


def test_scores_are_the_final_return_and_the_mean_over_training():
    points = {"a2c": {0: [1.0, 2.0, 6.0], 1: [0.0, 0.0, 3.0]}, "a2c-asym-hs": {0: [4.0, 4.0, 4.0], 1: [1.0, 2.0, 3.0]}}
    rows = [
        {"method": method, "seed": seed, "timestep": timestep, "return": value, "steps": 100}
        for method, runs in points.items()
        for seed, values in runs.items()
        for timestep, value in zip((0, 50, 90), values, strict=True)
    ]
    found = scores_of(pl.DataFrame(rows))
    np.testing.assert_array_equal(found["a2c"].final, [6, 3])
    np.testing.assert_array_equal(found["a2c"].during, [3, 1])
    np.testing.assert_array_equal(found["a2c-asym-hs"].during, [4, 2])


def test_a_method_that_always_wins_is_chosen():
    scores = {"a2c": MethodScores(LOW, LOW), "a2c-asym-hs": MethodScores(HIGH, HIGH)}
    choice = choose(scores)
    assert choice.method == "a2c-asym-hs"
    assert choice.verdict == "Use a2c-asym-hs; it needs the state while it trains, not afterwards."
    assert choice.reason == "Its final return beats that of a2c, the next best, with probability 1.00 [1.00, 1.00]."
    assert "helps here" in str(on_privilege(scores))
    assert "does harm here" in str(
        on_privilege({"a2c": MethodScores(HIGH, LOW), "a2c-asym-hs": MethodScores(LOW, LOW)})
    )


def test_every_learner_is_compared_with_its_own_method_without_state():
    scores = {name: MethodScores(LOW, LOW) for name in ("ppo", "dqn")}
    scores |= {name: MethodScores(HIGH, HIGH) for name in ("ppo-asym-hs", "adqn-vr")}
    assert "V(h, s) instead of V(h), helps here: a run of ppo-asym-hs beats one of ppo" in str(on_privilege(scores))
    assert "Q(h, s) instead of Q(h), helps here: a run of adqn-vr beats one of dqn" in str(on_privilege(scores))
    assert "beats ppo" in table(rows_of(scores))
    alone = {"ppo-asym-hs": scores["ppo-asym-hs"]}
    assert "beats" not in table(rows_of(alone))


def test_among_equals_the_one_that_learns_fastest_is_chosen():
    choice = choose({"a2c": MethodScores(LOW, LOW), "a2c-asym-hs": MethodScores(MIXED, HIGH)})
    assert choice.method == "a2c-asym-hs"
    assert choice.verdict.startswith("Use a2c-asym-hs, which learns fastest; it needs the state while it trains")
    assert "do not separate a2c and a2c-asym-hs; its mean return over training is 1.20 [" in choice.reason


def test_where_runs_separate_nothing_the_safest_is_chosen():
    scores = {
        "a2c-asym-s": MethodScores(LOW, LOW),
        "a2c-asym-hs": MethodScores(MIXED, MIXED),
        "a2c": MethodScores(LOW, MIXED),
    }
    choice = choose(scores)
    assert choice.method == "a2c"
    assert choice.verdict == "No method is shown to be best; use a2c, which needs no state."
    assert "do not separate a2c, a2c-asym-hs and a2c-asym-s" in choice.reason
    needed = detectable_difference(MIXED[:, None], LOW[:, None])
    effect = f"no effect that these runs could show (of the final return, they would show a difference of {needed:.2f}"
    assert effect in str(on_privilege(scores))
    assert on_privilege({"a2c-asym-s": scores["a2c-asym-s"]}) is None


def test_a_method_that_is_not_the_papers_can_be_among_the_equals():
    scores = {name: MethodScores(LOW, LOW) for name in ("a2c-asym-s", "a2c-react-3", "a2c-react-8", "a2c")}
    assert "do not separate a2c, a2c-react-8, a2c-react-3 and a2c-asym-s" in choose(scores).reason
    assert choose({name: scores[name] for name in ("a2c-react-3", "a2c-react-8")}).method == "a2c-react-8"


@pytest.mark.parametrize(
    ("method", "needed"),
    [
        ("a2c", "needs no state"),
        ("dqn", "needs no state"),
        ("a2c-react-2", "needs no state, but remembers 2 observations only"),
        ("a2c-asym-hs", "needs the state while it trains, not afterwards"),
        ("adqn-vr", "needs the state while it trains, not afterwards"),
        ("ppo-asym-s", "needs the state while it trains, and may be biased"),
        ("adqn-state", "needs the state while it trains, and may be biased"),
    ],
)
def test_what_a_method_needs(method: str, needed: str):
    assert needs(method) == needed
    assert choose({method: MethodScores(LOW, LOW)}).reason == f"It {needed}."


def test_a_critic_of_the_belief_needs_the_belief():
    assert needs("a2c-asym-hs", "belief") == "needs the belief while it trains, not afterwards"


def test_too_few_runs_prove_nothing():
    """Of two methods that are the same, one has the three best of six runs in one of ten comparisons."""
    orders = list(itertools.combinations(range(6), 3))
    lucky = [first for first in orders if min(first) == 3 or max(first) == 2]
    assert len(lucky) / len(orders) == 0.1
    assert not can_separate(3, 3)
    assert can_separate(4, 4)
    scores = {"a2c": MethodScores(LOW[:3], LOW[:3]), "a2c-asym-hs": MethodScores(HIGH[:3], HIGH[:3])}
    choice = choose(scores)
    assert choice.method == "a2c"
    assert "decide with at least 4 --seeds, as fewer prove nothing" in choice.reason
    assert "no effect that these runs could show" in str(on_privilege(scores))


def test_the_table_compares_with_a2c():
    rows = rows_of({"a2c": MethodScores(LOW, LOW), "a2c-asym-hs": MethodScores(HIGH, LOW)})
    # Interquartile means: the middle two of four runs.
    assert [row.final.estimate for row in rows] == pytest.approx([0.2, 1.2])
    assert rows[0].improvement is None
    assert rows[1].improvement == (1.0, 1.0, 1.0)
    heading, first, second = table(rows).splitlines()
    assert heading.split("  ")[0] == "method"
    assert first.index("0.20 [") == second.index("1.20 [")


def test_reasons_come_from_the_theory_or_say_why_not():
    why = reasons(make("good-bad", time_limit=5))
    assert "A critic V(s) (a2c-asym-s) gives this policy its true gradient" in why.text
    assert [each.critic for each in why.readings][:3] == ["V(h)", "V(h, s)", "V(h, b)"]
    assert "does not apply here" in reasons(make("car-flag")).text
    too_large = reasons(make("shopping-6"))
    assert "1296 states are too many for a quick exact analysis" in too_large.text
    assert too_large.readings == ()


def test_reasons_are_about_what_the_critics_see():
    why = reasons(make("tiger", time_limit=4), "belief+time")
    assert "V(h, b, t) gives the true gradient, with variance" in why.text
    assert "V(b, t) gives the true gradient" in why.text
    assert [each.critic for each in why.readings][-2:] == ["V(h, b, t)", "V(b, t)"]
    sampled = reasons(make("tiger", time_limit=4), "sampled-state")
    assert "V(s~b) gives a gradient with an error of" in sampled.text
    assert len(sampled.readings) == 8
    scores = {"a2c": MethodScores(LOW, LOW), "a2c-asym-hs": MethodScores(HIGH, LOW)}
    assert "Showing the critic the belief, V(h, b) instead of V(h)" in str(on_privilege(scores, "belief"))
