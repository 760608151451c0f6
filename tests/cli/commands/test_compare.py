"""The command that compares methods, and the one that looks at the machine."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from asymrl import cli
from asymrl.cli.commands import doctor
from asymrl.runs.driver import Outcome
from asymrl.runs.store import Store
from tests.runs.engine.stores import made_result

SMALL = ("--set", "memory_size=4", "hidden=4", "log_points=4", "time_limit=5")


def compare(out: Path, *arguments: str) -> int:
    return cli.main(["compare", "tiger", "--seeds", "2", "--out", str(out), *arguments, *SMALL])


@pytest.mark.slow
def test_methods_are_compared_and_the_command_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    methods = ("--methods", "a2c", "a2c-asym-s")
    assert compare(tmp_path, "--steps", "200", *methods) == 0
    out = capsys.readouterr().out
    told = json.loads((tmp_path / "comparison.json").read_text())
    assert [row["method"] for row in told["methods"]] == ["a2c", "a2c-asym-s"]
    assert told["use"] in ("a2c", "a2c-asym-s")
    assert "Why, exactly" in told["advice"]
    assert f"asymrl export {tmp_path} --where method={told['use']} -o policy.npz" in out
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    # Once more: nothing is left to train, and the numbers are the same.
    before = (tmp_path / "metrics.parquet").read_bytes()
    assert compare(tmp_path, "--steps", "200", *methods) == 0
    assert (tmp_path / "metrics.parquet").read_bytes() == before
    assert json.loads((tmp_path / "comparison.json").read_text()) == told


class Trained:
    """In place of training: every method adds to its runs' returns what it is told to, and nothing is compiled."""

    def __init__(self, gains: dict[str, float], interrupted: signal.Signals | None = None):
        self.gains, self.interrupted = gains, interrupted
        self.steps: list[int] = []

    def __call__(self, store: Store, callback: object, **_: Any) -> Outcome:
        self.steps.append(store.runs[0].settings.steps)
        over = len(store) - (self.interrupted is not None)  # who is interrupted has a run left
        results = {number: made_result(run) for number, run in enumerate(store.runs[:over])}
        for number, result in results.items():
            assert result.curve is not None
            result.curve[:, 3] = 0.1 * result.curve[:, 3] + self.gains[store.runs[number].settings.method]
        store.write_tables(results)
        return Outcome(len(store), over, {}, self.interrupted, False, 1.0, 100)


def test_the_best_method_is_recommended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    trained = Trained({"a2c": 1.0, "a2c-asym-s": 2.0, "a2c-asym-hs": 3.0})
    monkeypatch.setattr("asymrl.runs.driver.train_store", trained)
    methods = ("--methods", "a2c", "a2c-asym-s", "a2c-asym-hs", "--seeds", "4")  # fewer would prove nothing
    assert compare(tmp_path, "--steps", "100", *methods) == 0
    told = json.loads((tmp_path / "comparison.json").read_text())
    assert told["use"] == "a2c-asym-hs"
    # The mean of the middle two runs, whose seeds are 1 and 2, at 0.9 and 0.95 of training.
    assert [row["final"]["estimate"] for row in told["methods"]] == pytest.approx([1.2425, 2.2425, 3.2425])
    assert told["methods"][2]["improvement"] == {"estimate": 1.0, "low": 1.0, "high": 1.0}
    assert "Showing the critic the state, V(h, s) instead of V(h), helps here" in told["advice"]
    out = capsys.readouterr().out
    assert [each["critic"] for each in told["readings"]][:2] == ["V(h)", "V(h, s)"]
    assert f"\n\n{told['verdict']}\n{told['reason']}\n\nThe same command with --details" in out
    assert "critic, by TD(0)" not in out
    assert f"asymrl export {tmp_path} --where method=a2c-asym-hs -o policy.npz" in out
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    assert compare(tmp_path, "--steps", "100", *methods, "--details") == 0
    detailed = " ".join(capsys.readouterr().out.split())
    assert "Showing the critic the state" in detailed
    assert "critic, by TD(0)" in detailed
    # More steps make the same runs longer; other seeds are other runs.
    assert compare(tmp_path, "--steps", "200", *methods) == 0
    assert trained.steps == [100, 100, 200]
    assert compare(tmp_path, "--steps", "200", *methods, "--seeds", "3") == 2
    assert "holds runs with other settings or seeds; choose another --out" in capsys.readouterr().err


def test_an_interruption_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("asymrl.runs.driver.train_store", Trained({"a2c": 1.0}, signal.SIGTERM))
    assert compare(tmp_path, "--methods", "a2c") == 128 + 15
    assert f"To go on: asymrl resume {tmp_path}" in capsys.readouterr().out


def test_methods_that_cannot_be_told_apart_end_with_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Also those that are not among the methods of the paper."""
    monkeypatch.setattr("asymrl.runs.driver.train_store", Trained({"a2c": 1.0, "a2c-react-3": 1.0}))
    assert compare(tmp_path, "--steps", "100", "--methods", "a2c-react-3", "a2c", "--seeds", "4") == 0
    out = capsys.readouterr().out
    assert "No method is shown to be best; use a2c, which needs no state.\n" in out
    assert "The runs do not separate a2c and a2c-react-3; decide with more --seeds" in out
    assert [line.split()[0] for line in out.splitlines() if "[" in line][:2] == ["a2c-react-3", "a2c"]
    assert json.loads((tmp_path / "comparison.json").read_text())["use"] == "a2c"


def test_methods_that_need_a_latent_state_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    world = "tests.envs.gym.foreign_envs:Dark"
    assert cli.main(["compare", world, "--methods", "a2c-asym-s", "--out", str(tmp_path), *SMALL]) == 2
    printed = capsys.readouterr()
    assert "no method is left to train: their critics need a latent state; a2c needs none" in printed.err


def test_the_doctor_tells_versions_and_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doctor, "nvidia_gpus", list)
    monkeypatch.setitem(doctor.EXTRAS, "onnx", (("no_such_module",), "policies as .onnx files"))
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"matrix product +[\d,]+ GFLOP/s", out)
    assert re.search(r"training +not measured; asymrl doctor --training does", out)
    assert 'policies as .onnx files: missing: pip install "asymrl[onnx]"' in out
    assert "no problems" in out
    monkeypatch.setattr(doctor, "nvidia_gpus", lambda: [("NVIDIA H200", "570.1.2")])
    monkeypatch.delenv("JAX_PLATFORMS")
    assert cli.main(["doctor", "--quick"]) == 1
    assert 'NVIDIA H200 is not used: this JAX computes on the CPU only; pip install -U "jax[cuda12]"' in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("driver", "platforms", "remedy"),
    [
        ("470.82", None, "driver 470.82 is older than 525"),
        ("535.1", None, "jax[cuda12]"),
        ("590.0", None, "jax[cuda13]"),
        ("590.0", "cpu", "JAX_PLATFORMS is 'cpu'; unset it"),
    ],
)
def test_why_a_gpu_is_not_used(driver: str, platforms: str | None, remedy: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    if platforms:
        monkeypatch.setenv("JAX_PLATFORMS", platforms)
    assert any(remedy in problem for problem in doctor.problems([("G", driver)]))
