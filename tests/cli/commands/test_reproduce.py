"""`asymrl reproduce` from results that are there, and what it would train."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from asymrl import cli
from asymrl.api.run_folders import reproduction_store
from asymrl.cli.commands.reproduce import Reproduce
from asymrl.cli.running import Training
from asymrl.report.paper.figures import aggregates
from asymrl.report.paper.fork import PAIRS
from asymrl.report.paper.parts import curve_runs, extent, grid_runs, probes_from_json, probes_of, runs_of
from asymrl.report.paper.results import aggregate_rows, of_common_length, read_results, scores_together, worlds_of_all
from asymrl.report.paper.selection import ranking
from asymrl.runs.statistics import final_returns
from asymrl.runs.store import Store
from asymrl.settings.hyperparameters import PAPER_WORLDS
from asymrl.settings.methods import PAPER_METHODS
from tests.runs.engine.stores import store_with_curves


def test_the_evaluation_is_the_papers():
    runs = curve_runs(PAPER_WORLDS, PAPER_METHODS, range(20))
    assert len(runs) == 800
    assert sum(run.settings.steps for run in runs) == 6_000_000_000
    assert len(grid_runs(PAPER_WORLDS, PAPER_METHODS, range(20))) == 36_000


def test_as_long_as_the_authors_scripts():
    wanted = Reproduce(part="curves", steps="authors").extent()
    lengths = {run.settings.world: run.settings.steps for run in runs_of("curves", wanted)}
    assert sum(run.settings.steps for run in runs_of("curves", wanted)) == 3_200_000_000
    assert lengths.pop("heaven-hell-3") == lengths.pop("heaven-hell-4") == 10_000_000
    assert set(lengths.values()) == {2_000_000}
    assert probes_of("critics", extent("critics", steps="authors"))["heaven-hell-4"].every == 50_000


def test_longer_runs_count_as_the_authors_would_have_seen_them(tmp_path: Path):
    """Each world at its own length, with its returns up to there; what is shorter does not count."""
    lengths = {"car-flag": 3_000_000, "cleaner": 1_000_000, "heaven-hell-3": 10_000_000}
    runs = [run for world, steps in lengths.items() for run in curve_runs([world], ["a2c"], range(2), steps)]
    source = store_with_curves(tmp_path / "source", runs)
    places = ["--from-results", str(source), "--out", str(tmp_path)]
    assert cli.main(["reproduce", "curves", "--steps", "authors", *places]) == 0
    table = pl.read_csv(tmp_path / "curves.csv")
    whole, cut = table.select("world", "steps", "mean").rows()
    assert whole[:2] == ("heaven-hell-3", 10_000_000)
    assert cut[:2] == ("car-flag", 2_000_000)
    assert cut[2] < whole[2] - 0.2  # returns grow all the time
    assert cli.main(["reproduce", "claims", "--env", "car-flag", "--steps", "authors", *places]) == 0
    assert set(pl.read_csv(tmp_path / "worlds.csv")["steps"]) == {2_000_000}


def test_other_words_are_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        cli.main(["reproduce", "curves", "--steps", "author"])
    assert "or authors" in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["grid", "--steps", "authors"], "curves and critics only"),
        (["curves", "--steps", "AUTHORS", "--quick"], "not in the quick version"),
        (["curves", "--steps", "2M", "--env"], "no worlds: name at least one"),
        (["curves", "--methods"], "no methods: name at least one"),
        (["curves", "--env", "heaven-hell-3", "--steps", "authors"], "of 10 000 000 steps"),
        (["claims", "--env", "cleaner", "--steps", "authors"], "of 2 000 000 steps"),
    ],
)
def test_what_is_not_there(arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    worlds = ["cleaner", "heaven-hell-3"]
    source = store_with_curves(tmp_path / "source", curve_runs(worlds, ["a2c"], range(2), 1_000_000))
    assert cli.main(["reproduce", *arguments, "--from-results", str(source)]) == 2
    assert said in capsys.readouterr().err


def test_lengths_from_python():
    def lengths(steps: Any) -> set[int]:
        return {run.settings.steps for run in runs_of("curves", extent("curves", seeds=1, steps=steps))}

    assert lengths(1e6) == {1_000_000}
    assert lengths("authors") == {2_000_000, 10_000_000}
    with pytest.raises(ValueError, match="'2M'; it must be a whole number or 'authors'"):
        lengths("2M")


def test_curves_from_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = store_with_curves(tmp_path / "source", curve_runs(["car-flag", "cleaner"], PAPER_METHODS[:3], range(3)))
    worlds = ["--env", "car-flag", "cleaner", "--methods", *PAPER_METHODS[:3]]
    out = tmp_path / "out"
    assert cli.main(["reproduce", "curves", *worlds, "--from-results", str(source), "--out", str(out)]) == 0
    for name in ("curves.png", "curves.svg", "aggregates.png", "curves.csv"):
        assert (out / name).stat().st_size > 0
    table = pl.read_csv(out / "curves.csv")
    # Three seeds, 0, 1 and 2, each 0.925 above that over the last tenth (points at 0.9 and 0.95).
    assert table["mean"].to_list() == pytest.approx([1.925] * 6)
    assert table["standard_error"].to_list() == pytest.approx([1 / np.sqrt(3)] * 6, abs=1e-4)
    # All methods are alike, so none is likelier to be better.
    assert table["improvement"].drop_nulls().to_list() == [0.5] * 4
    assert "car-flag" in capsys.readouterr().out


def test_runs_that_were_not_trained_equally_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """`--until` looks at all of them after as many steps; worlds are put together if they have all methods."""
    runs = curve_runs(["cleaner"], PAPER_METHODS[:1], range(2), 1000) + curve_runs(
        ["cleaner"], PAPER_METHODS[1:2], range(2), 2000
    )
    source = store_with_curves(
        tmp_path / "source", [*runs, *curve_runs(["car-flag"], PAPER_METHODS[:1], range(2), 1000)]
    )
    command = ["reproduce", "curves", "--from-results", str(source), "--out", str(tmp_path)]
    assert cli.main(command) == 0
    table = pl.read_csv(tmp_path / "curves.csv")
    assert table["steps"].to_list() == [1000, 1000, 2000]
    assert table["mean"].to_list() == pytest.approx([1.425] * 3)
    assert cli.main([*command, "--env", "cleaner", "--until", "1000"]) == 0
    table = pl.read_csv(tmp_path / "curves.csv")
    assert table["steps"].to_list() == [1000, 1000]
    # The second method's curve rises half as fast: from 0.9 to 1 thousand steps it is at 0.45.
    assert table["mean"].to_list() == pytest.approx([1.425, 0.95], abs=1e-3)
    capsys.readouterr()
    assert cli.main([*command, "--until", "1500"]) == 0
    said = capsys.readouterr().out
    assert "left out: cleaner a2c, trained for 1 000 steps only" in said
    assert pl.read_csv(tmp_path / "curves.csv")["method"].to_list() == ["a2c-asym-s"]
    assert cli.main([*command, "--until", "1"]) == 0  # before the second point: the first
    assert pl.read_csv(tmp_path / "curves.csv")["mean"].to_list() == [0.5] * 3
    assert cli.main([*command, "--until", "5000"]) == 2
    assert "no run was trained for 5 000 steps; the longest for 2 000" in capsys.readouterr().err


def test_worlds_are_put_together_where_all_methods_were_run(tmp_path: Path):
    def of(world: str, *steps: int) -> list:
        return [
            run for m, n in zip(PAPER_METHODS, steps, strict=False) for run in curve_runs([world], [m], range(2), n)
        ]

    runs = of("cleaner", 1000, 1000) + of("car-flag", 1000, 2000) + of("shopping-5", 1000)
    table = read_results(store_with_curves(tmp_path, runs))
    finals = final_returns(table)
    assert worlds_of_all(finals, PAPER_METHODS[:1]) == ["shopping-5", "car-flag", "cleaner"]
    assert worlds_of_all(finals, PAPER_METHODS[:2]) == ["car-flag", "cleaner"]
    assert worlds_of_all(finals, PAPER_METHODS[:3]) == []
    scores = scores_together(table.filter(pl.col("method").is_in(PAPER_METHODS[:2])))
    assert scores is not None
    assert scores.worlds == ["car-flag", "cleaner"]
    rows = aggregate_rows(scores)
    assert rows["runs"].to_list() == [4, 4]  # two in each world
    for method, estimate in rows.select("method", "score").rows():
        assert estimate == pytest.approx(np.mean(np.sort(scores.matrices[method].ravel())[1:-1]))
    assert len(aggregates(scores).axes) == 2
    shared = of_common_length(table).filter(pl.col("world") == "car-flag")
    assert shared["steps"].unique().to_list() == [1000]
    assert shared["timestep"].to_numpy().max() < 1000


def test_runs_of_one_length_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is drawn without a place of its own goes to a folder of figures, and leaves the results alone."""
    short = curve_runs(["cleaner"], PAPER_METHODS[:1], range(2), 1000)
    long = curve_runs(["cleaner"], PAPER_METHODS[:1], range(2, 4), 2000)
    source = store_with_curves(tmp_path / "source", [*short, *long])
    before = sorted(path.name for path in source.iterdir())
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", "curves", "--from-results", "source"]) == 0
    (row,) = pl.read_csv(tmp_path / "figures" / "curves.csv").to_dicts()
    assert (row["steps"], row["runs"]) == (2000, 2)
    assert cli.main(["reproduce", "curves", "--from-results", "source", "--steps", "1000"]) == 0
    (row,) = pl.read_csv(tmp_path / "figures" / "curves.csv").to_dicts()
    assert (row["steps"], row["runs"]) == (1000, 4)  # the longer runs as they were after 1000 steps
    # Seeds 0 and 1 end 0.925 above their seed; the longer ones, 2 and 3, were at 0.45 when they had 900 steps.
    assert row["mean"] == pytest.approx(np.mean([0.925, 1.925, 2.45, 3.45]), abs=1e-3)
    assert sorted(path.name for path in source.iterdir()) == before


