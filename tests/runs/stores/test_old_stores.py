"""Folders of runs that earlier code has written are opened, continued to the same end, and used in every way.

`old/NAME.zip` holds a folder with a run of a small network, and in `longer.json` its curve after that code has resumed
it: A2C, PPO compiled, normalised and in a world that runs in Python, DQN, one with a probe, and one that was killed.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import asymrl
from asymrl.runs.callback import Callback
from tests.runs.stores.old_stores import OLD, unpacked

NAMES = sorted(file.stem for file in OLD.glob("*.zip"))
EXACT = ["seed", "timestep", "episode", "update"]


def read(file: Path) -> pl.DataFrame:
    return pl.DataFrame(json.loads(file.read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_it_goes_on_to_the_same_end(name: str, tmp_path: Path):
    folder = unpacked(name, tmp_path)
    expected = read(folder / "longer.json")
    before = asymrl.load(folder)
    assert before.table["status"].to_list() == (["training"] if name == "interrupted" else ["complete"])
    measured = before.metrics.select(EXACT).rows()
    assert measured == expected.select(EXACT).rows()[: len(measured)]

    steps = before.runs[0].settings.steps * (1 if name == "interrupted" else 2)
    runs = asymrl.resume(folder, steps=steps, display=Callback())
    assert runs.metrics.select(EXACT).rows() == expected.select(EXACT).rows()
    for number in ("return", "length", "critic_loss"):
        np.testing.assert_allclose(runs.metrics[number], expected[number].cast(pl.Float64), rtol=1e-5, atol=1e-6)
    if name == "probes":
        measured, expected = pl.read_parquet(folder / "probes.parquet"), read(folder / "longer-probes.json")
        assert measured.select("timestep", "probe").rows() == expected.select("timestep", "probe").rows()
        np.testing.assert_allclose(measured["value"], expected["value"], rtol=1e-5)


@pytest.mark.parametrize("name", ["a2c", "dqn", "ppo-normalised", "ppo-python"])
def test_its_agent_is_evaluated_exported_and_reported(name: str, tmp_path: Path):
    runs = asymrl.load(unpacked(name, tmp_path))
    (length,) = runs.evaluate(episodes=2)["length"].to_list()
    assert 1 <= length <= runs.runs[0].settings.time_limit
    assert runs.export(tmp_path / "policy.npz").stat().st_size > 1000
    page = runs.report(tmp_path / "page.html", episodes=1)
    assert runs.runs[0].settings.method in page.read_text()
