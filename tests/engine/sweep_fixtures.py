"""Tiny sweeps, and one that nothing disturbed to compare with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asymrl.sweeps.cells import Cell, cells_of
from asymrl.sweeps.ledger import SweepFolder

from tests.engine.conftest import Commands
from tests.engine.conftest import asymrl as asymrl
from tests.engine.conftest import environment as environment

SETTINGS = ["memory_size=4", "hidden=4", "time_limit=4", "steps=6000", "log_points=20"]
SWEEP = [
    *("sweep", "--env", "tiger:episodic=true", "--methods", "a2c-asym-s", "--seeds", "2"),
    *("--refresh-seconds", "0.02", "--checkpoint-seconds", "0"),
]


def sweep(folder: Path, *axes: str) -> list[str]:
    """The command line of a tiny sweep."""
    return [*SWEEP, "--set", *SETTINGS, *axes, "--out", str(folder)]


def curves(folder: Path) -> dict[Cell, np.ndarray]:
    """The finished curve of each cell, each of which must be there once."""
    found: dict[Cell, np.ndarray] = {}
    for results in SweepFolder(folder).results():
        for run, cell in enumerate(cells_of(results.batch)):
            assert cell not in found, f"{cell} was run twice"
            found[cell] = results.curve[run, : results.logged[run]]
    return found


def assert_same_curves(found: dict[Cell, np.ndarray], expected: dict[Cell, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for cell, curve in expected.items():
        np.testing.assert_array_equal(found[cell], curve, err_msg=str(cell))


# A machine that only trains has none of these.
WITHOUT_TABLES = """
import sys
for name in ("polars", "safetensors", "pyarrow", "ray"):
    sys.modules[name] = None
from asymrl.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="session")
def undisturbed(asymrl: Commands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of four cells from start to end, on a machine without any package for tables."""
    folder = tmp_path_factory.mktemp("sweeps") / "undisturbed"
    asymrl.python(WITHOUT_TABLES, *sweep(folder, "actor_rate=0.001,0.0003"))
    return folder