def test_what_is_there_is_not_trained_again_and_figures_stay_out_of_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    source = store_with_curves(Path("runs/reproduce-curves"), curve_runs(["cleaner"], PAPER_METHODS[:2], range(2)))
    assert cli.main(["reproduce", "curves", "--env", "cleaner", "--methods", "a2c", "--seeds", "2"]) == 0
    assert "runs/reproduce-curves: already complete" in capsys.readouterr().out
    assert pl.read_csv("figures/curves.csv")["method"].to_list() == ["a2c"]
    assert not list(source.glob("*.csv")) + list(source.glob("*.png"))


def test_what_is_measured_is_recorded_for_those_who_go_on(tmp_path: Path):
    """A store that was made for something else learns what a part of the paper measures."""
    store_with_curves(tmp_path, curve_runs(["cleaner"], PAPER_METHODS[:1], range(2)))
    wanted = extent("critics", seeds=1, steps=1000)
    store, only = reproduction_store("critics", wanted, tmp_path)
    store.release()
    assert only == [2, 3, 4]
    assert probes_from_json(Store.open(tmp_path).probes) == probes_of("critics", wanted)


def test_runs_that_are_there_keep_their_precision(tmp_path: Path):
    """A folder with runs in tf32, as most of the shipped ones, is completed and not trained again in float32."""
    wanted = extent("curves", ["cleaner"], PAPER_METHODS[:2], seeds=2, steps=1000)
    there = [
        run._replace(settings=replace(run.settings, precision="tf32"))
        for run in runs_of("curves", wanted)
        if run.settings.method == "a2c"
    ]
    store_with_curves(tmp_path, there)
    store, only = reproduction_store("curves", wanted, tmp_path)
    store.release()
    assert [store.runs[number].settings.precision for number in only] == ["tf32"] * 4  # as the others of that world
    assert store.unfinished() == [2, 3]
    store, only = reproduction_store("curves", extent("curves", ["car-flag"], seeds=1, steps=1000), tmp_path)
    store.release()
    assert {store.runs[number].settings.precision for number in only} == {"float32"}
    store, only = reproduction_store("curves", wanted, tmp_path, precision="float32")
    store.release()
    assert {store.runs[number].settings.precision for number in only} == {"float32"}
    assert not set(only) & {0, 1, 2, 3}


