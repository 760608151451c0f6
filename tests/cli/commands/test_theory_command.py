"""`asymrl theory`."""

import gzip
import json
from pathlib import Path

import pytest

import asymrl
from asymrl.cli import main
from asymrl.theory.audit import audit_critic
from asymrl.worlds import FiniteWorld
from tests.runs.engine.stores import small, store_with_networks


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
    folder = store_with_networks(tmp_path / "run", small("tiger", method="a2c-react-2", time_limit=4), [1.0])
    assert main(["theory", "tiger", "--policy", f"run:{folder}", "--json", "--depth", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["followed"] == 1
    run = asymrl.load(folder).best()
    assert isinstance(run.world, FiniteWorld)
    audit = audit_critic(run.world, run.state.actor, run.state.critic, run.settings, mass=1.0)
    assert found["audit"] == audit.numbers(depth=1)
    rms = found["audit"]["rms"]
    assert all(at["history"].count("→") <= 1 for at in found["audit"]["worst"])
    assert main(["theory", "tiger", "--policy", f"run:{folder}", "--depth", "1"]) == 0
    text = capsys.readouterr().out
    line = next(line for line in text.splitlines() if "fitting error" in line)
    assert float(line.split()[2]) == pytest.approx(rms["fit"], abs=1e-4)
    assert "in state tiger-left after listen→" in text
    assert main(["theory", "good-bad", "--policy", f"run:{folder}"]) == 2
    assert "was trained in tiger, not in good-bad" in capsys.readouterr().err


def test_critics_by_what_they_read(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["theory", "heaven-hell-1", "--horizon", "8", "--critic-sees"]
    assert main([*asked, "heaven-side"]) == 0
    text = capsys.readouterr().out
    rows = [line.split("  ")[0] for line in text.splitlines() if line.startswith("V(")]
    known = ["V(h)", "V(h, s)", "V(h, b)", "V(h, s~b)", "V(s)", "V(s, t)", "V(b)", "V(s~b)"]
    assert rows[:10] == [*known, "V(h, heaven-side)", "V(heaven-side)"]
    assert "V(h, heaven-side) knows 100.0% of what V(h, s) knows beyond V(h)." in text
    assert "heaven-side: which exit is heaven: 0 west, 1 east" in text
    assert main([*asked, "position+time", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["critic"] for each in found["readings"]] == known
    with_history, without = found["critic_sees"]
    assert with_history["critic"] == "V(h, position, t)"
    assert with_history["explained"] == pytest.approx(0, abs=1e-12)
    assert with_history["gradient_error"] < 1e-12 < without["gradient_error"]
    # The agent knows its cell and the time, so that this is V(h).
    assert with_history["gradient_variance"] == pytest.approx(found["variance"]["h"])
    assert main([*asked, "sampled-state"]) == 0
    assert "V(s~b) with GAE(0.95): Var advantage is" in capsys.readouterr().out
    assert main([*asked, "colour"]) == 2
    assert "critic_sees 'colour': heaven-hell-1 can tell its critic state, heaven-side" in capsys.readouterr().err


def test_pictures_are_saved_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tiger.png"
    assert main(["theory", "tiger", "--horizon", "3", "-o", str(file)]) == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    assert main(["theory", "tiger", "--horizon", "3", "-o", str(tmp_path / "tiger.txt")]) == 2
    assert "unknown file ending '.txt'" in capsys.readouterr().err


def test_a_page_is_saved_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "tiger.html"
    asked = ["theory", "tiger", "--horizon", "3"]
    assert main([*asked, "--report", str(file)]) == 0
    answer = capsys.readouterr().out.splitlines()[-1]
    page = file.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert answer in page
    assert "startTheoryMap" in page
    assert main([*asked, "--report", str(tmp_path / "tiger.txt")]) == 2
    assert "unknown file ending '.txt'" in capsys.readouterr().err
    assert main([*asked, "--learner", "adqn", "--report", str(file)]) == 2
    assert "--report is about policy gradients" in capsys.readouterr().err


def test_what_q_learning_would_learn(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["theory", "heaven-hell-1", "--horizon", "10", "--learner"]
    assert main([*asked, "adqn-vr"]) == 0
    text = capsys.readouterr().out
    assert "Q(h, s, a) learns r + γ Q(h', s', a*); Q(h, a) learns Q(h, s, a), for all actions." in text
    assert "0.1-greedy        the same      yes                                0            0.9415" in text
    assert "Yes, if every step of the replay counts the same" in text
    assert main([*asked, "adqn-state", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["optimal"] is False
    assert found["optimal_return"] == pytest.approx(0.99**6)
    assert [each["replay"] for each in found["results"]] == [
        name for name in ("uniform", "eps-optimal:0.5", "0.1-greedy") for _ in range(2)
    ]
    assert found["results"][0]["period"] == 18
    assert found["results"][0]["greedy_high"] == 0
    assert found["replay_dependence"] > 0.1
    assert main(["theory", "good-bad", "--learner", "adqn-state", "--horizon", "8"]) == 0
    assert "A network that reads the time too would be right" in " ".join(capsys.readouterr().out.split())
    assert main(["theory", "good-bad", "--learner", "adqn-state", "--critic-sees", "state+time"]) == 0
    text = capsys.readouterr().out
    assert "Q(s, t, a) learns r + γ Q(s', t', a*)" in text
    assert "Yes. The optimal Q(h, s, a) is the same for all histories" in text


def test_luck_that_ends_episodes(capsys: pytest.CaptureFixture[str]) -> None:
    """A lucky purchase ends a Shopping episode early, which a mean over each episode's steps counts too much."""
    assert main(["theory", "shopping-2", "--learner", "dqn", "--horizon", "20", "--policy", "uniform", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    same, by_episode = found["results"][:2]
    assert (same["weighting"], by_episode["weighting"]) == ("steps", "episodes")
    assert same["is_optimal"]
    assert same["greedy_low"] == pytest.approx(found["optimal_return"])
    assert (by_episode["worst_history"], by_episode["worst_action"]) == ("the start", "buy")
    assert by_episode["worst_error"] > 4
    assert by_episode["greedy_high"] < 1 < found["optimal_return"]
    assert "gives steps of short episodes more weight" in found["explanation"]


CORRIDOR = """
discount: 0.95
values: reward
states: 4
actions: go look
observations: dark light
start: uniform
T: go
0.1 0.6 0.2 0.1
0.1 0.1 0.6 0.2
0.2 0.1 0.1 0.6
0.6 0.2 0.1 0.1
T: look identity
O: *
0.7 0.3
0.6 0.4
0.4 0.6
0.2 0.8
R: go : 3 : * : * 1
R: look : * : * : * -0.05
"""
"""Beliefs hardly ever repeat here, so that no endless analysis fits."""


def test_what_is_known_is_printed_where_the_analysis_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "corridor.pomdp"
    file.write_text(CORRIDOR)
    assert main(["theory", str(file), "--horizon", "inf", "--seconds", "4"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "corridor, no time limit, discount 0.95"
    assert lines[1].startswith("Optimal return: between ")
    reason = next(i for i, line in enumerate(lines) if "eps-optimal:0.5 could not be analysed" in line)
    assert reason > 1, "what is known comes first"
    assert main(["theory", str(file), "--horizon", "inf", "--seconds", "4", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    low, high = found["returns"]["optimal"]["low"], found["returns"]["optimal"]["high"]
    # Always going returns 1 / 4 each time: a lower bound. No return is above 1 each time.
    assert 0.25 / 0.05 - 1e-9 <= low <= high <= 1 / 0.05
    assert "more than 100000 nodes" in found["problem"]


def test_a_packed_file_is_the_same_world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, packed = tmp_path / "corridor.pomdp", tmp_path / "corridor.pomdp.gz"
    plain.write_text(CORRIDOR)
    packed.write_bytes(gzip.compress(CORRIDOR.encode()))
    answers = []
    for file in (plain, packed):
        assert main(["theory", str(file), "--horizon", "3"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    assert answers[0].startswith("corridor, policy")


def test_endless_visits_are_no_probabilities(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "tiger", "--horizon", "inf"]) == 0
    text = capsys.readouterr().out
    assert "(discounted visits " in text
    assert "(probability" not in text
    assert "?" not in text.split("value bias")[1].split("Would")[0]
