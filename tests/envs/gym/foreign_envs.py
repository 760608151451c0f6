"""Small Gymnasium environments that run in Python, as users write them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Guess(gymnasium.Env):
    """A coin is shown half of the time; guess it. The latent state is in the info."""

    observation_space = spaces.Dict({"coin": spaces.Discrete(3, start=-1), "noise": spaces.Box(-1.0, 1.0, (2, 2))})
    action_space = spaces.Discrete(2, start=1)
    state_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.coin, self.steps = int(self.np_random.integers(2)), 0
        return self._seen(), {"state": self.coin}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        assert action in (1, 2)
        self.steps += 1
        right = action - 1 == self.coin
        return self._seen(), 1.0 if right else -1.0, self.steps == 3, False, {"state": self.coin}

    def _seen(self) -> Any:
        shown = self.coin if self.np_random.random() < 0.5 else -1
        return {"coin": shown, "noise": self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)}


class Aim(gymnasium.Env):
    """Choose a point near the target; the action is a vector. The latent state is an attribute."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,))
    action_space = spaces.Box(np.array([0.0, -2.0], np.float32), np.array([10.0, 2.0], np.float32))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.state = np.array([7.0, -1.0])
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        width = np.array([5.0, 2.0])
        return np.zeros(1, np.float32), -float(np.sum(((action - self.state) / width) ** 2)), True, False, {}


class Switches(gymnasium.Env):
    """Set a lever and a switch, whose numbers do not start at 0, as is shown. The latent state is in the info."""

    observation_space = spaces.MultiDiscrete([3, 2])
    action_space = spaces.MultiDiscrete([3, 2], start=[-1, 5])
    state_space = spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.wanted = self.np_random.integers([3, 2])
        return self.wanted, {"state": self.wanted}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        right = action - np.array([-1, 5]) == self.wanted
        return self.wanted, float(np.mean(right)), True, False, {"state": self.wanted}


class Keys(gymnasium.Env):
    """Press any of four keys at once; each pays 1."""

    observation_space = spaces.Box(-1.0, 1.0, (1,))
    action_space = spaces.MultiBinary((2, 2))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        return np.zeros(1, np.float32), float(action.sum()), False, False, {}


class Console(gymnasium.Env):
    """Choose a gear, set two wheels and some levers: actions of every kind, nested. Each part pays by itself."""

    observation_space = spaces.Box(-1.0, 1.0, (1,))
    action_space = spaces.Dict(
        {
            "wheels": spaces.Box(np.array([[-2.0, 0.0]], np.float32), np.array([[2.0, 10.0]], np.float32)),
            "gear": spaces.Discrete(3, start=-1),
            "levers": spaces.Tuple((spaces.MultiBinary(2), spaces.Box(-5, 5, (2,), np.int16))),
            "dials": spaces.MultiDiscrete(np.array([[2, 3]]), start=np.array([[4, 0]])),
        }
    )

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {"state": np.zeros(1)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        bits, numbers = action["levers"]
        reward = float(action["gear"] == 1) + float(bits.all()) - float(np.abs(action["wheels"] - [[1.0, 2.0]]).mean())
        reward -= float(np.abs(numbers - np.array([3, -2])).mean()) / 5
        return np.zeros(1, np.float32), reward, True, False, {"state": np.zeros(1)}


class Walker(gymnasium.Env):
    """Groups of observations, as simulators of robots have them. Push against the slope, which is in `heights`."""

    observation_space = spaces.Dict(
        {
            "proprioception": spaces.Box(-np.inf, np.inf, (2,)),
            "heights": spaces.Box(-1.0, 1.0, (3,)),
            "friction": spaces.Discrete(2),
        }
    )
    action_space = spaces.Discrete(2)

    def __init__(self, unseen: float = 1.0):
        self.unseen = unseen  # what the groups that the actor does not see are multiplied with

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.slope, self.place = self.np_random.uniform(-1, 1, 3), self.np_random.normal(size=2)
        return self._seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        self.place = 0.9 * self.place + 0.1 * (2 * action - 1)
        return self._seen(), float((2 * action - 1) * self.place[0]), False, False, {}

    def _seen(self) -> Any:
        heights = (self.unseen * self.slope).astype(np.float32)
        return {"proprioception": self.place.astype(np.float32), "heights": heights, "friction": int(self.unseen > 0)}


class Dark(gymnasium.Env):
    """Nothing is known about its state."""

    observation_space = spaces.MultiDiscrete([2, 3])
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return self.observation_space.sample() * 0, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        return np.array([1, 2]), float(action), False, self.np_random.random() < 0.2, {}


class Medley(gymnasium.Env):
    """Shows a bit of every kind of space, at random, and takes vectors whose bounds have many digits."""

    observation_space = spaces.Tuple(
        (
            spaces.Discrete(3, start=5),
            spaces.Dict(
                {
                    "picture": spaces.Box(0, 255, (40, 40), np.uint8),
                    "dials": spaces.MultiDiscrete([3, 4], start=[-1, 2]),
                    "bits": spaces.MultiBinary((2, 2)),
                    "levels": spaces.Box(-5, 5, (3,), np.int16),
                    "exact": spaces.Box(-1.0, 1.0, (2, 1), np.float64),
                    "frames": spaces.Box(0, 255, (3, 12, 10), np.uint8),
                }
            ),
        )
    )
    action_space = spaces.Box(-0.1, 0.3, (2, 1), np.float64)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), float(action.sum()), False, False, {}


def doubled(env: gymnasium.Env) -> dict[str, Any]:
    """A latent state of one's own making."""
    inner: Any = env.unwrapped
    return {"twice": 2 * inner.coin, "steps": [inner.steps, 0]}
