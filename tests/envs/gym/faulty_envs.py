"""An environment as users write them, and the mistakes that they make in it: at step 2 of the third episode."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

EPISODE, STEP = 3, 2


class Sound(gymnasium.Env):
    """Walk four steps; the state says how far."""

    observation_space: gymnasium.Space = spaces.Box(-1.0, 1.0, (3,))
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.episode = self.steps = 0

    @property
    def is_time(self) -> bool:
        return (self.episode, self.steps) == (EPISODE, STEP)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return np.zeros(3, np.float32), {"state": np.zeros(2)}

    def step(self, action: int) -> Any:
        self.steps += 1
        seen = np.full(3, self.steps / 4, np.float32)
        return seen, 1.0, self.steps == 4, False, {"state": np.array([self.steps, 0.0])}


class RaisesInStep(Sound):
    def step(self, action: int) -> Any:
        moment = super().step(action)
        return {}["goal"] if self.is_time else moment


class RaisesInReset(Sound):
    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        first = super().reset(seed=seed)
        if self.episode == EPISODE:
            raise RuntimeError("no map")
        return first


class Exits(Sound):
    def step(self, action: int) -> Any:
        moment = super().step(action)
        return sys.exit("enough") if self.is_time else moment


class InterruptsItself(Sound):
    def step(self, action: int) -> Any:
        moment = super().step(action)
        if self.is_time:
            raise KeyboardInterrupt
        return moment


class WrongShape(Sound):
    def step(self, action: int) -> Any:
        seen, *rest = super().step(action)
        return (seen[:2] if self.is_time else seen), *rest


class Transposed(Sound):
    observation_space = spaces.Box(-1.0, 1.0, (3, 1))

    def reset(self, **options: Any) -> Any:
        seen, info = super().reset(**options)
        return seen[:, None], info

    def step(self, action: int) -> Any:
        seen, *rest = super().step(action)
        return (seen[None] if self.is_time else seen[:, None]), *rest


class NanObservation(Sound):
    def step(self, action: int) -> Any:
        seen, *rest = super().step(action)
        return (np.array([0.0, np.nan, 0.0]) if self.is_time else seen), *rest


class NanReward(Sound):
    def step(self, action: int) -> Any:
        seen, reward, *rest = super().step(action)
        return seen, float("nan") if self.is_time else reward, *rest


class NanState(Sound):
    def step(self, action: int) -> Any:
        *rest, info = super().step(action)
        return *rest, {"state": np.array([1.0, np.inf])} if self.is_time else info


class NoState(Sound):
    def step(self, action: int) -> Any:
        *rest, info = super().step(action)
        return *rest, {} if self.is_time else info


class LongerState(Sound):
    def step(self, action: int) -> Any:
        *rest, info = super().step(action)
        return *rest, {"state": np.zeros(3)} if self.is_time else info


class UnknownSymbol(Sound):
    observation_space = spaces.Discrete(4)

    def reset(self, **options: Any) -> Any:
        return 0, super().reset(**options)[1]

    def step(self, action: int) -> Any:
        _, *rest = super().step(action)
        return (-1 if self.is_time else 3), *rest


class RewardIsText(Sound):
    def step(self, action: int) -> Any:
        seen, reward, *rest = super().step(action)
        return seen, "1" if self.is_time else reward, *rest


class NoInfo(Sound):
    def step(self, action: int) -> Any:
        *rest, info = super().step(action)
        return *rest, None if self.is_time else info


class OldStep(Sound):
    def step(self, action: int) -> Any:
        seen, reward, terminated, _, info = super().step(action)
        return seen, reward, terminated, info


class OldReset(Sound):
    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        return super().reset(seed=seed)[0]


class ResetWithoutSeed(Sound):
    def reset(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().reset()


class WantsArguments(Sound):
    def __init__(self, size: int, *, colour: str):
        super().__init__()


class HasSequence(Sound):
    """What it returns does not fit what it declares, which cannot be read in the first place."""

    observation_space = spaces.Dict({"words": spaces.Sequence(spaces.Discrete(3))})


class NoSpaces(gymnasium.Env):
    pass


class Dies(Sound):
    def step(self, action: int) -> Any:
        moment = super().step(action)
        return os._exit(3) if self.is_time else moment


class IsKilled(Sound):
    def step(self, action: int) -> Any:
        moment = super().step(action)
        if self.is_time:
            os.kill(os.getpid(), signal.SIGKILL)
        return moment


class Hangs(Sound):
    def step(self, action: int) -> Any:
        moment = super().step(action)
        while self.is_time:
            time.sleep(0.01)
        return moment


class DiesWhenMade(Sound):
    def __init__(self) -> None:
        os._exit(4)


class HangsAtFirst(Sound):
    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        while True:
            time.sleep(0.01)


class FailsWhenTold(Sound):
    """Fails in one of its copies while there is a file `broken`, in the episode that it names."""

    has_failed = False

    def step(self, action: int) -> Any:
        moment = super().step(action)
        told = Path("broken")
        if self.steps == STEP and not FailsWhenTold.has_failed and told.exists():
            FailsWhenTold.has_failed = self.episode == int(told.read_text())
            if FailsWhenTold.has_failed:
                raise RuntimeError("broken")
        return moment
