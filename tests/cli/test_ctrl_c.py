"""Ctrl-C ends a command at once with 130, whatever it is doing: importing, compiling, training, writing."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from asymrl.startup import is_command
from tests.runs.engine.conftest import OPTIONS, WORLD, Commands, assert_same_result, environment

__all__ = ["environment"]

SMALL = ["memory_size=4", "hidden=4", "time_limit=4"]
LONG = ["--steps", "40_000_000"]  # never over by itself
PROMPT = 8.0  # seconds, on a busy machine; alone it takes one


@pytest.fixture
def asymrl(environment: dict[str, str], tmp_path: Path) -> Commands:
    """Nothing is taken from a cache: everything is compiled."""
    return Commands({**environment, "ASYMRL_CACHE": str(tmp_path / "cache")})


def descendants(process: int) -> set[int]:
    """The processes that a process has started, with theirs."""
    families: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
            if state != "Z":
                families.setdefault(int(parent), []).append(int(stat.parent.name))
    found, queue = set(), [process]
    while queue:
        children = families.get(queue.pop(), [])
        found |= set(children)
        queue += children
    return found


def start(asymrl: Commands, *arguments: str) -> subprocess.Popen[str]:
    """Starts a command as a shell does in the foreground: a test that runs in the background may ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return asymrl.start(*arguments)
    finally:
        signal.signal(signal.SIGINT, before)


def is_ended(status: int, err: str) -> bool:
    """Whether this is the silent end of a command; until our first lines have run, Python ends as it likes."""
    ours = set(re.findall(r"asymrl/([\w/]+)\.py", err)) - {"__init__", "startup"}
    return (status, err) == (130, "") or (status == -signal.SIGINT and not ours)


def interrupt(process: subprocess.Popen[str], seconds: float) -> tuple[int, str, str]:
    """Exit status and output after Ctrl-C so many seconds after the start; nothing may be left behind."""
    time.sleep(seconds)
    assert process.poll() is None, process.communicate()
    family = descendants(process.pid)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - begin < PROMPT, (seconds, out, err)
    until = time.monotonic() + 10
    while (left := {pid for pid in family if Path(f"/proc/{pid}").exists() and _is_running(pid)}) and (
        time.monotonic() < until
    ):
        time.sleep(0.05)
    assert not left
    return process.returncode, out, err


def _is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def check_folder(folder: Path) -> None:
    """Nothing is half-written: what is there can be read."""
    assert not list(folder.rglob("*.unfinished"))
    for path in folder.rglob("*.json"):
        json.loads(path.read_text())


@pytest.mark.parametrize("seconds", [0.4, 2.0])
def test_ctrl_c_ends_a_training_that_has_hardly_begun(asymrl: Commands, tmp_path: Path, seconds: float):
    process = start(asymrl, "train", WORLD, *OPTIONS, *LONG, "--out", str(tmp_path / "runs"))
    status, _, err = interrupt(process, seconds)
    assert is_ended(status, err), (status, err)
    check_folder(tmp_path)


COMMANDS = {
    "train": ["train", WORLD, *OPTIONS, *LONG],
    "processes": ["train", WORLD, *OPTIONS, *LONG, "--processes", "2"],
    "sweep": [
        *("sweep", "--env", WORLD, "--methods", "a2c-asym-s", "a2c", "--seeds", "2"),
        *("--set", *SMALL, "steps=40_000_000"),
    ],
    "compare": [
        *("compare", WORLD, "--methods", "a2c-asym-s", "a2c", "--seeds", "2", *LONG),
        *("--set", *SMALL),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_ctrl_c_at_many_moments(asymrl: Commands, tmp_path: Path, command: str):
    moments = random.Random(command)
    for i in range(10):
        folder = tmp_path / str(i)
        seconds = 0.05 + (12.0 if command == "processes" else 8.0) * moments.random() ** 2
        process = start(asymrl, *COMMANDS[command], "--out", str(folder))
        status, out, err = interrupt(process, seconds)
        assert is_ended(status, err), (seconds, status, out, err)
        if folder.exists():
            check_folder(folder)


@pytest.mark.slow
def test_ctrl_c_during_an_evaluation(asymrl: Commands, tmp_path: Path):
    assert asymrl.train(tmp_path / "runs")[0] == 0
    for seconds in (0.05, 0.3, 1.0, 2.0, 3.0, 4.0):
        process = start(asymrl, "evaluate", str(tmp_path / "runs"), "--episodes", "10M")
        status, out, err = interrupt(process, seconds)
        assert is_ended(status, err), (seconds, status, out, err)


@pytest.mark.slow
def test_what_was_interrupted_at_once_can_be_resumed(asymrl: Commands, tmp_path: Path):
    for i, seconds in enumerate((0.0, 0.5)):
        folder = tmp_path / str(i)
        process = start(asymrl, "train", WORLD, *OPTIONS, "--out", str(folder))
        until = time.monotonic() + 60
        while not (folder / "settings.json").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.01)
        interrupt(process, seconds)
        status, _, err = asymrl("resume", str(folder))
        assert (status, err) == (0, "")
        asymrl.train(tmp_path / f"whole {i}")
        assert_same_result(folder, tmp_path / f"whole {i}")


def test_a_compilation_is_not_waited_for(asymrl: Commands):
    """A swallowed KeyboardInterrupt, and native code that does not return: the process ends all the same."""
    script = """
import sys, time
sys.argv = ["asymrl", "doctor"]
import asymrl.cli.command
def swallow(arguments):
    print("ready", flush=True)
    while True:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            pass
asymrl.cli.command.main = swallow
raise SystemExit(asymrl.cli.main())
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=asymrl.environment
    )
    assert process.stdout is not None
    with process.stdout as out:
        assert out.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


def test_nothing_is_raised_into_an_import(tmp_path: Path):
    """Native modules crash if what they call while they begin raises; a module that tells stands for them."""
    (tmp_path / "slow_module.py").write_text(
        "import time\nprint('ready', flush=True)\ntry:\n    time.sleep(60)\nfinally:\n    print('raised', flush=True)\n"
    )
    script = "from asymrl.runs.interrupts import PromptEnd\nwith PromptEnd():\n    import slow_module"
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")


def test_only_the_command_guards_its_imports():
    assert is_command(["python", "-m", "asymrl", "train"])
    assert is_command(["python", os.path.join("bin", "asymrl"), "train"])
    assert not is_command(["python", "-c", "import asymrl"])
    assert not is_command(["python", "train.py", "asymrl"])
