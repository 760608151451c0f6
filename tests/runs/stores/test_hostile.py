"""A folder from somebody else: every command answers in one line, in time, and writes nowhere else."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asymrl import cli
from asymrl.reading import MOST_DEPTH, UnreadableError, parse_json, read_json, read_regular
from asymrl.runs.checkpoint import digest_of
from asymrl.runs.files import Lock, RunError, write_whole
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from tests.runs.engine.conftest import random_saved, tiny

SECONDS = 30.0  # for a command, on a busy machine, without training


def test_only_regular_files_of_a_known_size_are_read(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "large").write_bytes(b"12345")
    for name, message in (("pipe", "not a regular file"), ("zero", "not a regular file"), ("large", "has 5 bytes")):
        with pytest.raises(UnreadableError, match=message):
            read_regular(tmp_path / name, 4)
    assert read_regular(tmp_path / "large", 5) == b"12345"


def test_deep_and_damaged_json_is_refused():
    deep = b"[" * 100_000 + b"]" * 100_000
    for text in (deep, b"[" * 40 + b"]" * 40, b"{", b"\xff", b'{"a": 1' + b"0" * 5000 + b"}"):
        with pytest.raises(UnreadableError):
            parse_json(text, "here")
    most = b"[" * MOST_DEPTH + b"]" * MOST_DEPTH
    assert parse_json(most, "here")


def test_links_in_the_folder_lead_nowhere(tmp_path: Path):
    victim, folder = tmp_path / "victim", tmp_path / "runs"
    victim.write_text("precious")
    folder.mkdir()
    (folder / ".lock").symlink_to(victim)
    with pytest.raises(RunError, match="it is a link"):
        Lock(folder)
    (folder / ".lock").unlink()
    os.mkfifo(folder / ".lock")
    with pytest.raises(RunError, match="not a regular file"):
        Lock(folder)
    (folder / "table.unfinished").symlink_to(victim)
    write_whole(folder / "table", b"new")
    assert ((folder / "table").read_bytes(), victim.read_text()) == (b"new", "precious")


@pytest.mark.parametrize("name", ["checkpoint", "curve.png", ".curve.png", "report.html", "metrics.parquet"])
def test_a_training_writes_through_no_link(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str):
    folder, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    shutil.copytree(stored, folder)
    elsewhere.mkdir()
    if name == "checkpoint":
        shutil.rmtree(folder / name)
    (folder / name).symlink_to(elsewhere if name == "checkpoint" else elsewhere / "victim")
    assert cli.main(["resume", str(folder)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"asymrl: {folder / name}: a link to {elsewhere}")
    assert not list(elsewhere.iterdir())


def test_links_that_lead_to_each_other_are_refused(stored: Path, tmp_path: Path):
    folder = tmp_path / "runs"
    shutil.copytree(stored, folder)
    (folder / "checkpoint" / "inside").symlink_to("../settings.json")  # does no harm
    (folder / ".venv").symlink_to(tmp_path)  # a folder of the user, where nothing is written
    Store.take(folder).release()
    (folder / "checkpoint" / "a").symlink_to("b")
    (folder / "checkpoint" / "b").symlink_to("a")
    with pytest.raises(RunError, match="checkpoint/a: a link to b, outside of the store"):
        Store.take(folder)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs in the middle of their training."""
    folder = tmp_path_factory.mktemp("stored") / "runs"
    runs = (Run(tiny(), 0), Run(tiny(), 1))
    store = Store.create(folder, runs)
    store.save(random_saved(runs), "core 0")
    store.release()
    return folder


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """A manifest with a change and a digest that agrees with it, as somebody with bad intentions would write it."""
    data = json.loads(path.read_text())
    change(data)
    data["digest"] = digest_of(data)
    path.write_text(json.dumps(data))


def set_everywhere(folder: Path, name: str, value: Any) -> None:
    """A setting with another value, in the settings and in the checkpoint."""
    for path in (folder / "settings.json", *folder.glob("checkpoint/*.json")):
        rewritten(path, lambda data: data["settings"].__setitem__(name, value))


HOSTILE: dict[str, Callable[[Path], Any]] = {
    "unknown world": lambda folder: set_everywhere(folder, "world", "nowhere"),
    "world too large": lambda folder: set_everywhere(folder, "world", "heaven-hell-999999999"),
    "missing module": lambda folder: set_everywhere(folder, "world", "no_module_of_mine:World"),
    "unknown memory": lambda folder: set_everywhere(folder, "memory", "rnn"),
    "many hidden layers": lambda folder: set_everywhere(folder, "hidden", [1] * 5000),
    "size beyond memory": lambda folder: set_everywhere(folder, "memory_size", 2**20),
    "number of another kind": lambda folder: set_everywhere(folder, "actor_rate", {"a": []}),
    "method is a list": lambda folder: set_everywhere(folder, "method", ["a2c"]),
    "deep settings": lambda folder: (folder / "settings.json").write_text("[" * 100_000),
    "settings is a list": lambda folder: (folder / "settings.json").write_text("[]"),
    "runs is a number": lambda folder: rewritten(folder / "settings.json", lambda d: d.__setitem__("runs", 3)),
    "probes": lambda folder: rewritten(folder / "settings.json", lambda d: d.__setitem__("probes", {"tiger": 1})),
    "sources": lambda folder: rewritten(folder / "settings.json", lambda d: d.__setitem__("sources", {"a": 1})),
    "manifest names another file": lambda folder: rewritten(
        next(folder.glob("checkpoint/*.json")), lambda d: d.__setitem__("file", "../../../etc/passwd")
    ),
    "manifest without arrays": lambda folder: rewritten(
        next(folder.glob("checkpoint/*.json")), lambda d: d.__setitem__("arrays", None)
    ),
    "manifest is a pipe": lambda folder: replace_by_pipe(next(folder.glob("checkpoint/*.json"))),
    "arrays are /dev/zero": lambda folder: replace_by_link(next(folder.glob("checkpoint/*.safetensors")), "/dev/zero"),
    "table is a pipe": lambda folder: replace_by_pipe(folder / "metrics.parquet"),
    "table is no table": lambda folder: [(folder / f"{n}.parquet").write_bytes(b"PAR1") for n in ("runs", "metrics")],
    "sessions is a number": lambda folder: (folder / "sessions.json").write_text("3"),
    "sessions have devices without names": lambda folder: (folder / "sessions.json").write_text('[{"devices": 3}]'),
    "sessions are endless": lambda folder: (folder / "sessions.json").write_text('[{"seconds": "x", "steps": 1e400}]'),
    "world has thousands of digits": lambda folder: set_everywhere(folder, "world", "heaven-hell-" + "9" * 5000),
    "checkpoint is a file": lambda folder: [shutil.rmtree(folder / "checkpoint"), (folder / "checkpoint").touch()],
    "deep argument": lambda folder: set_everywhere(folder, "world", "CartPole-v1:x=" + "[" * 100_000),
}


