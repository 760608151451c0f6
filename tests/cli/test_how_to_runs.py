"""The code of the how-tos about trained runs does run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from asymrl import cli
from tests.runs.engine.stores import small, store_with_networks

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run where the pages expect it, seen from the current folder."""
    (tmp_path / "runs").mkdir()
    settings = small("heaven-hell-3", method="a2c-asym-hs", time_limit=12)
    store_with_networks(tmp_path / "runs" / "heaven-hell-3-a2c-asym-hs", settings, [0.0, 0.5])
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("run_folder")
@pytest.mark.parametrize(
    ("page", "count"),
    [
        pytest.param("evaluate", 4, marks=pytest.mark.slow),
        pytest.param("render", 6, marks=pytest.mark.slow),
        ("export", 4),
    ],
)
def test_a_page(page: str, count: int):
    blocks = re.findall(r"^```(bash|python)\n(.*?)^```", (HOW_TO / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == count
    names: dict[str, object] = {}
    for language, block in blocks:
        if language == "python":
            exec(compile(block, f"{page}.md", "exec"), names)
            continue
        for line in block.splitlines():
            command, *arguments = shlex.split(line)
            assert (command, cli.main(arguments)) == ("asymrl", 0)
