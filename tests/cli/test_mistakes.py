"""Wrong values of options and names: one line on stderr that names the value, exit status 2, no traceback."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import tempfile
from dataclasses import fields
from pathlib import Path

import pytest

from asymrl import cli
from asymrl.cli.command import COMMANDS
from asymrl.cli.commands import envs
from asymrl.cli.parsing import LARGEST_SEED, LIMITS
from asymrl.cli.running import Training

SNAPSHOT = Path(__file__).parent / "snapshots" / "mistakes.txt"
"""Command lines and what they print; `python -m tests.cli.test_mistakes` writes it again."""


def snapshot() -> dict[str, str]:
    """For each command line what it prints."""
    blocks = SNAPSHOT.read_text().removeprefix("$ asymrl ").split("\n$ asymrl ")
    return {line: printed.strip() for line, _, printed in (block.partition("\n") for block in blocks)}


def make_files(folder: Path) -> None:
    """A regular file, a folder and some Python files."""
    (folder / "file").write_text("text")
    (folder / "folder.gif").mkdir()
    (folder / "broken.py").write_text("class World(:\n")
    (folder / "fails.py").write_text("\n1 / 0\n")
    (folder / "raises.py").write_text("class World:\n    def __init__(self):\n        raise KeyError('size')\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with these files."""
    monkeypatch.chdir(tmp_path)
    make_files(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("line", "printed"), snapshot().items(), ids=snapshot())
def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str], line: str, printed: str):
    before = sorted(Path().iterdir())
    assert cli.main(shlex.split(line)) == 2
    assert capsys.readouterr() == ("", f"{printed}\n")
    assert printed.startswith("asymrl: ")
    assert "\n" not in printed
    assert sorted(Path().iterdir()) == before


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train broken.py:World", "world 'broken.py:World': broken.py cannot be imported: broken.py:1: "),
        ("train fails.py:World", "world 'fails.py:World': fails.py cannot be imported: fails.py:2: ZeroDivisionError"),
        ("train raises.py:World", "world 'raises.py:World' cannot be made: raises.py:3: KeyError: 'size'"),
    ],
)
def test_under_a_mistake_in_the_users_code_are_its_lines(capsys: pytest.CaptureFixture[str], line: str, message: str):
    assert cli.main(line.split()) == 2
    printed = capsys.readouterr()
    first, *traceback = printed.err.splitlines()
    assert printed.out == ""
    assert first.startswith(f"asymrl: {message}")
    assert traceback
    assert not any("src/asymrl" in each for each in traceback)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(13, "Permission denied", "somewhere"), "asymrl: somewhere: Permission denied\n"),
        (OSError(28, "No space left on device"), "asymrl: No space left on device\n"),
        (MemoryError("4 TB"), "asymrl: this does not fit into memory; choose smaller numbers (4 TB)\n"),
    ],
)
def test_what_the_machine_refuses_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: BaseException, line: str
):
    def refused(self: object) -> int:
        raise error

    monkeypatch.setattr(envs.Check, "run", refused)
    assert cli.main(["check", "tiger"]) == 2
    assert capsys.readouterr() == ("", line)


def test_limits_are_about_options_that_exist():
    assert set(LIMITS) <= {each.name for command in (*COMMANDS.values(), Training) for each in fields(command)}


def test_the_largest_seed_can_be_used(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["render", "tiger", "--steps", "1", "--seed", str(LARGEST_SEED)]) == 0
    assert "step 1" in capsys.readouterr().out


def test_a_setting_without_effect_is_mentioned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Training, "train", lambda self, store, **_: store.release() or 0)
    for method, mentioned in (("a2c", True), ("a2c-asym-hs", False)):
        line = ["train", "tiger", "--method", method, "--critic-sees", "time", "--out", str(tmp_path / method)]
        assert cli.main(line) == 0
        assert ("critic_sees has no effect: the critic of a2c reads" in capsys.readouterr().out) is mentioned


def write() -> None:
    """Writes the snapshot again."""
    lines, blocks = snapshot(), []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_files(Path(folder))
        for line in lines:
            printed = io.StringIO()
            with contextlib.redirect_stderr(printed):
                assert cli.main(shlex.split(line)) == 2, line
            blocks.append(f"$ asymrl {line}\n{printed.getvalue()}")
    SNAPSHOT.write_text("\n".join(blocks))


if __name__ == "__main__":
    write()
