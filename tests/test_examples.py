"""The scripts in `examples/` do what they say: their worlds exactly, their trainings on a small scale."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import asymrl
from asymrl import cli
from asymrl.runs import Callback, Pace, StopRuns
from asymrl.runs.runs import Run
from asymrl.settings.methods import PAPER_METHODS
from asymrl.worlds.spaces import Box, Record

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL: dict[str, Any] = {"memory_size": 4, "hidden": (4,), "log_points": 2}
LEFT, RIGHT = 0, 1


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_corridor_keeps_the_rules_of_a_world(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["check", f"{EXAMPLES / 'my_world.py'}:Corridor"]) == 0
    out = capsys.readouterr().out
    assert "10 states, 20 state-action pairs" in out
    assert "  rewards       -0.05 to 1 in what was sampled" in out


def test_the_corridor_ends_at_its_door_and_shows_it_in_the_middle():
    world, key = example("my_world").Corridor(), jax.random.key(0)
    for place in range(5):
        for door in (LEFT, RIGHT):
            state = jnp.int32(2 * place + door)
            seen = 2 + door if place == 2 else 0 if place in (0, 4) else 1
            assert world.first_observation(key, state) == seen
            for action in (LEFT, RIGHT):
                step = world.step(key, state, jnp.int32(action))
                leaves = place == 4 * door and action == door
                assert bool(step.terminated) == leaves
                assert float(step.reward) == pytest.approx(1.0 if leaves else -0.05)


def test_cart_pole_shows_positions_and_its_critic_reads_velocities():
    env = example("cart_pole").hidden_velocities()
    observation, _ = env.reset(seed=0)
    observations = [observation]
    for action in (0, 1, 1, 0):
        observation, *_ = env.step(action)
        observations.append(observation)
    assert env.observation_space.shape == (2,)
    np.testing.assert_allclose(observations[-1], np.asarray(env.unwrapped.state)[::2], rtol=1e-6)
    world = asymrl.make(f"{EXAMPLES / 'cart_pole.py'}:hidden_velocities")
    assert isinstance(world.observation_space, Box)
    assert isinstance(world.latent_space, Box)
    assert (world.observation_space.shape, world.latent_space.shape, world.time_limit) == ((2,), (4,), 100)


@pytest.mark.slow
def test_cart_pole_is_learned_exported_and_played():
    """As a reader runs it. It begins at about 20; each of three seeds earned 90 of 100 within 60 000 steps."""
    before, after = example("cart_pole").main()
    assert before < 35
    assert after > 60


@pytest.mark.slow
def test_the_corridor_can_be_trained_from_its_file(tmp_path: Path):
    world = f"{EXAMPLES / 'my_world.py'}:Corridor"
    small = ("--memory-size", "4", "--hidden", "4", "--steps", "200", "--seeds", "2", "--out", str(tmp_path / "run"))
    assert cli.main(["train", world, *small]) == 0
    runs = asymrl.load(tmp_path / "run")
    assert runs.table["status"].to_list() == ["complete"] * 2
    assert min(runs.table["timesteps"].to_list()) >= 200
    # The door is worth 1; twenty steps in the dark cost 0.05 each.
    assert runs.metrics["return"].drop_nans().is_between(-1.001, 1).all()
    assert runs.runs[0].settings.time_limit == 20
    assert (tmp_path / "run" / "curve.png").is_file()


@pytest.mark.slow
def test_minigrid_is_trained(tmp_path: Path):
    pytest.importorskip("minigrid")
    runs = example("minigrid_memory").main(steps=200, out=tmp_path / "run", time_limit=20, **SMALL)
    assert not runs.failed
    assert runs.table["timesteps"][0] >= 200
    last = runs.metrics.row(-1, named=True)
    assert 0 <= last["return"] <= 1
    assert 0 < last["length"] <= 20
    latent = runs.best().world.latent_space
    assert isinstance(latent, Record)
    assert {name for name, _ in latent.items()} == {"agent", "cells", "heading"}


@pytest.mark.slow
def test_the_pendulum_is_trained_with_every_method(tmp_path: Path):
    pytest.importorskip("gymnax")
    reached = example("pendulum").main(
        *PAPER_METHODS, steps=400, out=tmp_path, time_limit=20, stop_return=None, **SMALL
    )
    assert tuple(reached) == PAPER_METHODS
    # A step costs at most pi^2 + 0.1 * 8^2 + 0.001 * 2^2.
    assert all(-20 * 16.3 < value < 0 for both in reached.values() for value in both)
    assert {asymrl.load(tmp_path / method).runs[0].settings.method for method in PAPER_METHODS} == {*PAPER_METHODS}


def test_the_world_for_another_framework_has_its_spaces():
    env = gymnasium.make(example("recurrent_ppo").WORLD)
    _, info = env.reset(seed=0)
    assert isinstance(env.action_space, gymnasium.spaces.Discrete)
    assert env.action_space.n == 4
    assert "state" in info


@pytest.mark.slow
def test_our_worlds_are_learned_by_another_framework():
    pytest.importorskip("sb3_contrib")
    returns = example("recurrent_ppo").main(steps=64, episodes=2, n_steps=32, batch_size=32, n_epochs=1)
    assert all(-1 <= value <= 1 for value in returns)  # heaven is worth 1, hell -1


def test_own_logging_writes_a_line_per_point(tmp_path: Path):
    log = tmp_path / "training.jsonl"
    callback = example("own_logging").JsonLines(log)
    callback.begin([Run(asymrl.A2CSettings("tiger"), 7)])
    callback.points(0, pl.DataFrame({"timestep": [0, 50], "return": [1.0, 2.0], "length": [3.0, 4.0]}))
    callback.end()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["begin", "point", "point", "end"]
    assert {key: lines[2][key] for key in ("seed", "timestep", "return", "length")} == {
        "seed": 7,
        "timestep": 50,
        "return": 2.0,
        "length": 4.0,
    }


def test_patience_counts_the_points_without_an_improvement():
    callback = example("early_stopping").Patience(3)
    callback.begin([Run(asymrl.A2CSettings("tiger"), seed) for seed in (0, 1)])
    callback.points(1, pl.DataFrame({"episode": [0] * 4, "return": [None] * 4}))  # no episode is over
    for returns in ([-3.0, -2.0], [-2.0, -2.5], [-1.0], [-2.0, -2.0]):
        callback.points(1, pl.DataFrame({"episode": [1] * len(returns), "return": returns}))
    with pytest.raises(StopRuns) as stop:
        callback.points(1, pl.DataFrame({"episode": [1], "return": [-1.5]}))
    assert stop.value.numbers == {1}


@pytest.mark.slow
def test_examples_of_callbacks_train(tmp_path: Path):
    quick: dict[str, Any] = {"display": Callback(), "pace": Pace(refresh_seconds=0.05), **SMALL}
    stopped = example("early_stopping").main(1, out=tmp_path / "stopped", **quick | {"log_points": 200})
    assert stopped.table["status"].to_list() == ["stopped"] * 2
    assert stopped.table["timesteps"].max() < 400_000
    assert stopped.evaluate(episodes=2) is not None
    example("own_logging").main(tmp_path / "log.jsonl", steps=600, out=tmp_path / "logged", **quick)
    events = [json.loads(line)["event"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert events[0] == "begin"
    assert events[-1] == "end"
    assert events.count("point") >= 2


def test_networks_of_ones_own_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    common = ["train", "CartPole-v1", "--out", "run", "--seeds", "1"]
    assert cli.main([*common, "--observation-features", f"{EXAMPLES / 'own_features.py'}:Wave"]) == 2
    assert "own_features.py has no 'Wave'" in capsys.readouterr().err
    assert cli.main([*common, "--memory", f"{EXAMPLES / 'own_features.py'}:Waves"]) == 2
    err = capsys.readouterr().err
    assert "own_features.py:Waves: cannot be made from a number and a key" in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_attention_is_trained_as_a_memory_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ASYMRL_STATE", str(tmp_path / "state"))
    memory = ["--memory", f"{EXAMPLES / 'attention_memory.py'}:Attention", "--memory-size", "4", "--hidden", "4"]
    common = ["train", "heaven-hell-1", "--time-limit", "20", "--steps", "200", "--seeds", "1", "--log-points", "2"]
    assert cli.main([*common, *memory, "--quiet", "--out", str(tmp_path / "run")]) == 0
    assert asymrl.load(tmp_path / "run").runs[0].settings.memory.endswith("attention_memory.py:Attention")


@pytest.mark.slow
def test_networks_of_ones_own_are_trained_resumed_and_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Every command loads the user's file; a store from elsewhere asks first, and keeps a copy."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text((EXAMPLES / "own_features.py").read_text())
    features, memory = ["--observation-features", "own.py:Waves"], ["--memory", "own.py:Leaky"]
    small = [
        "--memory-size",
        "4",
        "--hidden",
        "4",
        "--log-points",
        "2",
        "--seeds",
        "1",
        "--quiet",
        "--time-limit",
        "20",
    ]
    common = ["train", "CartPole-v1", "--method", "a2c-asym-hs", "--state-features", "own.py:Waves", "--out", "run"]
    assert cli.main([*common, *features, *memory, *small, "--steps", "400"]) == 0
    assert cli.main(["resume", "run", "--steps", "800", "--quiet"]) == 0
    assert cli.main(["evaluate", "run", "--episodes", "2"]) == 0
    capsys.readouterr()
    for file in ("policy.npz", "policy.onnx"):
        assert cli.main(["export", "run", "-o", file]) == 0
        assert "agrees with the agent" in capsys.readouterr().out
    kept = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert "own.py" in json.dumps(kept)
    assert [path.name for path in (tmp_path / "run" / "sources").rglob("*.py")] == ["own.py"]
    command = [sys.executable, "-m", "asymrl", "evaluate", "run", "--episodes", "2"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (asked.returncode, len(asked.stderr.splitlines())) == (2, 1)
    assert "own.py:Waves would run the file" in asked.stderr
    (tmp_path / "own.py").unlink()
    subprocess.run([*command, "--trust"], capture_output=True, check=True)
