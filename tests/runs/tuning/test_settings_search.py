"""A search over settings: real studies, real runs, small."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import asymrl
from asymrl import cli
from asymrl.api.searching import new_search, tuning_of
from asymrl.runs.callback import Callback, StopRuns
from asymrl.runs.files import RunError
from asymrl.runs.placement import Pace, Placement
from asymrl.runs.settings_file import toml_text
from asymrl.runs.settings_search import STUDY_FOLDER, Pruning, SettingsSearch
from asymrl.runs.store import Store
from asymrl.runs.study_file import STUDY_FILE, distributions, open_study

optuna = pytest.importorskip("optuna")

SMALL = {"memory_size": 4, "hidden": (4,), "time_limit": 8, "episodes": 2}
SPACE = {"actor_rate": {"low": 1e-4, "high": 1e-2, "log": True}, "entropy_weight": [0.01, 0.1]}
FAST = {"pace": Pace(refresh_seconds=0.02), "placement": Placement(workers=1)}


def search_in(folder: Path, trials: int = 3, steps: int = 300, **more: Any) -> SettingsSearch:
    given = {**SMALL, "steps": steps, "log_points": 5}
    return new_search("tiger", "a2c", given, trials=trials, seeds=(0, 1), space=SPACE, together=2, out=folder, **more)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> SettingsSearch:
    search = search_in(tmp_path_factory.mktemp("search") / "found")
    assert search.run(Callback, **FAST).is_complete
    return search


def test_the_folder_to_start_from_is_the_same_wherever_the_settings_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    search = new_search("tiger", "a2c", {**SMALL, "start_from": "runs/before"}, space=SPACE, out="search")
    assert search.given == {**SMALL, "start_from": str(tmp_path / "runs" / "before")}


def test_a_search_ends_with_the_best_settings(searched: SettingsSearch):
    found = tuning_of(searched)
    assert [trial.state for trial in found.trials] == ["complete"] * 3
    assert [trial.value for trial in found.trials] == sorted((t.value for t in found.trials), reverse=True)  # pyright: ignore
    best = found.trials[0]
    assert found.value == best.value
    # The value of a trial is the mean final return of its runs.
    rows = found.runs.table.filter(
        (pl.col("actor_rate") == best.settings["actor_rate"])
        & (pl.col("entropy_weight") == best.settings["entropy_weight"])
    )
    assert len(rows) == 2
    assert math.isclose(rows["final_return"].mean(), found.value, rel_tol=1e-5)  # pyright: ignore
    written = tomllib.loads(found.file.read_text())
    assert written["method"] == "a2c"
    assert written["hidden"] == [4]
    assert {name: written[name] for name in SPACE} == best.settings
    assert found.command.split()[:3] == ["asymrl", "train", "tiger"]


def test_the_command_that_it_names_works(searched: SettingsSearch, capsys: pytest.CaptureFixture, monkeypatch):
    from asymrl.cli.commands.train import Train

    seen: list[Any] = []
    monkeypatch.setattr(Train, "run", lambda self: seen.append(self.settings()) or 0)
    found = tuning_of(searched)
    assert cli.main(found.command.split()[1:]) == 0
    assert {name: getattr(seen[0], name) for name in SPACE} == found.trials[0].settings
    assert (seen[0].memory_size, seen[0].steps) == (4, 300)


def test_again_it_has_nothing_to_do_and_more_trials_go_on(searched: SettingsSearch, tmp_path: Path):
    runs = len(Store.open(searched.folder))
    assert search_in(searched.folder).run(Callback, **FAST).steps == 0
    assert len(Store.open(searched.folder)) == runs == 6


def test_another_search_is_refused_and_nothing_is_changed(searched: SettingsSearch, tmp_path: Path):
    before = (searched.folder / STUDY_FOLDER / STUDY_FILE).read_bytes()
    with pytest.raises(RunError, match="holds a search with other settings"):
        search_in(searched.folder, steps=400).run(Callback, **FAST)
    assert (searched.folder / STUDY_FOLDER / STUDY_FILE).read_bytes() == before
    store = Store.create(tmp_path / "others", Store.open(searched.folder).runs)
    store.release()
    with pytest.raises(RunError, match="already holds runs of something else"):
        search_in(tmp_path / "others").run(Callback, **FAST)


@pytest.mark.parametrize(
    ("what", "said"),
    [({"trials": 0}, "0 trials"), ({"seeds": ()}, "no seeds"), ({"together": 0}, "0 trials together")],
)
def test_impossible_searches(what, said, tmp_path: Path):
    with pytest.raises(ValueError, match=said):
        new_search("tiger", "a2c", {**SMALL}, **{"space": SPACE, "out": tmp_path / "x", **what})
    with pytest.raises(ValueError, match="minibatches"):  # beside the other settings
        new_search("tiger", "ppo", {"streams": 4}, space={"minibatches": [2, 3]}, out=tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_a_line_that_was_not_finished_is_dropped(tmp_path: Path):
    description = {"seeds": [0]}
    study = open_study(tmp_path, description, 10, 0)
    study.ask(fixed_distributions={"x": optuna.distributions.FloatDistribution(0, 1)})
    file = tmp_path / STUDY_FILE
    whole = file.read_bytes()
    file.write_bytes(whole + whole.splitlines(keepends=True)[-1][:20])
    assert len(open_study(tmp_path, description, 10, 0).trials) == 1
    assert file.read_bytes() == whole
    assert all(json.loads(line) for line in whole.splitlines())  # nothing but JSON


def curve(*values: float | None) -> pl.DataFrame:
    return pl.DataFrame({"timestep": [100 * i for i in range(len(values))], "return": values})


def test_a_trial_below_the_median_is_pruned_once_all_its_seeds_are_there(tmp_path: Path):
    study = open_study(tmp_path, {}, 10, 0)
    axes = distributions({}, {})
    for value in (1.0, 2.0, 3.0, 4.0, 5.0):
        trial = study.ask(fixed_distributions=axes)
        for point in range(5):
            trial.report(value, point)
        study.tell(trial, value)
    study.ask(fixed_distributions=axes)
    study.ask(fixed_distributions=axes)
    bad, good = study.get_trials(deepcopy=False)[-2:]
    pruning = Pruning(study, [bad, good], {bad.number: [0, 1], good.number: [2, 3]}, period=100)
    pruning.points(0, curve(0, 0, 0, 0, 0))  # the other seed might be better
    pruning.points(2, curve(9, 9, 9, 9, 9))
    pruning.points(3, curve(9, 9, 9, 9, 9))
    with pytest.raises(StopRuns) as stopped:
        pruning.points(1, curve(0, 0, 0, 0))
    assert stopped.value.numbers == {0, 1}


def test_no_trial_is_pruned_before_its_first_episode_is_over(tmp_path: Path):
    study = open_study(tmp_path, {}, 10, 0)
    axes = distributions({}, {})
    for _ in range(5):
        trial = study.ask(fixed_distributions=axes)
        for point in range(5):
            trial.report(5.0, point)
        study.tell(trial, 5.0)
    study.ask(fixed_distributions=axes)
    trial = study.get_trials(deepcopy=False)[-1]
    pruning = Pruning(study, [trial], {trial.number: [0]}, period=100)
    pruning.points(0, curve(None, None, None, None))
    assert study.get_trials(deepcopy=False)[-1].intermediate_values == {}
    with pytest.raises(StopRuns):
        pruning.points(0, curve(None, None, None, None, 0.0))


def test_settings_as_toml():
    values = {"a": True, "b": 'x"\\y', "c": (4, 4), "d": 1e-4, "e": 3}
    assert tomllib.loads("\n".join(f"{name} = {toml_text(value)}" for name, value in values.items())) == {
        **values,
        "c": [4, 4],
    }


def test_mistakes_of_the_command_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, said in [
        (["nowhere"], "unknown world 'nowhere'"),
        (["tiger", "--set", "actor_rate=1,2"], "give one value"),
        (["tiger", "--set", "method=ppo"], "--set method: use --method instead"),
        (["tiger", "--set", "steps=100"], "--set steps: use --steps instead"),
        (["tiger", "--seeds", "0"], "at least 1"),
        (["tiger", "--space", "x.toml"], "cannot be read"),
        (["tiger", "--preset", "x"], "unknown preset"),
        (["CartPole-v1", "--method", "a2c", "--set", "env.x=1"], "no argument 'x'"),
    ]:
        assert cli.main(["tune", *arguments]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_without_optuna_it_says_what_to_install(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert cli.main(["tune", "tiger"]) == 2
    assert 'pip install "asymrl[tune]"' in capsys.readouterr().err


def test_a_search_that_ended_before_its_first_table_goes_on(tmp_path: Path):
    search = search_in(tmp_path, trials=2)
    lock = search._hold()
    batch = search._batch(search._study())
    lock.release()
    Store.create(tmp_path, [run for trial in batch for run in search.runs(trial.params)]).release()
    assert search.run(Callback, **FAST).is_complete
    assert [trial.state for trial in search.results()] == ["complete"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("world", ["CartPole-v1", "pomdp"])
def test_it_works_in_other_peoples_worlds(world: str, tmp_path: Path):
    if world == "pomdp":
        from tests.envs.pomdp_files.texts import TIGER

        (tmp_path / "tiger.pomdp").write_text(TIGER)
        world = str(tmp_path / "tiger.pomdp")
    found = asymrl.tune(
        world, "ppo", trials=2, seeds=1, steps=600, together=2, out=tmp_path / "search", display=Callback(),
        space={"learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}}, memory_size=4, hidden=(4,), rollout=16,
        log_points=4, time_limit=20,
    )  # fmt: skip
    assert len(found.trials) == 2
    assert found.settings["hidden"] == (4,)


@pytest.mark.slow
def test_a_search_that_is_killed_goes_on(tmp_path: Path):
    """Real processes, real SIGKILLs: every trial is told once, and every run is the one it would have been."""
    command = [
        sys.executable, "-m", "asymrl", "tune", "tiger", "--method", "a2c", "--trials", "6", "--together", "2",
        "--seeds", "2", "--steps", "20000", "--set", "memory_size=4", "hidden=4", "time_limit=8", "log_points=20",
        "--checkpoint-seconds", "0.5", "--refresh-seconds", "0.1", "--out", str(tmp_path / "search"), "--json",
    ]  # fmt: skip
    kills = 0
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline, before = time.monotonic() + 300, _steps(tmp_path / "search")
        while process.poll() is None and time.monotonic() < deadline:
            if _steps(tmp_path / "search") > before + 2_000:
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.05)
        process.wait()
    assert kills >= 2
    last = subprocess.run(command, capture_output=True, text=True, check=True)
    answer = json.loads(last.stdout)
    assert sorted(trial["number"] for trial in answer["trials"]) == list(range(6))
    assert {trial["state"] for trial in answer["trials"]} <= {"complete", "pruned"}
    assert answer["best"]
    best = answer["trials"][0]
    # The best trial again, undisturbed.
    runs = asymrl.train(
        "tiger", "a2c", seeds=2, steps=20_000, out=tmp_path / "again", display=Callback(), memory_size=4, hidden=(4,),
        time_limit=8, log_points=20, estimator="td-lambda", **best["settings"],
    )  # fmt: skip
    assert math.isclose(runs.table["final_return"].mean(), best["value"], rel_tol=1e-6)  # pyright: ignore


def _steps(folder: Path) -> int:
    """Steps of all runs, as the tables say."""
    try:
        return int(pl.read_parquet(folder / "runs.parquet")["timesteps"].sum())
    except (OSError, pl.exceptions.PolarsError):
        return 0
