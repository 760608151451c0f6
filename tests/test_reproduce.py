"""`asymrl reproduce` from results that are there, and what it would train."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from asymrl import cli
from asymrl.commands.reproduce import Reproduce
from asymrl.names import METHODS, PAPER_WORLDS
from asymrl.paper.evaluation import curve_cells, grid_cells
from asymrl.paper.fork import PAIRS
from asymrl.sweeps.cells import by_shape
from asymrl.sweeps.ledger import SweepFolder
from asymrl.sweeps.table import collect_folder
from tests.sweeps.made import made_results


def made_folder(path: Path, cells: list, probe: bool = False) -> Path:
    folder = SweepFolder.take(path)
    for group in by_shape(cells).values():
        settings, seeds = list(dict.fromkeys(cell.settings for cell in group)), sorted({cell.seed for cell in group})
        runs = len(settings) * len(seeds)
        more = {}
        if probe:
            steps = np.linspace(0, settings[0].steps, 11).astype(np.int32)
            values = np.broadcast_to(np.asarray([0.1, 0.2, 0.3, 0.4], np.float32), (11, runs, 4))
            more["probe"] = {"probe_timesteps": np.tile(steps[:, None], (1, runs)), "probe_values": values}
            more["about"] = {"probe_columns": list(PAIRS)}
        folder.write(made_results(settings, seeds, **more))
    folder.release()
    collect_folder(path)
    return path


def test_the_evaluation_is_the_papers():
    cells = curve_cells(PAPER_WORLDS, METHODS, range(20))
    assert len(cells) == 800
    assert sum(cell.settings.steps for cell in cells) == 3_200_000_000
    assert len(grid_cells(PAPER_WORLDS, METHODS, range(20))) == 36_000


def test_curves_from_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = made_folder(tmp_path / "source", curve_cells(["car-flag", "cleaner"], METHODS[:3], range(3)))
    worlds = ["--env", "car-flag", "cleaner", "--methods", *METHODS[:3]]
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


def test_critics_from_results(tmp_path: Path):
    cells = curve_cells(["heaven-hell-4"], METHODS[:3], range(2))
    source = made_folder(tmp_path, cells, probe=True)
    assert cli.main(["reproduce", "critics", "--from-results", str(source)]) == 0
    table = pl.read_csv(source / "critics.csv")
    assert table["value"].to_list() == pytest.approx([0.1, 0.2, 0.3, 0.4] * 3, abs=1e-4)
    assert (source / "critics.png").stat().st_size > 0


def test_the_grid_from_results(tmp_path: Path):
    source = made_folder(tmp_path, grid_cells(["heaven-hell-3"], ["a2c-asym-hs"], range(2), steps=1000))
    only = ["--env", "heaven-hell-3"]
    assert cli.main(["reproduce", "grid", *only, "--from-results", str(source)]) == 0
    (row,) = pl.read_csv(source / "grid.csv").to_dicts()
    assert (row["settings"], row["rank_of_paper"], row["paper_entropy_weight"]) == (45, 1, 0.1)


def test_quick_is_small_and_can_be_changed():
    quick = Reproduce(part="curves", quick=True, seeds=1)._complete()
    assert (len(quick.cells()), quick.steps) == (3, 800_000)
    assert len(Reproduce(part="grid", quick=True)._complete().cells()) == 45


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["curves", "--env", "tiger"], "the paper has heaven-hell-3"),
        (["critics", "--env", "heaven-hell-3"], "four histories of heaven-hell-4"),
        (["curves", "--from-results", "nowhere"], "not there; put the results together"),
        (["grid", "--methods", "sarsa"], "--methods sarsa"),
    ],
)
def test_mistakes_are_explained(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err
