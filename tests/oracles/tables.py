"""The five tables of a finite world, filled entry by entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Tables:
    """Transitions T[s, a, s'], observations O[a, s', o], rewards R[s, a], ends D[s, a] and the start."""

    states: int
    actions: int
    observations: int
    start: np.ndarray
    T: np.ndarray = field(init=False)
    O: np.ndarray = field(init=False)
    R: np.ndarray = field(init=False)
    D: np.ndarray = field(init=False)

    def __post_init__(self):
        self.T = np.zeros((self.states, self.actions, self.states))
        self.O = np.zeros((self.actions, self.states, self.observations))
        self.R = np.zeros((self.states, self.actions))
        self.D = np.zeros((self.states, self.actions), bool)

    def go(self, state: int, action: int, to: Mapping[int, float], reward: float) -> None:
        self.R[state, action] = reward
        for next_state, probability in to.items():
            self.T[state, action, next_state] = probability

    def end(self, state: int, action: int, reward: float) -> None:
        """The episode ends; the row then holds the start of the next one."""
        self.R[state, action] = reward
        self.D[state, action] = True
        self.T[state, action] = self.start

    def see(self, action: int, next_state: int, seen: Mapping[int, float]) -> None:
        for observation, probability in seen.items():
            self.O[action, next_state, observation] = probability
