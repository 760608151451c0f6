"""What the pages about training say is so."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from asymrl.runs.options import checked_values

from asymrl.cli.train import Train
from asymrl.learning.state import METRICS
from tests.engine.conftest import Commands, Uninterrupted

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def test_the_configuration_file_is_one():
    (text,) = blocks("how-to/train.md", "toml")
    assert checked_values(tomllib.loads(text), "train.md")["hidden"] == (256, 128)


def test_the_options_exist():
    named = set(re.findall(r"`--([a-z-]+)", (DOCS / "how-to/train.md").read_text()))
    known = {each.name.replace("_", "-") for each in fields(Train)}
    assert named - {"help"} <= known
    assert len(named) > 8


def test_the_columns_of_the_metrics_are_explained():
    text = (DOCS / "reference/run-folder.md").read_text()
    assert all(f"`{name}`" in text for name in METRICS)


def test_the_files_of_a_folder_are_listed(uninterrupted: Uninterrupted):
    text = (DOCS / "reference/run-folder.md").read_text()
    for path in uninterrupted.folder.iterdir():
        assert f"`{path.name}{'/' if path.is_dir() else ''}`" in text


SMALL = """
import os, sys
from dataclasses import replace
from pathlib import Path
import asymrl
from asymrl import training
from asymrl.runs.listeners import Silent

os.chdir(sys.argv[1])
small = {"memory_size": 4, "hidden": (4,), "time_limit": 8}

def train(world, method=asymrl.Settings.method, *, steps=2_000_000, **options):
    if isinstance(world, str):
        return training.train(world, method, steps=steps // 1000, listener=Silent(), **small, **options)
    settings = [replace(each, steps=each.steps // 1000, **small) for each in world]
    return training.train(settings, listener=Silent(), **options)

asymrl.train = train
asymrl.resume = lambda path, steps: training.resume(path, steps=steps // 1000, listener=Silent())
for page in sys.argv[2:]:
    exec(compile(page, "page", "exec"))
"""


@pytest.mark.slow
def test_the_python_of_the_pages_runs(asymrl: Commands, tmp_path: Path):
    pages = ("how-to/train.md", "how-to/resume.md", "reference/run-folder.md")
    code = [block for page in pages for block in blocks(page, "python")]
    assert len(code) == 4
    printed = asymrl.python(SMALL, str(tmp_path), *code)
    assert printed.count("shape: ") == 3
