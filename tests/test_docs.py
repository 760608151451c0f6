"""The pages of the documentation are true, as far as that can be told without building them."""

from __future__ import annotations

import pkgutil
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scripts.commands_page import PAGE, page

import asymrl
from asymrl.cli.commands.reproduce import Reproduce
from asymrl.cli.commands.sweep import Sweep, read_config
from asymrl.cli.commands.train import Train
from asymrl.cli.parsing import parse
from asymrl.learners.state import METRICS
from asymrl.runs.options import checked_values
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.runs.tables import COMPLETE, RunResult
from asymrl.settings import A2CSettings
from tests import doc_pages
from tests.cli.test_help import options_of

PAGES = Path(__file__).parents[1] / "docs"
ALL = sorted(PAGES.rglob("*.md"))
NAMED = [
    (page.relative_to(PAGES).as_posix(), line.removeprefix("::: "))
    for page in ALL
    for line in page.read_text().splitlines()
    if line.startswith("::: ")
]


def blocks(name: str, language: str) -> list[str]:
    return doc_pages.blocks(PAGES / name, language)


@pytest.mark.parametrize(("page", "name"), NAMED)
def test_what_the_reference_describes_is_there(page: str, name: str):
    assert pkgutil.resolve_name(name) is not None, page


def test_the_members_that_the_reference_lists_are_there():
    pattern = r"^::: (\S+)\n    options:\n      members: \[(.*)\]$"
    listed = [match for path in ALL for match in re.findall(pattern, path.read_text(), re.MULTILINE)]
    assert len(listed) > 5
    for name, members in listed:
        described = pkgutil.resolve_name(name)
        assert [member for member in members.split(", ") if not hasattr(described, member)] == [], name


def test_the_page_of_commands_is_up_to_date():
    assert PAGE.read_text() == page(), "write it again with `python scripts/commands_page.py`"


def test_the_advice_on_critics_quotes_what_other_pages_measured():
    advice = (PAGES / "explanation/which-critic.md").read_text()
    sources = {
        "studies/bootstrap.md": [
            "| V(h) | 1 | 1 | 1 | 5 | 14 |",
            "| V(s) | 0 | 0 | 15 | 14 | 18 |",
            "| V(h, s) | 18 | 16 | 18 | 14 | 12 |",
            "| -0.62 | -0.47 | 0.73 | 0.99 | 1 |",
        ],
        "methods/ppo.md": [
            "| 0.60 ± 0.09 | 0.91 ± 0.04 | 0.80 ± 0.06 |",
            "| -100.16 ± 0.03 | -9.19 ± 0.08 | -0.41 ± 0.04 |",
        ],
        "methods/dqn.md": ["-90.92", "3.94", "3.87"],
        "studies/ppo-bootstrap.md": ["0.91", "0.03", "0.80", "0.21"],
        "how-to/compare.md": ["91 [72, 96]", "81 [57, 95]", "46 [38, 64]"],
    }
    for name, numbers in sources.items():
        text = (PAGES / name).read_text()
        assert [number for number in numbers if number not in advice or number not in text] == [], name


@pytest.mark.parametrize(
    ("name", "count"), [("reference/glossary.md", 30), ("methods/algorithm.md", 10), ("explanation/design.md", 10)]
)
def test_code_that_a_page_names_exists(name: str, count: int):
    named = doc_pages.named_code(PAGES / name)
    assert len(named) > count
    for file, defined in named:
        assert re.search(rf"^(def|class) {defined}\b", file.read_text(), re.MULTILINE), f"{file} has no {defined}"


def test_the_configuration_file_of_train_is_one():
    (text,) = blocks("how-to/train.md", "toml")
    assert checked_values(tomllib.loads(text), "train.md")["hidden"] == (256, 128)


def test_the_options_of_train_exist():
    named = set(re.findall(r"`--([a-z0-9-]+)", (PAGES / "how-to/train.md").read_text()))
    known = {option.removeprefix("--") for option in options_of(Train)}
    assert named - {"help"} <= known
    assert len(named) > 8


def test_the_commands_about_sweeps_are_understood(tmp_path: Path):
    (config,) = blocks("how-to/sweeps.md", "toml")
    path = tmp_path / "rates.toml"
    path.write_text(config)
    assert read_config(path)["seeds"] == 20
    runs = []
    for line in [line for block in blocks("how-to/sweeps.md", "bash") for line in block.splitlines()]:
        command, kind, *arguments = shlex.split(line.replace("rates.toml", str(path)))
        assert command == "asymrl"
        parsed = parse({"sweep": Sweep, "reproduce": Reproduce}[kind], arguments, "asymrl")
        if isinstance(parsed, Sweep):
            runs.append(len(parsed.runs()))
    assert runs == [80, 20, 20, 80]


@pytest.fixture
def curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Two finished runs where the page about stores expects them: returns of their seeds to one more, in 20 points."""
    runs = [Run(A2CSettings("tiger", steps=1000, log_points=20), seed) for seed in (1, 2)]
    store = Store.create(tmp_path / "results" / "curves", runs)
    curve = np.zeros((20, len(METRICS)), np.float32)
    curve[:, METRICS.index("timestep")] = np.arange(0, 1000, 50)
    curve[:, METRICS.index("episode")] = 100
    for number, run in enumerate(runs):
        curve[:, METRICS.index("return")] = run.seed + np.arange(20) / 20
        store.write_tables({number: RunResult(COMPLETE, timesteps=1000, episodes=100, curve=curve.copy())})
    store.release()
    monkeypatch.chdir(tmp_path)
    return store


@pytest.mark.parametrize("block", blocks("reference/store.md", "python"), ids=lambda block: block.split()[1])
def test_the_code_about_stores_runs(block: str, curves: Store, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip(block.split()[1])
    if "pandas" in block:
        pytest.importorskip("pyarrow")
    exec(compile(block, "store.md", "exec"), {})
    assert "2.425" in capsys.readouterr().out  # the last tenth of both runs is at 0.9 and 0.95


def test_the_tables_of_a_store_are_explained(curves: Store):
    text = (PAGES / "reference/store.md").read_text()
    tables = asymrl.load(curves.path)
    assert [name for name in [*tables.metrics.columns, *tables.table.columns] if f"`{name}`" not in text] == [
        "log_points"
    ] * 2
