"""A mistake in a user's environment stops the run that meets it; it is saved, and goes on once that is corrected."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from asymrl.runs.store import Store
from tests.envs.gym import faulty_envs
from tests.runs.engine.conftest import final_states

SMALL = ["--memory-size", "4", "--hidden", "4", "--steps", "160", "--log-points", "4", "--time-limit", "4"]
LEARNERS = {
    "a2c": [],
    "ppo": ["--streams", "2", "--rollout", "8", "--minibatches", "1", "--epochs", "1"],
    "dqn": ["--prefill", "8", "--replay-steps", "64"],
}
TOLD = "mine.py:FailsWhenTold"
MISTAKEN = """

class Mistaken(Sound):
    def step(self, action):
        1 / 0
        return super().step(action)
"""


@dataclass(frozen=True)
class Folder:
    """A user's folder with an environment in it, and the command."""

    path: Path
    environment: dict[str, str]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "asymrl", *arguments]
        done = subprocess.run(
            command, cwd=self.path, env=self.environment, text=True, capture_output=True, timeout=300, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def train(self, env: str, method: str, out: str, *more: str) -> tuple[int, str, str]:
        own = LEARNERS[method]
        return self.run("train", env, "--method", method, *SMALL, *own, "--seeds", "2", "--out", out, *more)

    def break_episode(self, number: int) -> None:
        (self.path / "broken").write_text(str(number))


@pytest.fixture
def folder(tmp_path: Path, environment: dict[str, str]) -> Folder:
    shutil.copy(faulty_envs.__file__, tmp_path / "mine.py")
    return Folder(tmp_path, environment)


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(LEARNERS))
def test_the_other_run_goes_on_and_the_failed_one_is_resumed(folder: Folder, method: str):
    folder.break_episode(3)
    status, out, err = folder.train(TOLD, method, "failed")
    assert status == 1
    lines = err.splitlines()
    assert lines[0].startswith(f"failed: {TOLD} {method} ")
    assert f"{TOLD}: step() in episode 3, step 2 (reset with seed " in lines[0]
    assert lines[0].endswith("RuntimeError: broken")
    assert lines[1] == "Traceback (most recent call last):"
    assert [line for line in lines if line.startswith("  File ")] == [
        line for line in lines if f'"{folder.path / "mine.py"}"' in line
    ]
    assert lines[-1] == "Once this is fixed: asymrl resume failed --trust --current-code"
    store = Store.open(folder.path / "failed")
    assert sorted(result.status for result in store.results().values()) == ["complete", "error"]
    assert "failed: mine.py:FailsWhenTold: step() in episode 3" in out

    (folder.path / "broken").unlink()
    status, out, err = folder.run("resume", "failed", "--trust")
    assert (status, err) == (0, "")
    assert folder.train(TOLD, method, "sound")[0] == 0
    found, expected = final_states(folder.path / "failed"), final_states(folder.path / "sound")
    assert found.keys() == expected.keys()
    for run, arrays in expected.items():
        for name, array in arrays.items():  # one lane instead of two rounds differently
            np.testing.assert_allclose(found[run][name], array, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.slow
def test_a_corrected_file_is_used_if_asked_for(folder: Folder):
    code = folder.path / "mine.py"
    sound = code.read_text()
    code.write_text(sound + MISTAKEN)
    assert folder.train("mine.py:Mistaken", "a2c", "failed")[0] == 1
    code.write_text(sound + MISTAKEN.replace("1 / 0", "1 / 1"))
    before = (folder.path / "failed" / "settings.json").read_bytes()

    status, out, err = folder.run("resume", "failed", "--trust", "--quiet")
    assert status == 1
    assert "ZeroDivisionError" in err, "without the option, runs stay in the world they began in"
    assert (folder.path / "failed" / "settings.json").read_bytes() == before

    status, out, err = folder.run("resume", "failed", "--trust", "--current-code")
    assert (status, err) == (0, "")
    assert "using the copy" not in out
    assert {result.status for result in Store.open(folder.path / "failed").results().values()} == {"complete"}
    status, out, err = folder.run("evaluate", "failed", "--trust", "--episodes", "2")
    assert (status, err) == (0, "")
    assert "using the copy" not in out, "the corrected file belongs to the runs now"


@pytest.mark.slow
def test_in_a_sweep_the_others_are_trained(folder: Folder):
    small = ["memory_size=4", "hidden=4", "steps=80", "log_points=2", "time_limit=4"]
    worlds = ["mine.py:Sound", "mine.py:NanReward", "mine.py:Dies:stepping=processes"]
    status, _, err = folder.run(
        *("sweep", "--env", *worlds, "--methods", "a2c", "--seeds", "1", "--out", "swept", "--set", *small)
    )
    assert status == 1
    assert "NanReward: step() in episode 3, step 2" in err
    assert "its process ended (exit code 3)" in err
    store = Store.open(folder.path / "swept")
    statuses = {run.settings.world: store.results()[number].status for number, run in enumerate(store.runs)}
    assert statuses == dict(zip(worlds, ["complete", "error", "error"], strict=True))


@pytest.mark.slow
def test_comparisons_and_evaluations_name_it_too(folder: Folder):
    assert folder.train(TOLD, "a2c", "sound")[0] == 0
    folder.break_episode(1)  # an evaluation has a copy of the environment for each episode
    status, _, err = folder.run("evaluate", "sound", "--trust", "--episodes", "8")
    assert status == 2
    assert err.splitlines()[0].startswith("asymrl: ")
    assert f"{TOLD}: step() in episode 1, step 2 (reset with seed " in err.splitlines()[0]
    assert err.splitlines()[-1] == "RuntimeError: broken"
    small = ["memory_size=4", "hidden=4", "log_points=2", "time_limit=4"]
    status, _, err = folder.run(
        *("compare", "mine.py:NoState", "--methods", "a2c", "a2c-asym-s", "--seeds", "2", "--steps", "80"),
        *("--out", "compared", "--set", *small),
    )
    assert status == 1
    assert "info['state'] is missing" in err
    assert "src/asymrl" not in err