def replace_by_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def replace_by_link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def answers(folder: Path, capsys: pytest.CaptureFixture[str], commands: list[str], what: str) -> None:
    """Every command succeeds, or fails in one line, within seconds."""
    for command in commands:
        begin = time.monotonic()
        status = cli.main([*command.format(folder=folder).split()])
        printed = capsys.readouterr()
        assert status in (0, 1, 2), (what, command, status)
        assert "Traceback" not in printed.err, (what, command, printed.err)
        assert status == 0 or printed.err.count("\n") <= 3, (what, command, printed.err)
        assert time.monotonic() - begin < SECONDS, (what, command)


# A training writes these anew, or fails only when it is over.
MENDED = {"table is a pipe", "table is no table", *(what for what in HOSTILE if what.startswith("sessions"))}
READING = ["evaluate {folder} --episodes 2", "report {folder} -o {folder}/../report.html", "export {folder} -o p.npz"]


@pytest.mark.parametrize("what", sorted(set(HOSTILE) - MENDED))
def test_resume_answers_in_one_line(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str):
    folder = tmp_path / "runs"
    shutil.copytree(stored, folder)
    HOSTILE[what](folder)
    status = cli.main(["resume", str(folder)])
    printed = capsys.readouterr()
    assert status in (1, 2)
    assert "Traceback" not in printed.err
    assert str(folder) in printed.err or "asymrl: " in printed.err
    if status == 2:
        assert printed.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("what", sorted(HOSTILE))
def test_commands_that_read_answer_in_one_line(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, what: str
):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs"
    shutil.copytree(stored, folder)
    HOSTILE[what](folder)
    answers(folder, capsys, [*READING, "render {folder} --steps 2", "play {folder} --steps 1"], what)


VALUES = [None, True, -1, 0, 3, 2**31, 10**30, 1e308, "", "x", "../x", [], [[]], {}, {"a": 1}, "é" * 1000, [0] * 100]


def mutated(data: Any, chance: random.Random) -> Any:
    """A copy of some JSON data with one part removed, replaced or doubled."""
    data = json.loads(json.dumps(data))
    parent: Any = None
    place, key = data, None
    while isinstance(place, dict | list) and place:
        parent, key = place, chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        place = parent[key]
        if chance.random() < 0.3:
            break
    if key is not None:
        if isinstance(parent, dict) and chance.random() < 0.3:
            del parent[key]
        elif isinstance(parent, list) and chance.random() < 0.3:
            parent.append(parent[key])
        else:
            parent[key] = chance.choice(VALUES)
    return data


def flipped(data: bytes, chance: random.Random) -> bytes:
    """Bytes with some changed, cut off or added."""
    if chance.random() < 0.3:
        return data[: chance.randrange(len(data) + 1)]
    changed = bytearray(data)
    for _ in range(chance.choice([1, 3, 30])):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed) + (b"more" if chance.random() < 0.2 else b"")


@pytest.mark.slow
def test_hundreds_of_damaged_folders(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Whatever is changed, a manifest's digest agrees with it, so that the checks behind it are reached too."""
    monkeypatch.chdir(tmp_path)
    # A sound store would be trained and written; here it is only read, and resumed as far as the first look.
    monkeypatch.setattr("asymrl.cli.running.Training.train", lambda _, store, **__: store.release() or 0)
    commands = ["resume {folder}", *READING, "render {folder} --steps 1", "play {folder} --steps 1"]
    for seed in range(300):
        chance, folder = random.Random(seed), tmp_path / f"runs{seed}"
        shutil.copytree(stored, folder)
        path = chance.choice(sorted(each for each in folder.rglob("*") if each.is_file() and each.name != ".lock"))
        if path.suffix == ".json" and chance.random() < 0.8:
            data = mutated(json.loads(path.read_text()), chance)
            if isinstance(data, dict) and "digest" in data:
                data["digest"] = digest_of(data)
            path.write_text(json.dumps(data))
        else:
            path.write_bytes(flipped(path.read_bytes(), chance))
        answers(folder, capsys, [chance.choice(commands), chance.choice(commands)], f"{seed} {path.name}")
        shutil.rmtree(folder, ignore_errors=True)


def test_a_sound_file_is_read(tmp_path: Path):
    (tmp_path / "a.json").write_text('{"a": [1, {"b": null}]}')
    assert read_json(tmp_path / "a.json") == {"a": [1, {"b": None}]}