def test_runs_of_the_figures_can_be_made_longer_and_those_of_the_grid_are_too_many(tmp_path: Path):
    for part in ("curves", "grid"):
        store, only = reproduction_store(part, extent(part), tmp_path / part)
        store.release()
        assert (store.keeps_networks, len(only)) == ((True, 800) if part == "curves" else (False, 7200))


def test_where_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kept = []
    monkeypatch.chdir(tmp_path)

    def note(training: Training, store: Store, **_: object) -> int:
        store.release()
        kept.append(store.path)
        return 3

    monkeypatch.setattr("asymrl.cli.running.Training.train", note)
    for arguments in (["curves"], ["critics"], ["grid"], ["curves", "--quick"], ["curves", "--quick", "--out", "mine"]):
        assert cli.main(["reproduce", *arguments]) == 3
    assert list(map(str, kept)) == [
        f"runs/reproduce-{name}" for name in ("curves", "curves", "grid", "quick-curves")
    ] + ["mine"]


SHIPPED = Path(__file__).parents[3]


def test_critics_from_results(tmp_path: Path):
    runs = curve_runs(["heaven-hell-4"], PAPER_METHODS[:3], range(2))
    source = store_with_curves(tmp_path, runs, dict(zip(PAIRS, (0.1, 0.2, 0.3, 0.4), strict=True)))
    assert cli.main(["reproduce", "critics", "--from-results", str(source), "--out", str(source)]) == 0
    table = pl.read_csv(source / "critics.csv")
    assert table["value"].to_list() == pytest.approx([0.1, 0.2, 0.3, 0.4] * 3, abs=1e-4)
    assert (source / "critics.png").stat().st_size > 0


