"""Car-Flag in double precision."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FORCES = (-1.0, -2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3, 1.0)
POWER = 0.0015
MAX_SPEED = 0.07
MAX_POSITION = 1.1
FLAG = 1.0
INFO_FROM, INFO_TO = 0.5 - 0.2, 0.5 + 0.2
START_FROM, START_TO = -0.2, 0.2


class Car(NamedTuple):
    position: float
    velocity: float
    heaven: float


def accelerate(car: Car, action: int) -> float:
    """The velocity after the engine has worked."""
    return min(max(car.velocity + POWER * FORCES[action], -MAX_SPEED), MAX_SPEED)


def step(car: Car, action: int) -> tuple[Car, float, bool]:
    """The next state, the reward and whether the episode ends."""
    velocity = accelerate(car, action)
    position = min(max(car.position + velocity, -MAX_POSITION), MAX_POSITION)
    if position == -MAX_POSITION and velocity < 0:
        velocity = 0.0
    reached = 1.0 if position >= FLAG else -1.0 if position <= -FLAG else None
    reward = 0.0 if reached is None else 1.0 if reached == car.heaven else -1.0
    return Car(position, velocity, car.heaven), reward, reached is not None


def observe(car: Car) -> np.ndarray:
    told = car.heaven if INFO_FROM <= car.position <= INFO_TO else 0.0
    return np.array([car.position, car.velocity, told])
