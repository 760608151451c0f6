"""The code of the pages about sweeps does run, and their commands are commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import tyro
from asymrl.sweeps.ledger import SweepFolder
from asymrl.sweeps.table import collect_folder

from asymrl.cli.reproduce import Reproduce
from asymrl.cli.sweep import Sweep, read_config
from asymrl.learning.settings import Settings
from tests.engine.made import made_results

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def test_the_page_about_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    for package in ("pandas", "pyarrow", "duckdb"):
        pytest.importorskip(package)
    folder = SweepFolder.take(tmp_path / "results" / "curves")
    folder.write(made_results([Settings("tiger")], [1, 2]))
    folder.release()
    collect_folder(folder.path)
    monkeypatch.chdir(tmp_path)
    for block in blocks("reference/results.md", "python"):
        exec(compile(block, "results.md", "exec"), {})
    # Curves go from the seed to nearly one more; the last tenth is at 0.9 and 0.95.
    assert capsys.readouterr().out.count("2.425") == 3


def test_the_commands_are_understood(tmp_path: Path):
    (config,) = blocks("how-to/sweeps.md", "toml")
    path = tmp_path / "rates.toml"
    path.write_text(config)
    assert read_config(path)["seeds"] == 20
    cells = {}
    lines = [line for block in blocks("how-to/sweeps.md", "bash") for line in block.splitlines()]
    for line in lines:
        asymrl, command, *arguments = shlex.split(line.replace("rates.toml", str(path)))
        assert asymrl == "asymrl"
        kind = {"sweep": Sweep, "reproduce": Reproduce}[command]
        parsed = tyro.cli(kind, args=arguments)
        if isinstance(parsed, Sweep) and not parsed.collect:
            cells[line] = len(parsed._with_config().cells())
    assert list(cells.values()) == [80, 80, 20, 80]
