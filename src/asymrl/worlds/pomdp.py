"""A finite POMDP by its possible outcomes, in float64: what exact computations read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64, Int

from asymrl.worlds.probability_tables import TOLERANCE

NOTHING = -1  # the observation of an outcome that ends the episode, where no action follows


@dataclass(frozen=True)
class Pomdp:
    """A finite POMDP. Action a in state s has the outcomes `first[s * A + a]` up to `first[s * A + a + 1]`.

    An outcome has a probability, a next state, an observation and a reward. If it ends the episode (`done`), its next
    state is the state itself and its observation is `NOTHING`. Time and memory grow with the possible outcomes, not
    with |S|^2 |O|.
    """

    name: str
    first: Int[np.ndarray, "offsets"]
    next_state: Int[np.ndarray, "outcomes"]
    observation: Int[np.ndarray, "outcomes"]
    probability: Float64[np.ndarray, "outcomes"]
    reward: Float64[np.ndarray, "outcomes"]
    done: Bool[np.ndarray, "outcomes"]
    start: Float64[np.ndarray, "S"]
    first_observation: Float64[np.ndarray, "S O"] | None
    """Probabilities of the observation before the first action; None: a constant symbol, index |O|, shown only then."""
    discount: float
    time_limit: int | None
    state_names: Sequence[str] = field(repr=False)
    action_names: Sequence[str] = field(repr=False)
    observation_names: Sequence[str] = field(repr=False)

    def __post_init__(self):
        self._check_outcomes()
        self._check_start()
        if not 0 <= self.discount <= 1:
            raise ValueError(f"{self.name}: discount is {self.discount!r}, expected a number between 0 and 1")
        if self.time_limit is not None and self.time_limit < 1:
            raise ValueError(
                f"{self.name}: time_limit is {self.time_limit!r}, expected a positive whole number or None"
            )

    @property
    def states(self) -> int:
        return len(self.state_names)

    @property
    def actions(self) -> int:
        return len(self.action_names)

    @property
    def observations(self) -> int:
        """The number of observations, not counting the constant first symbol, if there is one."""
        return len(self.observation_names)

    def rows(self) -> tuple[Int[np.ndarray, "outcomes"], Int[np.ndarray, "outcomes"]]:
        """The state and the action of each outcome."""
        row = np.repeat(np.arange(self.states * self.actions), np.diff(self.first))
        return np.divmod(row, self.actions)

    def R(self) -> Float64[np.ndarray, "S A"]:
        """Expected rewards."""
        row = np.repeat(np.arange(self.states * self.actions), np.diff(self.first))
        expected = np.bincount(row, self.probability * self.reward, minlength=self.states * self.actions)
        return expected.reshape(self.states, self.actions)

    def name_of_observation(self, observation: int) -> str:
        """The name of an observation, or of the constant symbol that some problems show first."""
        return "start" if observation == self.observations else self.observation_names[observation]

    def _check_outcomes(self) -> None:
        S, A, O = self.states, self.actions, self.observations
        if self.first.shape != (S * A + 1,) or self.first[0] != 0 or self.first[-1] != len(self.probability):
            raise ValueError(f"{self.name}: `first` must hold {S * A + 1} offsets, from 0 to the number of outcomes")
        state, action = self.rows()

        def where(s: int, a: int) -> str:
            return f"action {self.action_names[a]!r} in state {self.state_names[s]!r}"

        to, seen = self.next_state, self.observation
        for values, wrong, problem in (
            (to, (to < 0) | (to >= S), f"next state {{}}, expected a number from 0 to {S - 1}"),
            (seen, (seen < NOTHING) | (seen >= O), f"observation {{}}, expected a number from {NOTHING} to {O - 1}"),
            (seen, (seen == NOTHING) != self.done, "no observation without ending the episode, or the other way round"),
            (self.probability, ~(self.probability > 0), "probability {}, expected a positive number"),
            (self.reward, ~np.isfinite(self.reward), "reward {}, expected a finite number"),
        ):
            if wrong.any():
                k = int(wrong.argmax())
                place = where(int(state[k]), int(action[k]))
                raise ValueError(f"{self.name}: an outcome of {place} has {problem.format(values[k])}")
        sums = np.bincount(state * A + action, self.probability, minlength=S * A)
        wrong = ~(np.abs(sums - 1) <= TOLERANCE)
        if wrong.any():
            place = where(*divmod(int(wrong.argmax()), A))
            raise ValueError(f"{self.name}: the probabilities of {place} sum to {sums[wrong][0]:.6g}, expected 1")

    def _check_start(self) -> None:
        if self.start.shape != (self.states,):
            raise ValueError(f"{self.name}: start has shape {self.start.shape}, expected ({self.states},)")
        if np.any(self.start < 0) or not abs(self.start.sum() - 1) <= TOLERANCE:
            raise ValueError(f"{self.name}: start sums to {self.start.sum():.6g} or has negative entries, expected 1")
        if self.first_observation is None:
            return
        shape, sums = (self.states, self.observations), self.first_observation.sum(-1)
        if self.first_observation.shape != shape or np.any(self.first_observation < 0):
            raise ValueError(f"{self.name}: first_observation must have shape {shape} and no negative entries")
        if (wrong := np.flatnonzero(~(np.abs(sums - 1) <= TOLERANCE))).size:
            s = self.state_names[wrong[0]]
            raise ValueError(
                f"{self.name}: the first observations of state {s!r} sum to {sums[wrong[0]]:.6g}, expected 1"
            )
