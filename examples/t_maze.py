"""A corridor with a choice at its end, as a Gymnasium environment whose constructor takes arguments.

asymrl train examples/t_maze.py:TMaze:length=9,noise=0.1 --seeds 1
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class TMaze(gymnasium.Env):
    """The side of the goal is shown at the start; walk to the end of the corridor, then choose it."""

    def __init__(self, length: int = 5, noise: float = 0.0):
        """`length`: steps to the end; `noise`: probability of a wrong sign."""
        self.length, self.noise = length, noise
        self.observation_space = spaces.Discrete(4)
        self.action_space = spaces.Discrete(3)
        self.state_space = spaces.MultiDiscrete([length + 1, 2])

    def _seen(self) -> int:
        if self.place == 0:
            side = self.side if self.np_random.random() >= self.noise else 1 - self.side
            return 1 + side
        return 3 if self.place == self.length else 0

    def _info(self) -> dict[str, Any]:
        return {"state": np.array([self.place, self.side])}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.side = 0, int(self.np_random.integers(2))
        return self._seen(), self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if self.place < self.length:
            self.place += int(action == 0)
            return self._seen(), -0.1, False, False, self._info()
        right = action == 1 + self.side
        return self._seen(), 1.0 if right else -1.0, True, False, self._info()
