"""`asymrl theory`: verdicts that say what exact computation says."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from asymrl import theory
from asymrl.cli import main
from asymrl.solvers.named import named_policy
from asymrl.solvers.optima import solve
from asymrl.solvers.verdict import examine
from asymrl.theory.walkthrough import good_bad
from tests.engine.folders import make_folder, small
from tests.theory.worlds import heard_the_priest, load_unload, problem


def test_agent_that_has_not_met_the_priest_is_warned() -> None:
    analysis = theory.analyse("heaven-hell-3", heard_the_priest(3))
    found = examine(analysis, "heard", {})
    assert not found.V_s_defined
    assert "points away from the true gradient: cosine -0.617" in found.advice
    returns = next(critic for critic in found.critics if critic.estimator == "mc")
    assert returns.safe
    assert returns.worst_gradient is None
    worst = found.critics[0].worst_gradient
    assert worst is not None
    assert worst.history == "the start"
    assert worst.action in ("N", "S")


def test_asymmetry_pays_in_load_unload() -> None:
    def noisy(h: theory.History) -> np.ndarray:
        return np.random.default_rng(len(h)).dirichlet(np.ones(2))

    found = examine(theory.analyse(load_unload(), noisy, horizon=6), "noisy", {})
    assert found.variance is not None
    assert found.variance.hs < found.variance.h
    assert "less noise than V(h): it should help" in found.advice


def test_known_state_needs_no_privilege() -> None:
    pomdp = problem("heaven-hell-1")
    known = theory.analyse(pomdp, "uniform", horizon=3)
    assert "always knows the state" not in examine(known, "uniform", {}).advice
    told = dataclasses.replace(pomdp, start=np.eye(pomdp.states)[0])
    assert "always knows the state" in examine(theory.analyse(told, "uniform", horizon=3), "uniform", {}).advice


@pytest.mark.parametrize("name", ["uniform", "optimal", "eps-optimal:0.25", "window:2"])
def test_policies_by_name(name: str) -> None:
    pomdp = problem("heaven-hell-1")
    best = solve(pomdp, 20)
    analysis = theory.analyse(pomdp, named_policy(pomdp, name, best, 20), horizon=20)
    expected = {"uniform": 0.0, "optimal": best.value}
    if name in expected:
        assert pytest.approx(expected[name], abs=1e-12) == analysis.J
    else:
        assert -1 < analysis.J < best.value


def test_walkthrough_has_equal_columns() -> None:
    numbers = 0
    for line in good_bad(0.9):
        if " = " in line and line.startswith("  ") and "on average" not in line:
            computed, expected = line[46:58], line.rsplit("=", 1)[1]
            assert float(computed) == pytest.approx(float(expected), abs=1.01e-6)
            numbers += 1
    assert numbers == 14


def test_command_prints_a_verdict_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "heaven-hell-1", "--horizon", "8", "--policy", "eps-optimal:0.5"]) == 0
    text = capsys.readouterr().out
    assert "Is V(s) defined? No." in text
    assert "Would a privileged critic help here, and which?" in text
    assert main(["theory", "heaven-hell-1", "--horizon", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["world"] == "heaven-hell-1"
    assert found["horizon"] == 8
    assert found["returns"]["optimal"]["low"] == pytest.approx(0.99**6)
    assert [critic["targets"] for critic in found["critics"]] == ["td0", "td-lambda", "mc", "mc"]


def test_command_with_a_trained_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "run", small("tiger", method="a2c-react-2", time_limit=4), [1.0])
    assert main(["theory", "tiger", "--policy", f"run:{folder}", "--json", "--depth", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["followed"] == 1
    rms = found["audit"]["rms"]
    assert rms["error"] <= rms["bias"] + rms["fit"] + 1e-12
    assert rms["bias"] > 0, "a short memory is taught averages"
    assert all(at["history"].count("→") <= 1 for at in found["audit"]["worst"])
    assert main(["theory", "tiger", "--policy", f"run:{folder}", "--depth", "1"]) == 0
    text = capsys.readouterr().out
    told = next(line for line in text.splitlines() if "fitting error" in line)
    assert float(told.split()[2]) == pytest.approx(rms["fit"], abs=1e-4)
    assert "in state tiger-left after listen→" in text
    assert main(["theory", "good-bad", "--policy", f"run:{folder}"]) == 2
    assert "was trained in tiger, not in good-bad" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["car-flag"], "car-flag has no finite tables"),
        (["tiger", "--policy", "best"], "unknown policy 'best'; choose uniform, optimal"),
        (["tiger", "--policy", "eps-optimal:x"], "'x' is not a number"),
        (["tiger", "--policy", "run:nowhere"], "nowhere: is not a run"),
        (["tiger", "--horizon", "0"], "--horizon 0"),
        (["tiger", "--depth", "-1"], "--depth -1"),
    ],
)
def test_wrong_command_lines(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", *arguments]) == 2
    assert message in capsys.readouterr().err