def test_the_grid_from_results(tmp_path: Path):
    source = store_with_curves(tmp_path, grid_runs(["heaven-hell-3"], ["a2c-asym-hs"], range(2), steps=1000))
    only = ["--env", "heaven-hell-3"]
    assert cli.main(["reproduce", "grid", *only, "--from-results", str(source), "--out", str(source)]) == 0
    table = pl.read_csv(source / "grid.csv")
    assert table["rank"].to_list() == [1] * 45  # all are alike
    assert table["final"].to_list() == pytest.approx([1.425] * 45)
    (paper,) = table.filter(pl.col("chosen_by") == "the paper").to_dicts()
    assert [paper[name] for name in ("actor_rate", "critic_rate", "entropy_weight")] == [0.001, 0.001, 0.1]
    assert table["chosen_by"].drop_nulls().sort().to_list() == ["the paper", "us"]


def test_a_grid_that_is_not_whole_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    runs = grid_runs(["heaven-hell-3"], ["a2c-asym-hs"], range(1), steps=1000)[:3]
    source = store_with_curves(tmp_path, [*runs, *curve_runs(["cleaner"], ["a2c-asym-hs"], range(1), steps=1000)])
    assert cli.main(["reproduce", "grid", "--from-results", str(source), "--out", str(source)]) == 0
    said = capsys.readouterr().out
    assert "heaven-hell-3 a2c-asym-hs: 3 of 45 settings" in said
    assert "cleaner a2c-asym-hs: 1 of 45 settings" in said
    assert pl.read_csv(source / "grid.csv")["world"].unique().to_list() == ["heaven-hell-3"]
    only = ["--env", "cleaner", "--from-results", str(source)]
    assert cli.main(["reproduce", "grid", *only, "--out", str(source)]) == 2
    assert "was run with one setting" in capsys.readouterr().err


