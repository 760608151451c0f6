"""Every block of Python in the documentation runs, as a reader would run it but with small numbers.

Pages whose results are looked at have tests of their own; all others are run here, from a folder with what they expect.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import asymrl
from asymrl.runs.callback import Callback
from asymrl.runs.store import Store
from tests.doc_pages import READERS, ROOT, blocks, fenced, name_of
from tests.runs.engine.stores import made_result, small, store_with_networks

# Page -> the test that runs its code and looks at what comes out.
WITH_TESTS = {
    "docs/explanation/q-learning.md": "tests/theory/exact/test_q_page.py",
    "docs/how-to/evaluate.md": "tests/cli/test_how_to_runs.py",
    "docs/how-to/export.md": "tests/cli/test_how_to_runs.py",
    "docs/how-to/gymnasium.md": "tests/envs/gym/test_how_to.py",
    "docs/how-to/render.md": "tests/cli/test_how_to_runs.py",
    "docs/how-to/resume.md": "tests/test_doc_code.py",
    "docs/how-to/train.md": "tests/test_doc_code.py",
    "docs/reference/store.md": "tests/test_docs.py",
}
NEEDS = {"docs/how-to/own-environment.md": "gymnax"}
OTHERS = [path for path in READERS if blocks(path, "python") and name_of(path) not in WITH_TESTS]
SMALL = {"memory_size": 4, "hidden": (4,), "time_limit": 8}
PROBLEM = """discount: 0.9
states: 2
actions: 2
observations: 2
T: * identity
O: * identity
R: 0 : 0 : * : * 1
"""


def run(path: Path, names: dict[str, Any]) -> None:
    for block in blocks(path, "python"):
        exec(compile(block, name_of(path), "exec"), names)


@pytest.fixture
def small_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandth of the steps, tiny networks, short episodes."""
    train, resume = asymrl.train, asymrl.resume

    def train_small(world: Any, method: str | None = None, *, steps: int = 2_000_000, **options: Any) -> asymrl.Runs:
        if isinstance(world, str):
            return train(world, method, steps=steps // 1000, display=Callback(), **(SMALL | options))
        settings = [replace(each, steps=each.steps // 1000, **SMALL) for each in world]
        return train(settings, display=Callback(), **options)

    monkeypatch.setattr(asymrl, "train", train_small)
    monkeypatch.setattr(asymrl, "resume", lambda path, steps: resume(path, steps=steps // 1000, display=Callback()))


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a problem file, runs under the names that pages use, and the results of the repository."""
    (tmp_path / "problem.pomdp").write_text(PROBLEM)
    for name in ("results", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "runs").mkdir()
    for name, world in (
        ("heaven-hell-3-a2c-asym-hs", "heaven-hell-3"),
        ("CartPole-v1-a2c-asym-hs", "CartPole-v1"),
        ("hh3", "tiger"),  # few enough histories for an audit
    ):
        settings = small(world, method="a2c-asym-hs", time_limit=4)
        store = Store.take(store_with_networks(tmp_path / "runs" / name, settings, [0.0, 0.5]))
        store.write_tables({number: made_result(each) for number, each in enumerate(store.runs)})
        store.release()
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("small_training", "workplace")
@pytest.mark.parametrize("path", OTHERS, ids=name_of)
def test_the_code_of_a_page_runs(path: Path):
    if module := NEEDS.get(name_of(path)):
        pytest.importorskip(module)
    run(path, {})


@pytest.mark.slow
@pytest.mark.usefixtures("small_training")
def test_runs_are_trained_and_made_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    """As the two pages say, one after the other."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for page in ("train", "resume"):
        run(ROOT / "docs" / "how-to" / f"{page}.md", names)
    assert capsys.readouterr().out.count("shape: ") == 2
    text = (ROOT / "docs" / "reference" / "store.md").read_text()
    for path in (tmp_path / "runs" / "heaven-hell-3-a2c-asym-hs").iterdir():
        assert f"`{path.name}{'/' if path.is_dir() else ''}`" in text


def test_no_block_of_python_is_left_out():
    """Neither by a word after its language nor by a test that has gone."""
    odd = {language for path in READERS for language, _ in fenced(path) if language.startswith("py")}
    assert odd == {"python"}
    for page, test in WITH_TESTS.items():
        assert blocks(ROOT / page, "python"), page
        text = (ROOT / test).read_text()
        assert Path(page).name in text or f'"{Path(page).stem}"' in text, f"{test} does not name {page}"


def test_blocks_of_python_can_be_compiled():
    for path in READERS:
        for block in blocks(path, "python"):
            compile(block, name_of(path), "exec")
