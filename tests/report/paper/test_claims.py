"""The rules by which claims are judged, on runs made up to deserve each verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from asymrl import cli
from asymrl.report.intervals import Interval
from asymrl.report.paper import claim_rules as rules
from asymrl.report.paper.claims import CLAIMS, judged
from asymrl.report.paper.evidence import Evidence, earned, read_evidence, scale
from asymrl.report.paper.markdown_tables import claims_markdown, rules_markdown, text_of, world_markdown
from asymrl.report.paper.parts import curve_runs
from asymrl.report.paper.world_tables import world_table
from asymrl.runs.files import RunError
from tests.runs.engine.stores import store_with_curves

H, S, HS, TWO, FOUR = "a2c", "a2c-asym-s", "a2c-asym-hs", "a2c-react-2", "a2c-react-4"
STEPS, POINTS, RUNS = 1000, 20, 8


def evidence(world: str, ends: Mapping[str, float], *, rise: float = 1.0, length: float = 50.0) -> Evidence:
    """Eight runs of each method, which rise from 0 to these returns, a hundredth apart, and end there.

    `rise`: the share of training after which they are there.
    """
    rows = [
        {
            "world": world, "method": method, "steps": STEPS, "seed": seed, "timestep": STEPS * i // POINTS,
            "episode": 100 + i, "return": end * min(1.0, (i + 1) / (rise * POINTS)) + 0.01 * (seed - 3.5),
            "length": length,
        }
        for method, end in ends.items()
        for seed in range(RUNS)
        for i in range(POINTS)
    ]  # fmt: skip
    return Evidence(pl.DataFrame(rows), None, None)


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ({HS: 0.9, H: 0.0, S: 0.1}, "holds"),
        ({HS: 0.9, H: 0.0, S: 0.5}, "in part"),  # another learns, but less
        ({HS: 0.5, H: 0.0, S: 0.9}, "does not hold"),
        ({HS: 0.0, H: 0.0, S: 0.9}, "does not hold"),
        ({HS: 0.1, H: 0.0, S: 0.1}, "open"),  # nobody has learned yet
    ],
)
def test_only_one_learns(ends: dict[str, float], verdict: str):
    found = rules.only(evidence("heaven-hell-3", ends), "heaven-hell-3", HS, (H, S))
    assert found.verdict == verdict
    assert found.steps == STEPS
    assert found.number is not None
    assert found.number.estimate == pytest.approx(ends[HS] - max(ends[H], ends[S]), rel=0.03)


@pytest.mark.parametrize(
    ("mine", "theirs", "verdict"),
    [
        (0.5, 0.5, "holds"),
        (0.9, 0.5, "holds"),  # better is as good
        (0.53, 0.58, "in part"),  # the interval reaches beyond the margin of 0.05
        (0.3, 0.5, "does not hold"),
        (0.1, 0.1, "open"),
    ],
)
def test_as_good_as_another(mine: float, theirs: float, verdict: str):
    found = rules.as_good(evidence("car-flag", {HS: mine, S: theirs}), "car-flag", HS, S)
    assert found.verdict == verdict


def test_longer_runs_turn_an_open_claim_into_one_that_holds():
    """The same rule with other runs: nothing but the data decides."""
    early, late = evidence("car-flag", {HS: 0.17, S: 0.06, H: 0.0}), evidence("car-flag", {HS: 0.5, S: 0.49, H: 0.0})
    for runs, verdict in ((early, "open"), (late, "holds")):
        assert rules.as_good(runs, "car-flag", HS, S).verdict == verdict
        assert rules.fails(runs, "car-flag", (H,), (HS, S)).verdict == verdict


def beside_longer(short: Evidence, long: Evidence) -> Evidence:
    """The runs of both, of which the second take twice as many steps."""
    longer = long.metrics.with_columns(steps=pl.lit(2 * STEPS), timestep=2 * pl.col("timestep"))
    return Evidence(pl.concat([short.metrics, longer], how="vertical_relaxed"), None, None)


def test_methods_are_compared_after_as_many_steps():
    """Where one was trained for longer, the others are not compared with what it became later."""
    runs = beside_longer(evidence("cleaner", {HS: 43.0, H: 40.0}), evidence("cleaner", {S: 80.0}))
    assert [runs.steps("cleaner", *methods) for methods in ((S,), (S, H), (H, HS))] == [2 * STEPS, STEPS, STEPS]
    # After 1000 of 2000 steps V(s) is half way: the last tenth has one point, that at 900 steps.
    assert runs.finals("cleaner", S, STEPS).mean() == pytest.approx(40.0)
    assert runs.finals("cleaner", S).mean() == pytest.approx(78.0)
    assert rules.as_good(runs, "cleaner", HS, S).verdict == "holds"
    table = world_table(runs, "cleaner")
    assert table["steps"].to_list() == [STEPS, 2 * STEPS, STEPS]
    assert table["improvement"][1] == 1  # of V(h, s), which is below what V(s) has in the end
    assert f"| {S}, 0.002 M steps | 78" in world_markdown(table)


def test_a_method_that_fails_is_judged_by_the_longest_runs_it_shares_with_another():
    """Another method need not have been trained for as long, if one has."""
    short, long = evidence("car-flag", {HS: 0.1}), evidence("car-flag", {H: 0.0, S: 0.9}, rise=1.0)
    found = rules.fails(beside_longer(short, long), "car-flag", (H,), (HS, S))
    assert (found.verdict, found.steps) == ("holds", 2 * STEPS)
    assert rules.fails(beside_longer(long, short), "car-flag", (H,), (HS, S)).steps == STEPS
    assert rules.fails(beside_longer(short, evidence("car-flag", {H: 0.0})), "car-flag", (H,), (HS,)).verdict == "open"


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ({H: 0.0, HS: 0.9}, "holds"),
        ({H: 0.6, HS: 0.9}, "does not hold"),
        ({H: 0.25, HS: 0.9}, "in part"),
        ({H: 0.0, HS: 0.1}, "open"),
    ],
)
def test_failing(ends: dict[str, float], verdict: str):
    assert rules.fails(evidence("car-flag", ends, rise=0.5), "car-flag", (H,), (HS,)).verdict == verdict


def test_in_the_memory_rooms_only_exits_count():
    world = "memory-four-rooms-7x7"
    runs = evidence(world, {S: -1.0, H: 1.5}, rise=0.5, length=20.0)
    # A step costs 0.05, so 20 of them and a return of -1 are nothing at the exits.
    np.testing.assert_allclose(np.sort(earned(runs.rows(world, S))), 0.01 * (np.arange(RUNS) - 3.5), atol=1e-9)
    assert runs.gain(world, H, STEPS).estimate == pytest.approx(0.5)
    assert rules.fails(runs, world, (S,), (H,)).verdict == "holds"
    table = world_table(runs, world, against=H)
    assert table["solved"].to_list() == [4, 0]  # the upper half of V(h) is above the mark, 2.5
    assert table["earned"].to_list() == pytest.approx([2.5, 0.0])


def test_worse_by_more_than_the_margin():
    margin = 0.05 * scale("shopping-5")
    for end, verdict in ((-3 * margin, "holds"), (-margin / 2, "in part"), (0.0, "does not hold"), (-140.0, "open")):
        runs = evidence("shopping-5", {S: end, HS: 0.0})
        assert rules.worse(runs, "shopping-5", S, HS).verdict == verdict, end


def test_better_or_faster():
    fast, slow = evidence("shopping-5", {HS: 3.0}, rise=0.2), evidence("shopping-5", {H: 3.0, S: 1.0}, rise=0.9)
    both = Evidence(pl.concat([fast.metrics, slow.metrics]), None, None)
    assert rules.ahead(both, "shopping-5", HS, (H, S)).verdict == "holds"  # faster than V(h), better than V(s)
    equal = evidence("shopping-5", {HS: 3.0, H: 3.0, S: 1.0})
    assert rules.ahead(equal, "shopping-5", HS, (H, S)).verdict == "in part"
    assert rules.ahead(equal, "shopping-5", S, (H, HS)).verdict == "does not hold"
    assert rules.catches_up(both, "shopping-5", H, HS).verdict == "holds"
    assert rules.catches_up(both, "shopping-5", HS, H).verdict == "in part"


@pytest.mark.parametrize(("end", "verdict"), [(20.0, "holds"), (49.0, "in part"), (60.0, "open")])
def test_a_collapse_is_a_fall_from_the_best_tenth(end: float, verdict: str):
    runs = evidence("cleaner", {S: 50.0}, rise=0.5)
    late = pl.col("timestep") >= 0.8 * STEPS
    metrics = runs.metrics.with_columns(pl.when(late).then(end).otherwise(pl.col("return")).alias("return"))
    found = rules.collapses(Evidence(metrics, None, None), "cleaner", S)
    assert found.verdict == verdict
    assert found.number is not None
    assert found.number.estimate == pytest.approx(min(end - 50, 0), abs=0.05)


def test_better_in_every_world():
    worlds = ("cleaner", "shopping-5")
    parts = [evidence(world, {H: 2.0, TWO: 1.0, FOUR: 1.5}) for world in worlds]
    runs = Evidence(pl.concat([part.metrics for part in parts]), None, None)
    found = rules.better_everywhere(runs, worlds, H, (TWO, FOUR))
    assert (found.verdict, found.number) == ("holds", (1.0, 1.0, 1.0))
    runs = Evidence(
        pl.concat([parts[0].metrics, evidence("shopping-5", {H: 1.2, TWO: 1.0, FOUR: 1.5}).metrics]), None, None
    )
    found = rules.better_everywhere(runs, worlds, H, (TWO, FOUR))
    assert (found.verdict, found.number and found.number.estimate) == ("in part", 0.75)


def with_probes(values: Mapping[str, tuple[float, float, float, float]]) -> Evidence:
    """Critics' values of eight runs, of left, right, left-priest and right-priest; the return goes with the value."""
    names = ("left", "right", "left-priest", "right-priest")
    rows = [
        {"world": "heaven-hell-4", "method": method, "steps": STEPS, "seed": seed, "timestep": time, "probe": name,
         "value": value + (0.01 * seed if method == HS else 0.0)}
        for method, each in values.items() for seed in range(RUNS) for time in (0, 950)
        for name, value in zip(names, each, strict=True)
    ]  # fmt: skip
    ends = {method: each[0] for method, each in values.items()}
    return Evidence(evidence("heaven-hell-4", ends).metrics, pl.DataFrame(rows), None)


