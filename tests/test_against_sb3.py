"""Recurrent PPO against that of Stable-Baselines3: how they are compared, what was recorded, the comparison itself."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.recurrent_ppo import HiddenVelocities, Task
from scipy import stats
from scripts.against_sb3 import RECORD, Estimate, Options, Training, agree, main, recorded

from asymrl.worlds import CartPole


def reached(*finals: float) -> list[Training]:
    return [Training(seed, [0.0, final]) for seed, final in enumerate(finals)]


def test_an_interval_is_students():
    estimate = Estimate.of(reached(100.0, 200.0, 300.0, 350.0, 450.0))
    low, high = stats.ttest_1samp([100.0, 200.0, 300.0, 350.0, 450.0], 0).confidence_interval(0.95)
    assert (estimate.mean, estimate.low, estimate.high) == pytest.approx((280.0, low, high))


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ((100.0, 110.0, 120.0), (105.0, 110.0, 118.0), True),
        ((100.0, 110.0, 120.0), (200.0, 210.0, 220.0), False),
        # A wide interval contains the other mean, but not the other way round.
        ((0.0, 250.0, 500.0), (480.0, 490.0, 500.0), False),
    ],
)
def test_both_means_must_lie_in_the_other_interval(ours, theirs, same):
    assert agree(reached(*ours), reached(*theirs)) is same
    assert agree(reached(*theirs), reached(*ours)) is same


def test_a_record_holds_for_its_own_task_only():
    task = Task()
    trainings = recorded(task, RECORD)
    assert [training.seed for training in trainings] == [0, 1, 2, 3, 4]
    # More than a rule can earn that reads the last observation only: the task was learned with a memory.
    assert min(training.final for training in trainings) > 46
    with pytest.raises(ValueError, match="recorded with other settings"):
        recorded(replace(task, epochs=1), RECORD)


def test_both_learn_from_the_same_numbers():
    """The wrapped environment shows the previous action, and then what our world shows."""
    theirs, ours = HiddenVelocities(gymnasium.make("CartPole-v1")), CartPole()
    shown, _ = theirs.reset(seed=0)
    state = jnp.asarray(theirs.unwrapped.state, jnp.float32)  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_array_equal(shown[:2], [0, 0])
    for action in (1, 0, 0, 1):
        shown, *_ = theirs.step(action)
        before, state = state, ours.step(jax.random.key(0), state, action).state
        np.testing.assert_array_equal(shown[:2], np.eye(2)[action])
        np.testing.assert_allclose(shown[2:], ours.observe(jax.random.key(0), before, action, state), atol=1e-5)


@pytest.mark.slow
def test_final_returns_lie_within_the_intervals_of_the_other():
    # A process of its own, as the tests compile without optimisation.
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-m", "scripts.against_sb3"]
    done = subprocess.run(command, cwd=RECORD.parents[1], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_both_can_be_trained_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("sb3_contrib")
    path = tmp_path / "record.json"
    main(Options(Task(steps=1280, epochs=1, evaluation_episodes=3), seeds=2, record=True, path=path))
    printed = capsys.readouterr().out
    assert "RecurrentPPO" in printed
    assert "asymrl ppo" in printed
    assert '"torch"' in path.read_text()
