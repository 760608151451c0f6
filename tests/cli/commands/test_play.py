"""`asymrl play`: an episode of a trained agent, shipped or one's own, as text or as a film."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from asymrl import cli, zoo
from tests.runs.engine.stores import small, store_with_networks


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = cli.main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_without_a_name_the_agents_are_listed(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "play")
    rows = [line.split() for line in out.splitlines() if "a2c-asym-hs" in line]
    assert status == 0
    assert [row[0] for row in rows] == zoo.names()
    assert [float(row[2]) for row in rows] == [round(zoo.load(name).card.greedy_returns, 2) for name in zoo.names()]
    assert max(map(len, out.splitlines())) <= 80


def test_a_shipped_agent_goes_by_the_priest_to_heaven(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "play", "heaven-hell-3", "--seed", 1)
    frames = re.findall(r"^step (\d+)(?:  reward (\S+))?  return (\S+)", out, re.MULTILINE)
    assert status == 0
    assert [int(step) for step, _, _ in frames] == list(range(len(frames)))
    assert (float(frames[-1][1]), float(frames[-1][2])) == (1.0, 1.0)
    assert "(the end)" in out
    *_, summary, how = out.splitlines()
    assert summary.startswith("heaven-hell-3, a2c-asym-hs, seed 0: mean return ")
    assert how == f"Trained by: {zoo.load('heaven-hell-3').card.command}"
    start = run(capsys, "play", "heaven-hell-3", "--seed", 1, "--steps", 2, "--fast")[1]
    assert start.count("\nstep ") == 3
    assert out.startswith(start[: start.index("step 2")])


def test_a_film_of_a_shipped_agent(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    film = tmp_path / "film.gif"
    status, out, _ = run(capsys, "play", "heaven-hell-3", "--steps", 2, "-o", film)
    assert status == 0
    assert out.startswith(f"{film}: 2 steps, return 0\n")
    with Image.open(film) as image:
        assert getattr(image, "n_frames", 1) == 3


def test_a_folder_with_runs_plays_its_best_or_the_chosen_one(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    settings = small("tiger:episodic=true", method="a2c-asym-hs")
    folder = store_with_networks(tmp_path / "tiger", settings, [-20.0, -3.25], first_seed=4)
    status, out, _ = run(capsys, "play", folder, "--steps", 1)
    assert status == 0
    assert out.endswith(", a2c-asym-hs, seed 5: return -3.25 in the last 100 episodes of training\n")
    assert "seed 4: return -20 " in run(capsys, "play", folder, "--steps", 1, "--run-seed", 4)[1]


def test_commands_that_take_a_folder_take_a_shipped_agent(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    status, out, _ = run(capsys, "evaluate", "zoo:heaven-hell-3", "--episodes", 50, "--json")
    report = json.loads(out)
    assert (status, report["world"], report["run"]) == (0, "heaven-hell-3", "zoo:heaven-hell-3")
    assert run(capsys, "export", "zoo:heaven-hell-3", "-o", tmp_path / "policy.npz")[0] == 0
    status, out, _ = run(capsys, "render", "zoo:heaven-hell-3", "--steps", 0)
    assert (status, "critic V(h, s) = " in out) == (0, True)


@pytest.mark.slow
def test_in_a_terminal_a_step_replaces_the_one_before():
    command = [sys.executable, "-m", "asymrl", "play", "heaven-hell-3", "--steps", "2", "--seconds", "0.02"]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "40"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    text = b"".join(parts).decode()
    assert process.returncode == 0
    assert "\x1b[2K" in text  # lines are cleared
    assert text.index("step 0") < text.index("step 1") < text.index("step 2") < text.index("Trained by")