def test_values_of_critics():
    runs = with_probes({H: (0.1, 0.1, 0.2, 0.3), S: (0.2, 0.3, 0.2, 0.3), HS: (0.5, 0.6, 0.8, 0.9)})
    assert rules.history_values_equal(runs).verdict == "holds"
    assert rules.state_values_equal(runs).verdict == "holds"
    raised = rules.priest_raises(runs)
    assert (raised.verdict, raised.number) == ("holds", pytest.approx((0.3, 0.3, 0.3)))
    follow = rules.values_follow(runs)
    assert follow.verdict == "holds"
    values = np.concatenate([np.full(8, 0.175), np.full(8, 0.25), 0.7 + 0.01 * np.arange(8)])
    returns = np.concatenate([end + 0.01 * (np.arange(8) - 3.5) for end in (0.1, 0.2, 0.5)])
    expected = stats.spearmanr(values, returns)[0]
    assert follow.number is not None
    assert follow.number.estimate == pytest.approx(expected)
    other = with_probes({H: (0.1, 0.2, 0.2, 0.3), S: (0.2, 0.3, 0.9, 0.3), HS: (0.8, 0.9, 0.5, 0.6)})
    rest = (rules.history_values_equal, rules.state_values_equal, rules.priest_raises)
    assert {rule(other).verdict for rule in rest} == {"does not hold"}


