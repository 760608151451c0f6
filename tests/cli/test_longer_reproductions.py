"""Reproductions that are asked for again, with more steps: their runs go on from where they ended."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from asymrl import cli
from asymrl.cli.running import Training
from asymrl.report.paper import parts
from asymrl.runs.store import Store
from tests.runs.engine.conftest import final_states
from tests.runs.engine.stores import store_with_curves

TINY = {"memory_size": 4, "hidden": (4,), "time_limit": 6}


@pytest.fixture
def tiny_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's settings with networks that take no time."""
    paper = parts.tuned
    monkeypatch.setattr(parts, "tuned", lambda world, method: {**(paper(world, method) or {}), **TINY})


def reproduce(folder: Path, steps: int, *more: str) -> int:
    which = ["--env", "heaven-hell-4", "--methods", "a2c", "a2c-asym-s", "--seeds", "2", "--steps", str(steps)]
    return cli.main(["reproduce", "curves", *which, "--no-draw", "--out", str(folder), *more])


def assert_equal_states(folder: Path, expected: Path) -> None:
    """Bit for bit, apart from what was measured on the way, whose times depend on the speed of the machine."""
    states, others = final_states(folder), final_states(expected)
    assert set(states) == set(others)
    assert len(states) == 4
    for run, arrays in states.items():
        for name, array in arrays.items():
            if not name.startswith("extra."):
                assert array.tobytes() == others[run][name].tobytes(), (run, name)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_networks")
def test_longer_runs_are_those_that_would_have_been_trained_in_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    longer, resumed, whole = (tmp_path / name for name in ("longer", "resumed", "whole"))
    assert reproduce(longer, 1000) == 0
    shutil.copytree(longer, resumed)
    assert reproduce(longer, 2000) == 0
    assert cli.main(["resume", str(resumed), "--steps", "2000"]) == 0
    monkeypatch.setattr(parts, "POINTS", 2 * parts.POINTS)  # the distance of two points stays
    assert reproduce(whole, 2000) == 0
    for folder in (longer, resumed):
        assert_equal_states(folder, whole)
        assert Store.open(folder).metrics().equals(Store.open(whole).metrics())
        probes = pl.read_parquet(folder / "probes.parquet")
        assert probes["timestep"].max() == pl.read_parquet(whole / "probes.parquet")["timestep"].max()
        # The distance of measurements is that of the store.
        assert Store.open(folder).probes == {"heaven-hell-4": {"n": 4, "every": 5}}
    capsys.readouterr()
    assert reproduce(longer, 1000) == 0
    assert "already complete" in capsys.readouterr().out


def test_runs_without_networks_are_not_made_longer_and_the_message_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    short = parts.curve_runs(["cleaner"], ["a2c"], range(2), 2_000_000)
    source = store_with_curves(tmp_path / "runs", short)
    which = ["reproduce", "curves", "--env", "cleaner", "--methods", "a2c", "--seeds", "2", "--no-draw"]
    assert cli.main([*which, "--out", str(source)]) == 2
    said = capsys.readouterr().err
    assert "the networks of its runs were not kept, so they cannot be made longer" in said
    assert "or fewer --steps: one of them has 2000000" in said
    assert Store.open(source).runs == tuple(short)
    assert cli.main([*which, "--out", str(source), "--steps", "2000000"]) == 0


@pytest.mark.parametrize(
    ("part", "seeds", "wanted", "kept"),
    [
        ("curves", 500, (), True),  # of the figures all, so that they can be made longer
        ("curves", 2, ("--no-keep-networks",), False),
        ("grid", 2, (), True),
        ("grid", 20, (), False),
        ("grid", 20, ("--keep-networks",), True),
    ],
)
def test_which_networks_are_kept(
    part: str, seeds: int, wanted: tuple[str, ...], kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stores: list[Store] = []

    def note(training: Training, store: Store, **_: object) -> int:
        store.release()
        stores.append(store)
        return 0

    monkeypatch.setattr("asymrl.cli.running.Training.train", note)
    which = ["--env", "cleaner", "--methods", "a2c", "--seeds", str(seeds), *wanted]
    assert cli.main(["reproduce", part, *which, "--out", str(tmp_path)]) == 0
    assert [store.keeps_networks for store in stores] == [kept]
