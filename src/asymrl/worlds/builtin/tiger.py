"""Tiger and Good/Bad: small problems of the literature and of the paper's appendix."""

from __future__ import annotations

import equinox as eqx
import numpy as np

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.probability_tables import Rows
from asymrl.worlds.world import DEFAULT_TIME_LIMIT


class GoodBad(FiniteWorld):
    """The good/bad POMDP of the paper's appendix, the example for the bias of V(s).

    The state never changes. The good state always emits GOOD, the bad one either observation with equal probability,
    also before the first action. The action GOOD has reward 1 in both states.
    """

    def __init__(self, *, discount: float = 0.99, time_limit: int | None = DEFAULT_TIME_LIMIT):
        emits = np.array([[1.0, 0.0], [0.5, 0.5]])
        super().__init__(
            name="good-bad",
            transitions=Rows.deterministic(np.array([[0, 0], [1, 1]]), 2),
            observations=Rows.from_dense(np.stack([emits, emits])),
            rewards=np.array([[1.0, 0.0], [1.0, 0.0]]),
            ends=np.zeros((2, 2), bool),
            start=np.array([0.5, 0.5]),
            state_names=["good", "bad"],
            action_names=["good", "bad"],
            observation_names=["good", "bad"],
            first_observations=Rows.from_dense(emits),
            discount=discount,
            time_limit=time_limit,
        )


class Tiger(FiniteWorld):
    """The tiger problem: listen (85 % correct, costs 1) or open a door (reward 10, or -100 if the tiger is there).

    After a door is opened, the tiger is behind a random door again; with `episodic`, the episode ends instead.
    """

    episodic: bool = eqx.field(static=True)

    def __init__(self, *, episodic: bool = False, discount: float = 0.95, time_limit: int | None = DEFAULT_TIME_LIMIT):
        self.episodic = episodic
        listen = np.eye(2)
        uniform = np.full((2, 2), 0.5)
        hears = np.array([[0.85, 0.15], [0.15, 0.85]])
        super().__init__(
            name="tiger",
            transitions=Rows.from_dense(np.stack([listen, uniform, uniform], 1)),
            observations=Rows.from_dense(np.stack([hears, uniform, uniform])),
            rewards=np.array([[-1.0, -100.0, 10.0], [-1.0, 10.0, -100.0]]),
            ends=np.array([[False, episodic, episodic]] * 2),
            start=np.array([0.5, 0.5]),
            state_names=["tiger-left", "tiger-right"],
            action_names=["listen", "open-left", "open-right"],
            observation_names=["obs-left", "obs-right"],
            discount=discount,
            time_limit=time_limit,
        )