def grid(paper: float, other: float, spread: float) -> Evidence:
    """Two settings of heaven-hell-3 with a2c-asym-hs, the first of which is the paper's."""
    rows = [
        {"world": "heaven-hell-3", "method": HS, "steps": STEPS, "actor_rate": 0.001, "critic_rate": 0.001,
         "entropy_weight": weight, "seed": seed, "timestep": STEPS * i // POINTS, "return": end + spread * (seed - 3.5)}
        for weight, end in ((0.1, paper), (1.0, other)) for seed in range(RUNS) for i in range(POINTS)
    ]  # fmt: skip
    return Evidence(evidence("heaven-hell-3", {HS: 1.0}).metrics, None, pl.DataFrame(rows))


def test_the_grid():
    for paper, other, spread, verdict in (
        (0.9, 0.5, 0.01, "holds"),
        (0.85, 0.9, 0.1, "in part"),  # second, but not by more than chance
        (0.5, 0.9, 0.01, "does not hold"),
    ):
        assert rules.tuned_wins(grid(paper, other, spread)).verdict == verdict


def test_every_claim_has_a_rule_in_words_and_runs_that_are_missing_are_said_to_be():
    text = rules_markdown()
    assert all(f"| {claim.rule.replace('_', ' ')} | holds if " in text for claim in CLAIMS)
    found = judged(evidence("heaven-hell-3", {HS: 0.9, H: 0.0, S: 0.1, TWO: 0.0, FOUR: 0.0}))
    assert [finding.verdict for _, finding in found] == ["holds", *["no runs"] * (len(CLAIMS) - 1)]
    first = claims_markdown(found).splitlines()[2]
    assert first.startswith(
        "| [heaven-hell-3](#heaven-hell-3) | only V(h, s) learns | holds | V(h, s) − the next best |"
    )
    steps = found[0][1].steps
    assert steps is not None
    assert first.endswith(f" | {steps / 1e6:g} |")


def test_the_table_of_a_world_counts_from_points_of_a_hundred_episodes():
    runs = evidence("heaven-hell-3", {H: 0.0, HS: 1.0})
    table = world_table(runs, "heaven-hell-3")
    assert table["solved"].to_list() == [0, RUNS]
    # The 18th point, at 850 steps, is 0.9 and up to 0.035 more or less: half the runs are above the mark.
    assert table.select("first", "first_low", "first_high").row(1) == pytest.approx(
        (0.000875, 0.00085, 0.0009), abs=1e-9
    )
    text = world_markdown(table)
    assert text.splitlines()[0].startswith("| 8 runs, 0.001 M steps | final return | V(h, s) better | solved (> 0.9)")


def test_the_command_judges_what_is_in_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    methods = (H, S, HS, TWO, FOUR)
    source = store_with_curves(tmp_path / "curves", curve_runs(["cleaner"], methods, range(4), 1000))
    command = ["reproduce", "claims", "--from-results", str(source), "--out", str(tmp_path)]
    assert cli.main([*command, "--env", "cleaner"]) == 0
    said = capsys.readouterr().out
    assert "V(s) collapses after a certain point" in said
    assert "the tuned settings win" not in said
    verdicts = dict(pl.read_csv(tmp_path / "claims.csv").select("claim", "verdict").rows())
    # Returns rise to the number of the seed plus one: nothing, of the 71 that can be earned.
    assert verdicts == {"V(h, s) as good as V(h)": "open", "V(s) collapses after a certain point": "open"}
    assert pl.read_csv(tmp_path / "worlds.csv")["runs"].to_list() == [4] * 5
    assert read_evidence(source).grid is None
    assert cli.main(command) == 0
    said = capsys.readouterr().out
    assert "not judged, as runs are missing: heaven-hell-3, heaven-hell-4, shopping-5" in said
    assert "five worlds, figure 4, grid\n" in said
    some = store_with_curves(tmp_path / "some", curve_runs(["cleaner"], (H, HS), range(4), 1000))
    assert cli.main([*command[:3], str(some), *command[4:], "--env", "cleaner"]) == 0
    assert "missing: cleaner (V(s) collapses after a certain point)\n" in capsys.readouterr().out
    assert cli.main([*command, "--methods", "a2c"]) == 2
    assert "claims compare all methods" in capsys.readouterr().err


def test_runs_with_settings_of_a_study_do_not_count_for_the_paper():
    studies = Path(__file__).parents[3] / "results" / "studies"
    with pytest.raises(RunError, match="no runs with the paper's settings"):
        read_evidence(studies / "bootstrap")  # all estimates are TD(lambda)
    metrics = read_evidence(studies / "knowledge").metrics
    assert set(metrics["critic_sees"]) == {"state"}
    assert metrics.select("world", "method", "seed").unique().height == 2 * 20  # V(h) and V(h, s) in heaven-hell-3


def test_a_bound_beside_zero_keeps_its_sign():
    assert text_of(Interval(-0.0165, -0.037, -0.00046)) == "-0.0165 [-0.0370, -0.0005]"
    assert text_of(Interval(-0.0165, -0.037, 0.0)) == "-0.017 [-0.037, 0.000]"  # zero itself
    assert text_of(Interval(0.0, -1e-7, 1e-7)) == "0.000 [0.000, 0.000]"  # a rounding
    assert text_of(Interval(1.5, -0.002, 3.0)) == "1.500 [-0.002, 3.000]"
