"""The numbers on the page of the study of learners, from the runs that ship."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import polars as pl
import pytest

import asymrl
from asymrl.report.findings import Findings
from asymrl.report.paper.results import comparison, read_results
from asymrl.runs.wording import estimate
from asymrl.settings import new_settings
from asymrl.settings.hyperparameters import PAPER_WORLDS
from asymrl.studies.answers import answer
from asymrl.studies.other_learners import DQN_CRITICS, DQN_STEPS_IN_ROOMS, STUDY
from asymrl.worlds.reference_scores import scores

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "studies" / "learners.md").read_text()
SHIPPED = ROOT / "results" / "studies" / "learners"
ROW = re.compile(r"^\| ([\w-]+) \| ([^|]+ ± [^|]+) \| ([^|]+) \| ([^|]+) \| (\d+, \d+, \d+) \|$", re.M)
CRITICS = {"ppo": ("V(h)", "V(s)", "V(h, s)"), "dqn": ("Q(h)", "Q(s)", "Q(h, s)")}


def rows(learner: str) -> dict[str, tuple[list[str], list[int]]]:
    """What the page says of a learner, by world: the mean of each critic, and how many runs solved the world."""
    table = PAGE.partition(f"\n| {learner.upper()} | ")[2].partition("\n\n")[0]
    return {world: (cells, [int(n) for n in solved.split(", ")]) for world, *cells, solved in ROW.findall(table)}


@pytest.fixture(scope="module")
def answers() -> Findings:
    return answer(dataclasses.replace(STUDY, exact=None), SHIPPED)  # see test_learners_exact.py


@pytest.mark.parametrize("learner", ["ppo", "dqn"])
def test_the_page_has_the_numbers_of_the_shipped_runs(learner: str, answers: Findings):
    listed = rows(learner)
    assert tuple(listed) == PAPER_WORLDS
    numbers = {(row["setup"], row["arm"]): row for row in answers.numbers.to_dicts()}
    for world, (means, solved) in listed.items():
        for critic, mean, count in zip(CRITICS[learner], means, solved, strict=True):
            known = numbers[world, f"{learner} {critic}"]
            assert known["runs"] == 20
            assert mean == estimate(known["mean"], known["standard_error"]), (world, critic)
            assert count == round(20 * known["solved"]), (world, critic)


def test_the_page_has_the_search_in_car_flag(answers: Findings):
    found = answers.tables["learners-search"].filter(setup="car-flag").to_dicts()
    by_settings = {(row["arm"], row["entropy_weight"], row["gae_lambda"]): row for row in found}
    listed = re.findall(r"^\| (V\([\w, ]+\)) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$", PAGE, re.M)
    assert len(listed) == 3
    for critic, *cells in listed:
        for cell, settings in zip(cells, [(0.01, 0.95), (0.01, 0.0), (0.1, 0.95), (0.1, 0.0)], strict=True):
            row = by_settings[f"ppo {critic}", *settings]
            assert float(cell.strip("*")) == pytest.approx(row["mean"], abs=0.00501)
            assert cell.startswith("**") == bool(row["chosen"])


def test_the_page_says_which_runs_have_lambda_0_and_test_nothing_about_095(answers: Findings):
    searched = answers.tables["learners-search"].filter(pl.col("chosen") == "*", gae_lambda=0.0)
    chosen = list(zip(searched["setup"], searched["arm"], strict=True))
    assert chosen == [
        ("car-flag", "ppo V(h, s)"),
        ("cleaner", "ppo V(h)"),
        ("memory-four-rooms-9x9", "ppo V(s)"),
        ("memory-four-rooms-9x9", "ppo V(h, s)"),
    ]
    said = "The search gave lambda 0 to V(h, s) in car-flag, V(h) in cleaner, V(s) and V(h, s) in 9x9."
    assert said in " ".join(PAGE.split())


def test_exploration_is_at_the_end_of_the_runs_as_large_as_the_page_says():
    arm = next(arm for arm in STUDY.arms_in(STUDY.setups[0]) if arm.panel == "dqn")
    settings = new_settings(world="heaven-hell-3", **arm.settings)
    first, last, over = settings.exploration_start, settings.exploration_end, settings.exploration_steps
    assert (first, last, over) == (1, 0.1, 1_000_000)
    long, short = (first + (last - first) * steps / over for steps in (settings.steps, DQN_STEPS_IN_ROOMS))
    said = f"it is still {long:.2f} when these runs end after 600 000, and {short:.2f} after 360 000."
    assert said in " ".join(PAGE.split())


def test_the_order_of_a2c_in_shopping_is_not_the_predicted_one():
    table = read_results(ROOT / "results" / "curves").filter(pl.col("world") == "shopping-5")
    mean = {row["method"]: row["mean"] for row in comparison(table).to_dicts()}
    said = f"{mean['a2c']:.2f} with V(h), {mean['a2c-asym-hs']:.2f} with V(h, s) and {mean['a2c-asym-s']:.2f} with V(s)"
    assert f"at {said} in shopping-5" in PAGE


def test_the_advice_on_critics_has_the_numbers_of_the_study():
    text = (ROOT / "docs" / "explanation" / "which-critic.md").read_text()
    listed = re.findall(r"^\| ([\w-]+), lambda[^|]* \| ([^|]+ ± [^|]+) \| ([^|]+) \| ([^|]+) \|$", text, re.M)
    known = rows("ppo")
    assert [world for world, *_ in listed] == list(known)[:6]
    for world, *cells in listed:
        assert cells == known[world][0]


def test_the_probabilities_on_the_page_are_those_of_the_shipped_runs(answers: Findings):
    text, found = " ".join(PAGE.split()), answers.tables["learners-comparisons"].to_dicts()
    by_pair = {(row["setup"], row["arm"], row["than"]): row for row in found}

    def shown(world: str, one: str, other: str) -> str:
        row = by_pair[world, one, other]
        return f"{row['improvement']:.2f} [{row['improvement_low']:.2f}, {row['improvement_high']:.2f}]"

    for world in ("heaven-hell-3", "heaven-hell-4", "car-flag"):
        assert f"{shown(world, 'ppo V(h, s)', 'ppo V(s)')} in {world}" in text
    beats = [f"{shown(world, 'ppo V(s)', 'ppo V(h)')} in {world}" for world in ("heaven-hell-4", "car-flag")]
    assert f"V(s) beats V(h) with probability {' and '.join(beats)}" in text
    for arm in ("V(s)", "V(h, s)"):  # no difference is shown if one half is in the interval
        row = by_pair["memory-four-rooms-7x7", f"ppo {arm}", "ppo V(h)"]
        assert row["improvement_low"] < 0.5 < row["improvement_high"]
    beats = shown("heaven-hell-4", "ppo V(h, s)", "ppo V(h)")
    assert f"in heaven-hell-4 a run of it beats one of V(h) with probability {beats}" in text
    assert (
        f"a run of V(s) beats one of V(h) with probability {shown('memory-four-rooms-9x9', 'ppo V(s)', 'ppo V(h)')}"
        in text
    )
    assert f"Q(s) beats Q(h) with probability {shown('car-flag', 'dqn Q(s)', 'dqn Q(h)')}" in text
    beats_state, beats_history = (shown("cleaner", "ppo V(h, s)", f"ppo {other}") for other in ("V(s)", "V(h)"))
    assert f"{beats_state} against V(s) and {beats_history} against V(h)" in text


def test_q_of_the_state_solves_shopping_now_and_then(answers: Findings):
    (once,) = answers.numbers.filter(setup="shopping-5", arm="dqn Q(s)")["solved_once"]
    assert f"{20 * once:.0f} of 20 runs solve the world at one evaluation" in " ".join(PAGE.split())


def test_ppo_finds_an_exit_of_the_memory_rooms_as_soon_as_the_page_says():
    metrics, text = asymrl.load(SHIPPED).metrics, " ".join(PAGE.split())
    final = metrics.filter(pl.col("timestep") >= 900_000, pl.col("seed") < 20, pl.col("method").str.starts_with("ppo"))

    def steps(world: str, method: str) -> str:
        rows = final.filter(world=f"memory-four-rooms-{world}", method=method)
        assert rows["seed"].n_unique() == 20
        return f"{rows['length'].to_numpy().mean():.0f}"

    small, large = (
        [steps(world, method) for method in ("ppo", "ppo-asym-hs", "ppo-asym-s")] for world in ("7x7", "9x9")
    )
    assert small == ["10", "10", "10"]
    assert "In 7x7 episodes last 10 steps on average with all three critics" in text
    assert f"In 9x9 they last {large[0]} with V(h), {large[1]} with V(h, s) and {large[2]} with V(s)" in text


def test_ppo_with_the_state_alone_is_behind_in_the_large_rooms_at_either_lambda(answers: Findings):
    text = " ".join(PAGE.split())
    searched = answers.tables["learners-search"].filter(setup="memory-four-rooms-9x9", entropy_weight=0.01)
    chosen = {row["arm"]: row["gae_lambda"] for row in searched.to_dicts() if row["chosen"]}
    assert chosen == {"ppo V(h)": 0.95, "ppo V(s)": 0.0, "ppo V(h, s)": 0.0}
    means = {row["arm"]: row["mean"] for row in searched.filter(gae_lambda=0.95).to_dicts()}
    shown = [f"{means[f'ppo {critic}']:.2f} with {critic}" for critic in ("V(h)", "V(h, s)", "V(s)")]
    assert f"entropy weight 0.01: {', '.join(shown)}; random actions earn" in text


def test_greedy_policies_in_the_memory_rooms_take_as_many_steps_as_the_page_says(answers: Findings):
    text, worlds = " ".join(PAGE.split()), ("7x7", "9x9")
    metrics = asymrl.load(SHIPPED).metrics
    final, lengths, earned, untrained = metrics.filter(pl.col("timestep") >= 0.9 * DQN_STEPS_IN_ROOMS), {}, [], {}
    for critic, method in DQN_CRITICS.items():
        for world in worlds:
            of_arm = {"world": f"memory-four-rooms-{world}", "method": method}
            rows = final.filter(**of_arm)
            assert rows["seed"].n_unique() == 20
            lengths[critic, world] = f"{rows['evaluation_length'].to_numpy().mean():.0f}"
            earned.append((rows["evaluation_return"] + 0.05 * rows["evaluation_length"]).to_numpy().mean())
            prefill = metrics.filter(pl.col("timestep") < 50_000, **of_arm)
            untrained[world] = f"{prefill['evaluation_length'].to_numpy().mean():.0f}"
    assert max(map(abs, earned)) < 0.1  # an exit earns 5 or -5: the good one is taken as often
    assert {lengths["Q(h)", world] for world in worlds} == {"99"}
    assert "its episodes last 99 steps in either room" in text
    shown = {critic: f"{lengths[critic, '7x7']} and {lengths[critic, '9x9']}" for critic in ("Q(h, s)", "Q(s)")}
    assert f"With Q(h, s) they last {shown['Q(h, s)']} steps, with Q(s) {shown['Q(s)']}," in text
    assert f"before the first gradient step ({untrained['7x7']} and {untrained['9x9']} steps)" in text

    references = {world: scores(f"memory-four-rooms-{world}") for world in worlds}
    random = {world: reference.random_and_best[0] for world, reference in references.items() if reference is not None}
    assert f"less than random actions do, {random['7x7']:.2f} and {random['9x9']:.2f}:" in text
    means = {(row["setup"][-3:], row["arm"]): row["mean"] for row in answers.numbers.to_dicts()}
    assert all(means[world, f"dqn {critic}"] < random[world] for world in worlds for critic in DQN_CRITICS)

    found = answers.tables["learners-comparisons"].filter(pl.col("setup").str.starts_with("memory")).to_dicts()
    by_pair = {(row["setup"][-3:], row["arm"], row["than"]): row for row in found}
    for world in worlds:
        assert all(by_pair[world, f"dqn {critic}", "dqn Q(h)"]["improvement"] == 1 for critic in ("Q(s)", "Q(h, s)"))
    small, large = (
        f"{row['improvement']:.2f} [{row['improvement_low']:.2f}, {row['improvement_high']:.2f}]"
        for row in (by_pair[world, "dqn Q(h, s)", "dqn Q(s)"] for world in worlds)
    )
    assert f"in 7x7, with probability {small}; in 9x9 the runs do not tell: {large}." in text


def greedy_by_tenth(metrics: pl.DataFrame, method: str) -> list[float]:
    """The mean return of the greedy policies of a method in cleaner in each tenth of their 600 000 steps."""
    rows = metrics.filter(pl.col("world") == "cleaner", pl.col("method") == method)
    tenths = rows.group_by((pl.col("timestep") // 60_000).alias("tenth")).agg(pl.col("evaluation_return").mean())
    return tenths.sort("tenth")["evaluation_return"].to_list()


def test_privileged_values_unlearn_cleaner():
    metrics, text = asymrl.load(SHIPPED).metrics, " ".join(PAGE.split())
    course, plain = greedy_by_tenth(metrics, "adqn-vr"), greedy_by_tenth(metrics, "dqn")
    assert max(course) == course[4]
    assert max(plain) == plain[-1]
    assert f"falls from {course[4]:.0f} (between 240 000 and 300 000 steps) to {course[-1]:.0f}" in text
    last = metrics.filter(pl.col("world") == "cleaner", pl.col("timestep") >= 540_000)
    ends = last.filter(method="adqn-vr").group_by("seed").agg(pl.col("evaluation_return").mean())["evaluation_return"]
    assert len(ends) == 20
    assert f"between {ends.min():.0f} and {ends.max():.0f} in its 20 runs" in text
    exploring = [last.filter(method=method)["return"].to_numpy().mean() for method in ("adqn-vr", "dqn")]
    assert f"({exploring[0]:.0f} in the end, against {exploring[1]:.0f} of Q(h))" in text


def test_the_trials_in_cleaner_end_as_the_page_says():
    """Greedy returns by tenths of training: the best and the last of each run, by trial."""
    metrics = asymrl.load(ROOT / "results" / "cleaner-dqn").metrics.filter(world="cleaner")
    plain, slow = pl.col("learning_rate") == 1e-4, pl.col("learning_rate") == 3e-5
    clipped = pl.col("clip_norm") == 1
    trials = {
        "perhaps not the precision": (pl.col("method") == "adqn-vr") & plain & ~clipped.fill_null(value=False),
        "perhaps not the values": pl.col("method") == "adqn",
        "clipped to norm 1": clipped,
        "learning rate 3e-5": slow,
    }
    exploring, ends = [], []
    for words, trial in trials.items():
        runs = [run for _, run in metrics.filter(trial).group_by("seed", maintain_order=True)]
        courses = [greedy_by_tenth(run, run["method"][0]) for run in runs]
        best, end = (", ".join(f"{pick(course):.0f}" for course in courses) for pick in (max, lambda c: c[-1]))
        (line,) = [line for line in PAGE.splitlines() if line.startswith("|") and words in line]
        assert line.endswith(f" | {len(runs)} | {best} | {end} |"), (words, best, end)
        ends = [course[-1] for course in courses]
        exploring = [run.filter(pl.col("timestep") >= 540_000)["return"].to_numpy().mean() for run in runs]
    text = " ".join(PAGE.split())
    assert min(ends) > 24.5
    assert "all end above the 24 of the best of the 20 runs" in text  # whose ends are tested above
    assert f"the exploring policies end at {min(exploring):.0f} to {max(exploring):.0f}." in text


def test_the_networks_of_the_trials_agree_as_rarely_as_the_page_says():
    table, text = pl.read_csv(ROOT / "results" / "cleaner-dqn" / "agreement.csv"), " ".join(PAGE.split())
    cleaner, (shopping,) = table.filter(world="cleaner"), table.filter(world="shopping-5").to_dicts()
    least, most = (cleaner.select(pick).to_dicts()[0] for pick in (pl.all().min(), pl.all().max()))
    assert f"in {least['agree']:.0%} to {most['agree']:.0%}".replace("%", "", 1).replace("%", " %") in text
    assert f"loses {least['lost']:.2f} to {most['lost']:.2f} by its values" in text
    assert f"of the 16 are {least['range']:.1f} to {most['range']:.1f} apart" in text
    words = f"agree in {shopping['agree']:.0%}, and {shopping['lost']:.2f} of {shopping['range']:.1f} is lost"
    assert words.replace("%", " %") in text
