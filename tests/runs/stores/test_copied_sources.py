"""The copies of code that a store keeps: damaged entries, links and pipes are named, and lead nowhere."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from asymrl.cli import main
from asymrl.runs.files import RunError
from asymrl.runs.store import Store
from tests.runs.stores.foreign_stores import fresh, store_of, write_code

__all__ = ["fresh"]


def test_a_copy_must_lie_in_the_store(tmp_path: Path):
    write_code(Path("own.py"), tmp_path / "mark")
    store_of("own.py:Env")
    settings = Path("runs/settings.json")
    copy = Store.open(Path("runs")).sources["own.py"].copy
    settings.write_text(settings.read_text().replace(f'"{copy}"', '"../own.py"'))
    with pytest.raises(RunError, match=r"'../own.py'.* is no source of worlds in this folder"):
        Store.open(Path("runs"))


DIGEST = {"sha256": "0" * 64}
ENTRIES: dict[str, Any] = {
    "no list": [],
    "an object": {"own.py": 3},
    "kind": {"own.py": {"kind": "spell"}},
    "field": {"own.py": {"kind": "file", "colour": "red", **DIGEST}},
    "number": {"own.py": {"kind": "file", "path": 3, **DIGEST}},
    "NUL": {"own.py": {"kind": "file", "path": "a\0b", **DIGEST}},
    "half a letter": {"own.py": {"kind": "file", "path": "\ud800", **DIGEST}},
    "checksum": {"own.py": {"kind": "file", "path": "/own.py"}},
    "name": {"own\0.py": {"kind": "module"}},
    "empty": {"": {"kind": "module"}},
    "absolute": {"own.py": {"kind": "pomdp", "copy": "/etc/passwd", **DIGEST}},
    "upwards": {"own.py": {"kind": "pomdp", "copy": "sources/../../passwd", **DIGEST}},
    "no copy": {"own.py": {"kind": "pomdp", "copy": "", **DIGEST}},
}


@pytest.mark.parametrize("what", sorted(ENTRIES))
def test_a_damaged_entry_is_named(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    entry = ENTRIES[what]
    write_code(Path("own.py"), tmp_path / "mark")
    store_of("own.py:Env")
    settings = Path("runs/settings.json")
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"sources": entry}))
    for command in (["evaluate", "runs"], ["resume", "runs"]):
        assert main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("asymrl: runs/settings.json: damaged: ")
        assert "sources" in line


@pytest.mark.parametrize("place", ["sources", "sources/DIGEST", "sources/DIGEST/own.py"])
@pytest.mark.parametrize("target", ["elsewhere", "/dev/zero", "nowhere"])
def test_copies_are_neither_read_nor_written_through_links(
    place: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_code(Path("own.py"), tmp_path / "mark")
    store_of("own.py:Env")
    (folder,) = Path("runs/sources").iterdir()
    link, aim = Path("runs") / place.replace("DIGEST", folder.name), tmp_path / target
    (shutil.copytree if link.is_dir() else shutil.copy)(link, tmp_path / "elsewhere")
    shutil.rmtree(link) if link.is_dir() else link.unlink()
    link.symlink_to(aim)
    Path("own.py").unlink()
    for command in (["evaluate", "runs", "--trust"], ["resume", "runs", "--trust"]):
        assert main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"asymrl: {link}: a link to {aim}, outside of the store; put what it leads to in its ")
    with pytest.raises(RunError, match="a link to"):
        Store.take(Path("runs"))
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "mark").exists()


def test_a_new_store_keeps_no_copies_through_a_link(tmp_path: Path):
    write_code(Path("own.py"), tmp_path / "mark")
    (tmp_path / "elsewhere").mkdir()
    Path("runs").mkdir()
    Path("runs/sources").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"^runs/sources: a link to .*elsewhere, outside of the store"):
        store_of("own.py:Env")
    assert not list((tmp_path / "elsewhere").iterdir())
    assert not Path("runs/settings.json").exists()


def test_a_copy_that_is_a_pipe_is_named(tmp_path: Path):
    write_code(Path("own.py"), tmp_path / "mark")
    store_of("own.py:Env")
    (copy,) = Path("runs/sources").rglob("own.py")
    copy.unlink()
    os.mkfifo(copy)
    with pytest.raises(RunError, match=rf"^{copy}: not a regular file; remove it$"):
        Store.take(Path("runs"))
    Path("own.py").unlink()
    with pytest.raises(RunError, match=rf"its copy {copy} is damaged; bring back the file as it was then"):
        Store.open(Path("runs"), trust=True).make_ready()
