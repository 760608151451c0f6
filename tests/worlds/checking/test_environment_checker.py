"""The check of environments that run in Python finds what is wrong with them, and nothing else."""

from __future__ import annotations

import json
import random
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from asymrl.cli import main
from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.worlds.checking.environment_checker import EnvironmentCheck, check_environment
from asymrl.worlds.stepped_world import UserCodeError


class Cups(gymnasium.Env):
    """A ball is under one of two cups, and is moved by chance; the first look tells where it is."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2)
    moves = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.cup = 0, int(self.np_random.integers(2))
        return self.cup, self.told()

    def told(self) -> dict[str, Any]:
        return {"state": 2 * self.time + self.cup}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.time += 1
        if self.np_random.random() < self.moves:
            self.cup = 1 - self.cup
        return 2, float(action == self.cup), self.time == 3, False, self.told()


class Chance(Cups):
    moves = 0.3


class Hidden(Cups):
    def told(self) -> dict[str, Any]:
        return {"state": self.time}


class Timed(Cups):
    """Pays at the second step only, which its state does not tell."""

    def told(self) -> dict[str, Any]:
        return {"state": self.cup}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        seen, _, terminated, truncated, info = super().step(action)
        return seen, float(self.time == 2), terminated, truncated, info


class Unseeded(Cups):
    """Draws from a generator of its own, whatever its seed is."""

    draws = random.Random(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.cup = self.draws.randrange(2)
        return self.cup, self.told()


class Worn(Cups):
    """Forgets to begin anew: only the first episode of an environment is as the seed says."""

    used = 0

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.used += 1
        seen, reward, terminated, truncated, info = super().step(action)
        return seen, reward + 0.5 * (self.used > 10), terminated, truncated, info


class Late(Cups):
    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.episodes = getattr(self, "episodes", 0) + 1
        if self.episodes > 50:
            raise RuntimeError("worn out")
        return super().step(action)


class Walk(gymnasium.Env):
    """Ends after twenty steps, wherever it is, which its state does not tell; nor how its place was rounded."""

    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps, self.goal = 0.0, 0, int(self.np_random.integers(2))
        return self.goal, self.told()

    def told(self) -> dict[str, Any]:
        return {"state": np.array([self.place, self.goal], np.float32)}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.place, self.steps = self.place + (0.01 if action else -0.01), self.steps + 1
        return self.goal, 0.0, self.steps == 20, False, self.told()


class Real(Cups):
    def told(self) -> dict[str, Any]:
        return {"state": self.np_random.random()}


class Silent(Cups):
    def told(self) -> dict[str, Any]:
        return {}


def checked(env: type[gymnasium.Env], steps: int = 600) -> EnvironmentCheck:
    return check_environment(from_gymnasium(env, name="cups"), steps=steps, seed=1)


@pytest.mark.parametrize(
    ("env", "finding"),
    [(Cups, "times, with the same outcome each time"), (Chance, "outcomes vary, as chance has it")],
)
def test_a_sound_environment_passes(env: type[gymnasium.Env], finding: str):
    found = checked(env)
    assert found.problems == found.notes == ()
    assert len(found.passed) == 3
    assert finding in found.passed[-1]


def test_the_facts():
    facts = checked(Cups).facts
    assert (facts.actions, facts.observations) == ("one of 2", "one of 3")
    assert facts.state.endswith("; from info['state']")
    assert (facts.lowest_reward, facts.highest_reward, facts.time_limit) == (0, 1, 100)
    assert (facts.episode_length, facts.ended) == (3, 1)
    assert facts.steps_per_second > 0


@pytest.mark.parametrize(
    ("env", "note"),
    [
        (Hidden, "does not seem to determine the future: outcomes of the same state and action depend on"),
        (Timed, "depend on how many steps the episode has lasted"),
        (Walk, "depend on how many steps the episode has lasted"),
        (Real, "is not known: state-action pairs never recurred"),
        (Silent, "no latent state was found"),
    ],
)
def test_a_state_that_says_too_little_is_noted(env: type[gymnasium.Env], note: str):
    found = checked(env, steps=2000)
    assert found.problems == ()
    assert note in found.notes[0]


class Arm(gymnasium.Env):
    """Has groups of observations, numbers with bounds of their own, and no state."""

    observation_space = spaces.Dict(
        {
            "angles": spaces.Box(np.array([-1, 0, -np.inf], np.float32), np.array([1, 10, np.inf], np.float32)),
            "heights": spaces.Box(-1, 1, (9,), np.float32),
        }
    )
    action_space = spaces.Box(np.array([-2, 10], np.float32), np.array([2, 20], np.float32))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return {"angles": np.zeros(3, np.float32), "heights": np.zeros(9, np.float32)}, {}

    def step(self, action: Any):
        return {"angles": np.zeros(3, np.float32), "heights": np.zeros(9, np.float32)}, 0.0, True, False, {}


def test_numbers_with_bounds_of_their_own_are_listed():
    found = checked(Arm)
    assert found.facts.actions == "2 numbers: -2 to 2, 10 to 20"
    assert (
        found.facts.observations
        == "angles: 3 numbers: -1 to 1, 0 to 10, without bounds; heights: 9 numbers from -1 to 1"
    )


def test_groups_of_observations_are_proposed_where_there_is_no_state():
    (note,) = checked(Arm).notes
    assert note.endswith("such as --actor-sees angles --critic-sees angles,heights")


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        (Unseeded, "the same seed and actions give another observation after reset, in a new environment"),
        (Late, "step() in episode 17, step 3"),
    ],
)
def test_what_is_wrong_is_said(env: type[gymnasium.Env], problem: str):
    found = checked(env)
    (said,) = found.problems
    assert problem in said
    assert "\n" not in said


def test_an_environment_must_begin_anew():
    assert "the same seed and actions give another reward at step 1" in checked(Worn).problems[0]


def test_an_environment_that_fails_at_once():
    class Broken(Cups):
        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            raise RuntimeError("no")

    with pytest.raises(UserCodeError, match="RuntimeError: no"):
        checked(Broken)


def test_the_command(capsys: pytest.CaptureFixture[str]):
    assert main(["check", "CartPole-v1"]) == 0
    out = capsys.readouterr().out
    assert "  state         4 numbers; from env.unwrapped.state" in out
    assert "  time limit    500 steps" in out
    assert main(["check", f"{__name__}:Unseeded", "--json"]) == 1
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert answer["facts"]["actions"] == "one of 2"
    assert len(answer["problems"]) == 1
    assert printed.err.splitlines()[-1] == f"asymrl: {answer['problems'][0]}"
    assert main(["check", f"{__name__}:Late"]) == 1
    problem, *traceback = capsys.readouterr().err.splitlines()
    assert problem.startswith(f"asymrl: {__name__}:Late: step() in episode 17, step 3")
    assert traceback[0] == "Traceback (most recent call last):"
    assert not any("src/asymrl" in line for line in traceback)
    assert main(["check", "tiger", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["facts"]["lowest_reward"], answer["states"], answer["problems"]) == (-100, 2, [])
