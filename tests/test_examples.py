"""The scripts in `examples/` do what they say, on a small scale."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from asymrl import cli
from asymrl.learning.methods import METHODS

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL: dict[str, Any] = {"memory_size": 4, "hidden": (4,), "log_points": 2}


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_world_in_a_file_can_be_checked(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["check", f"{EXAMPLES / 'my_world.py'}:Corridor"]) == 0
    assert "the latent determines the future" in capsys.readouterr().out


@pytest.mark.slow
def test_cart_pole_is_learned_exported_and_played():
    """As a reader runs it. It begins at about 20; each of three seeds earned 90 of 100 within 60 000 steps."""
    before, after = example("cart_pole").main()
    assert before < 35
    assert after > 60


@pytest.mark.slow
def test_a_world_in_a_file_can_be_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    small = ("--memory-size", "4", "--hidden", "4", "--steps", "200", "--seeds", "2", "--out", str(tmp_path / "run"))
    assert cli.main(["train", f"{EXAMPLES / 'my_world.py'}:Corridor", *small]) == 0
    assert "trained" in capsys.readouterr().out


@pytest.mark.slow
def test_minigrid_is_trained(tmp_path: Path):
    pytest.importorskip("minigrid")
    result = example("minigrid_memory").main(steps=200, out=tmp_path / "run", time_limit=20, **SMALL)
    assert len(result.metrics) > 0
    assert not result.failed


@pytest.mark.slow
def test_the_pendulum_is_trained_with_every_method(tmp_path: Path):
    pytest.importorskip("gymnax")
    reached = example("pendulum").main(*METHODS, steps=400, out=tmp_path, time_limit=20, stop_return=None, **SMALL)
    assert tuple(reached) == METHODS
    # A step costs at most pi^2 + 0.1 * 8^2 + 0.001 * 2^2.
    assert all(-20 * 16.3 < value < 0 for both in reached.values() for value in both)


@pytest.mark.slow
def test_our_worlds_are_learned_by_another_framework():
    pytest.importorskip("sb3_contrib")
    returns = example("recurrent_ppo").main(steps=64, episodes=2, n_steps=32, batch_size=32, n_epochs=1)
    assert all(-1 <= value <= 1 for value in returns)  # heaven is worth 1, hell -1
