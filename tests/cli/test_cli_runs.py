"""The commands that use a trained run: evaluate, render and export."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from asymrl import cli
from asymrl.cli import usage
from asymrl.export.numpy_policy import NumpyPolicy
from asymrl.export.onnx_policy import OnnxPolicy
from tests.runs.engine.stores import small, store_with_networks

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = small("tiger:episodic=true", method="a2c-asym-hs")
    return store_with_networks(tmp_path_factory.mktemp("runs") / "tiger", settings, [-20.0, -3.25], first_seed=4)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process: status, stdout, stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        status = cli.main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_evaluate_prints_a_table_or_json(run: Run, folder: Path):
    status, out, _ = run("evaluate", folder, "--episodes", 50, "--json")
    report = json.loads(out)
    assert status == 0
    assert (report["world"], report["method"], report["actions"]) == ("tiger:episodic=true", "a2c-asym-hs", "sampled")
    assert [one["seed"] for one in report["runs"]] == [4, 5]
    assert report["reference"] is None
    means = [one["return"]["mean"] for one in report["runs"]]
    assert report["over_seeds"]["return"]["mean"] == pytest.approx(np.mean(means))
    assert report["over_seeds"]["return"]["standard_error"] == pytest.approx(abs(means[0] - means[1]) / 2)
    for one in report["runs"]:
        assert one["terminated"] + one["truncated"] == pytest.approx(1)
        assert 1 <= one["length"]["mean"] <= 8
        assert one["reached"] is None
    status, out, _ = run("evaluate", folder, "--episodes", 50, "--json", "--run-seed", 5)
    assert json.loads(out)["runs"] == report["runs"][1:]
    status, out, _ = run("evaluate", folder, "--episodes", 50)
    lines = out.splitlines()
    assert status == 0
    assert lines[0] == "playing 50 episodes with 2 runs of a2c-asym-hs in tiger:episodic=true ..."
    assert lines[1] == "tiger:episodic=true, a2c-asym-hs: 50 episodes of each seed, sampled actions"
    assert f" {means[0]:.2f} ± " in next(line for line in lines if line.startswith("4 "))
    assert max(map(len, lines)) <= 80


def test_render_draws_the_policy_and_the_critic(run: Run, folder: Path, tmp_path: Path):
    status, out, _ = run("render", folder, "-o", tmp_path / "episode.gif", "--greedy", "--seed", 2, "--dpi", 40)
    assert status == 0
    out = out.splitlines()[1]
    assert out.startswith(f"{tmp_path}/episode.gif: tiger:episodic=true, a2c-asym-hs, seed 5, ")
    steps = int(out.split(", ")[3].split()[0])
    with Image.open(tmp_path / "episode.gif") as film:
        assert film.size == (440, 180)  # wider than without the panel, which is 320
        assert 1 <= getattr(film, "n_frames", 1) <= steps + 1
    status, out, _ = run("render", folder, "--greedy", "--seed", 2, "--steps", 0, "--run-seed", 4)
    *_, policy, critic = out.splitlines()
    shares = [float(word) for word in policy.replace("policy", "").split("takes")[0].split()[1::2]]
    assert status == 0
    assert sum(shares) == pytest.approx(1, abs=0.02)
    assert policy.endswith(f"takes {['listen', 'open-left', 'open-right'][int(np.argmax(shares))]}")
    assert critic.startswith("critic V(h, s) = ")
    assert math.isfinite(float(critic.split("=")[1]))


@pytest.mark.parametrize(("ending", "read"), [(".npz", NumpyPolicy), (".onnx", OnnxPolicy)])
def test_export_writes_the_best_seed_or_the_one_asked_for(run: Run, folder: Path, tmp_path: Path, ending: str, read):
    file = tmp_path / f"policy{ending}"
    status, out, _ = run("export", folder, "-o", file)
    assert status == 0
    chosen, first, second = out.splitlines()
    assert chosen == (
        f"{folder}: a2c-asym-hs, seed 5, has the best recent return of 2 runs, -3.25; choose others with "
        "--where NAME=VALUE and --run-seed K"
    )
    assert first == f"{file}: tiger:episodic=true, a2c-asym-hs, seed 5, recent return -3.25"
    assert second.startswith("Checked over whole episodes")
    assert read(file).about["run_seed"] == 5
    assert read(file).about["settings"]["time_limit"] == 8
    status, out, _ = run("export", folder, "-o", file, "--run-seed", 4)
    assert (status, len(out.splitlines())) == (0, 2)
    assert read(file).about["run_seed"] == 4
    assert [path.name for path in tmp_path.iterdir()] == [file.name]  # nothing half written is left


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", "nowhere"), "nowhere: no runs here, there is no such folder; `asymrl train` makes some"),
        (("evaluate", "EMPTY"), "EMPTY: no runs here, it holds no settings.json; `asymrl train` makes some"),
        (("evaluate", "RUN", "--episodes", "0"), "--episodes 0: at least 1 is needed"),
        (("evaluate", "RUN", "--where", "method"), "--where method: write NAME=VALUE, such as method=a2c-asym-hs"),
        (("evaluate", "RUN", "--where", "method=a2c"), "RUN: no run has method=a2c; method is a2c-asym-hs"),
        (("evaluate", "ABOVE"), "ABOVE: no runs here, it holds no settings.json; choose ABOVE/tiger"),
        (("evaluate", "RUN", "--run-seed", "9"), "RUN: there is no run with the seed 9; the seeds are 4, 5"),
        (("evaluate", "RUN", "--where", "methods=a2c"), "RUN: unknown setting 'methods'"),
        (("render", "RUN", "--run-seed", "9"), "RUN: there is no run with the seed 9; the seeds are 4, 5"),
        (("render", "RUN", "--policy", "listen"), "--policy listen: a run acts by its own policy"),
        (("render", "tiger", "--greedy"), "--greedy is for a folder with runs; 'tiger' is a world"),
        (("render", "tiger", "--run-seed", "1"), "--run-seed is for a folder with runs; 'tiger' is a world"),
        (("render", "tiger", "--where", "method=a2c"), "--where is for a folder with runs; 'tiger' is a world"),
        (
            ("sweep", "--env", "tigr", "--methods", "a2c", "--out", "EMPTY"),
            "unknown world 'tigr'. Did you mean",
        ),
        (("demo", "--folder", "/dev/null"), "/dev/null/heaven-hell-3-a2c-asym-hs: cannot be made a folder: Not a dir"),
        (("export", "RUN", "-o", "p.pkl"), "p.pkl: unknown file ending '.pkl'; use .onnx or .npz"),
        (("export", "RUN", "-o", "nowhere/p.npz"), "nowhere/p.npz: there is no folder 'nowhere'; create it first"),
        (("export", "RUN", "-o", "EMPTY/p.npz", "--run-seed", "0"), "RUN: there is no run with the seed 0"),
        (("export", "EMPTY", "-o", "EMPTY/p.npz"), "EMPTY: no runs here"),
    ],
)
def test_a_mistake_of_the_user_is_one_line_and_status_2(
    run: Run, folder: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
):
    def placed(text: str) -> str:
        return text.replace("RUN:", f"{folder}:").replace("EMPTY", str(tmp_path)).replace("ABOVE", str(folder.parent))

    status, out, err = run(*(str(folder) if word == "RUN" else placed(word) for word in arguments))
    assert (status, out) == (2, "")
    assert err.startswith(f"asymrl: {placed(message)}")
    assert err.count("\n") == 1


def test_a_missing_package_is_named_before_any_work(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(usage.importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else object())
    status, _, err = run("export", "nowhere", "-o", tmp_path / "policy.onnx")
    assert status == 2
    assert err == 'asymrl: an .onnx file needs the package onnxruntime: pip install "asymrl[onnx]"\n'
