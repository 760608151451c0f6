"""Mistakes in a user's environment are named: environment, method, episode, step, cause, and the user's own lines."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.worlds.stepped_world import Stepper, UserCodeError
from tests.envs.gym import faulty_envs as faulty

AT_STEP = "faulty: step() in episode 3, step 2 (reset with seed 12): "
MISTAKES = [
    (faulty.RaisesInStep, "faulty_envs.py:LINE: KeyError: 'goal'"),
    (faulty.Exits, "faulty_envs.py:LINE: SystemExit: enough"),
    (faulty.WrongShape, "the observation has shape (2,), expected (3,)"),
    (faulty.Transposed, "the observation has shape (1, 3), expected (3, 1)"),
    (faulty.NanObservation, "the observation is nan at 1"),
    (faulty.NanReward, "the reward is nan"),
    (faulty.NanState, "the state is inf at 1"),
    (faulty.NoState, "info['state'] is missing; it was there when the environment was first reset"),
    (faulty.LongerState, "the state cannot be read: info['state'] has 3 numbers but had 2 before"),
    (faulty.UnknownSymbol, "the observation is -1, outside 0..3"),
    (faulty.NoInfo, "info is None, expected a dictionary"),
    (faulty.RewardIsText, "the reward is a str, expected a number"),
]


def play(stepper: Stepper) -> None:
    """Episodes of four steps in two environments, until something happens."""
    for episode in range(4):
        stepper.reset([10 + episode, 20 + episode])
        for _ in range(4):
            stepper.step(np.zeros(2, np.int32), np.ones(2, bool))


def mistake_of(env: Any, **options: Any) -> UserCodeError:
    """What is reported when episodes are played."""
    stepper = from_gymnasium(env, name="faulty", time_limit=4, **options).open(2)
    try:
        with pytest.raises(UserCodeError) as caught:
            play(stepper)
    finally:
        stepper.close()
    return caught.value


@pytest.mark.parametrize(("env", "cause"), MISTAKES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_mistake_names_method_episode_step_and_cause(env: Any, cause: str):
    mistake = mistake_of(env)
    before, place, after = cause.partition("LINE")
    assert str(mistake).startswith(AT_STEP + before)
    assert str(mistake).endswith(after) or not place
    assert "\n" not in str(mistake)
    assert (mistake.environment, mistake.of) == (0, 2)
    assert bool(mistake.traceback) == bool(place)


def test_the_traceback_has_the_users_lines_only():
    lines = mistake_of(faulty.RaisesInStep).traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "KeyError: 'goal'"
    files = [line for line in lines if line.startswith("  File ")]
    assert len(files) == 1
    assert f'"{faulty.__file__}", line ' in files[0]
    assert files[0].endswith(", in step")


def test_reset_is_named_with_its_episode():
    message = str(mistake_of(faulty.RaisesInReset))
    assert message.startswith("faulty: reset() in episode 3 (reset with seed 12): faulty_envs.py:")
    assert message.endswith("RuntimeError: no map")


def test_old_interfaces_are_named():
    with pytest.raises(UserCodeError, match=r"reset\(\) in episode 1 .*: it returned an array of shape \(3,\), .*old"):
        from_gymnasium(faulty.OldReset)
    assert "step() in episode 1, step 1 (reset with seed 10): it returned a tuple of 4" in str(
        mistake_of(faulty.OldStep)
    )
    with pytest.raises(
        UserCodeError, match=r"unexpected keyword argument 'seed'; the old interface of Gym has no seed"
    ):
        from_gymnasium(faulty.ResetWithoutSeed)


def test_a_space_that_cannot_be_read_is_named_before_its_values():
    with pytest.raises(ValueError, match="'words' is a Sequence space"):
        from_gymnasium(faulty.HasSequence)


def test_an_interrupt_of_the_users_own_is_a_mistake():
    """In a thread nobody else can raise it, and the thread would end without a word."""
    with ThreadPoolExecutor(1) as thread:
        mistake = thread.submit(mistake_of, faulty.InterruptsItself).result()
    assert str(mistake).startswith(AT_STEP)
    assert str(mistake).endswith("KeyboardInterrupt")
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            play(from_gymnasium(faulty.InterruptsItself).open(2))
    finally:
        signal.signal(signal.SIGINT, handler)


def test_an_environment_that_cannot_be_made():
    with pytest.raises(
        ValueError, match=r"^WantsArguments: its constructor needs size and colour; write .*:size=VALUE,colour"
    ):
        from_gymnasium(faulty.WantsArguments, name="faulty")
    with pytest.raises(ValueError, match=r"^faulty has no observation_space; set it to a space of Gymnasium$"):
        from_gymnasium(faulty.NoSpaces, name="faulty")


def environment_processes() -> set[int]:
    """Processes of environments: children of the fork server, which is a child of this process."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
            if state != "Z":
                parents[int(stat.parent.name)] = int(parent)
    return {pid for pid, parent in parents.items() if parents.get(parent) == os.getpid()}


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("env", "cause"),
    [
        pytest.param(faulty.RaisesInStep, "faulty_envs.py:", marks=slow),
        pytest.param(faulty.Dies, "its process ended (exit code 3)", marks=slow),
        pytest.param(faulty.IsKilled, "its process ended (killed by SIGKILL)", marks=slow),
        (faulty.Hangs, "no answer within 2 seconds; its process was ended"),
    ],
)
def test_a_process_that_fails_dies_or_hangs_is_named_and_none_is_left(env: Any, cause: str):
    stepper = from_gymnasium(env, name="faulty", stepping="processes", step_timeout=2 if env is faulty.Hangs else 60)
    opened = stepper.open(2)
    assert len(environment_processes()) >= 2
    with pytest.raises(UserCodeError) as caught:
        play(opened)
    opened.close()
    mistake = caught.value
    assert str(mistake).startswith(AT_STEP + cause)
    assert bool(mistake.traceback) == (env is faulty.RaisesInStep)
    assert not environment_processes()


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (faulty.DiesWhenMade, "faulty cannot be made: its process ended (exit code 4)"),
        (
            faulty.HangsAtFirst,
            "faulty: reset() in episode 1 (reset with seed 0): no answer within 1 seconds; its process was ended",
        ),
    ],
)
def test_one_that_dies_or_hangs_at_once_does_so_in_its_process_too(env: Any, message: str):
    with pytest.raises(UserCodeError) as caught:
        from_gymnasium(env, name="faulty", stepping="processes", step_timeout=1)
    assert str(caught.value) == message
    assert not environment_processes()


def test_one_that_cannot_be_sent_to_a_process_is_named():
    lock = threading.Lock()
    with pytest.raises(ValueError, match=r"^faulty cannot be sent to another process \(.*lock.*leave out stepping="):
        from_gymnasium(lambda: faulty.Sound() if lock else None, name="faulty", stepping="processes")  # pyright: ignore


def test_a_timeout_must_be_positive():
    with pytest.raises(ValueError, match="step_timeout 0: choose a positive number of seconds, or none"):
        from_gymnasium(faulty.Sound, step_timeout=0)