def test_the_shipped_grid_is_whole():
    table = read_results(SHIPPED / "results" / "grid")
    runs = table.group_by("actor_rate", "critic_rate", "entropy_weight", "seed").agg(pl.col("timestep").max())
    assert len(runs) == 900
    assert (runs["timestep"] > 1_970_000).all()
    best, paper, *_ = ranking(table).to_dicts()
    assert (best["chosen_by"], paper["chosen_by"]) == ("us", "the paper")


def test_quick_is_small_and_can_be_changed():
    quick = Reproduce(part="curves", quick=True, seeds=1).extent()
    assert (len(runs_of("curves", quick)), quick.steps) == (3, 800_000)
    assert len(runs_of("grid", Reproduce(part="grid", quick=True).extent())) == 45


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["curves", "--from-results", "nowhere"], "nowhere: there is no such folder"),
        (["curves", "--from-results", str(SHIPPED)], "metrics.parquet: not there yet; have the runs begun?"),
        (["curves", "--from-results", str(SHIPPED / "results" / "curves"), "--until", "0"], "--until 0"),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_results_that_cannot_be_drawn_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    other = grid_runs(["cleaner"], PAPER_METHODS[:1], range(1), steps=1000)[:1]
    source = store_with_curves(tmp_path / "source", other)

    def said(*arguments: str) -> str:
        assert cli.main(["reproduce", *arguments, "--from-results", str(source)]) == 2
        return capsys.readouterr().err

    out = ("--out", str(tmp_path))
    assert f"{source}: no runs with the paper's settings" in said("curves", *out)
    assert "no runs of cleaner with a2c, of the first 20 seeds, of 7 000 steps" in said(
        "curves", "--env", "cleaner", "--methods", "a2c", "--steps", "7000", *out
    )
    assert "nothing was measured in its runs" in said("critics", *out)
    (tmp_path / "file").write_text("")
    assert "file/in: cannot be written" in said("curves", "--out", str(tmp_path / "file" / "in"))
    (source / "metrics.parquet").write_text("no table")
    assert "metrics.parquet: damaged" in said("curves", *out)


def test_runs_can_be_wanted_in_tf32(tmp_path: Path):
    wanted = extent("curves", ["cleaner"], ["a2c"], 2, 1000)
    store, only = reproduction_store("curves", wanted, tmp_path / "store", keep_networks=False, precision="tf32")
    assert only == [0, 1]
    assert {run.settings.precision for run in store.runs} == {"tf32"}
    store.release()


def test_before_training_it_says_how_much_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def nothing(training: Training, store: Store, **_: object) -> int:
        store.release()
        return 0

    monkeypatch.setattr("asymrl.cli.running.Training.train", nothing)
    monkeypatch.setattr("asymrl.cli.commands.reproduce.speed_here", lambda: ("2 cores", 5000.0))
    assert cli.main(["reproduce", "--out", str(tmp_path / "all")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "curves: 800 runs, up to 6 000 000 000 steps in all; very roughly 25 days on 2 cores",
        "for a first look: asymrl reproduce curves --quick, a quarter of an hour on a laptop",
    ]
    assert cli.main(["reproduce", "--quick", "--out", str(tmp_path / "quick")]) == 0
    quick = "curves: 6 runs, up to 4 800 000 steps in all; very roughly 16 minutes on 2 cores\n"
    assert capsys.readouterr().out == quick
