"""A finite POMDP as a `.pomdp` file has it: transitions, observations and rewards, each by its non-zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.outcomes import Joint, OutcomeWorld, joint
from asymrl.worlds.pomdp import Pomdp, Rows
from asymrl.worlds.world import DEFAULT_TIME_LIMIT


@dataclass(frozen=True)
class Problem:
    """What a file says. `pomdp()` is for exact computations, `world()` to act and train in.

    Where an action ends the episode, as a `reset` row says, `T` has the start distribution, or merely the state itself
    if nothing depends on what comes then.
    """

    name: str
    T: Rows  # row s * A + a
    O: Rows  # row a * S + s', or one row for each entry of T if observations depend on the state before
    previous: bool  # whether they do
    rewards: Float64[np.ndarray, "S A"] | Float64[np.ndarray, "outcomes"]
    """By state and action, or for each outcome of `joint()` if they depend on more than that."""
    ends: Bool[np.ndarray, "S A"]
    start: Float64[np.ndarray, "S"]
    discount: float
    cost: bool
    """Whether the file speaks of costs. Here they are rewards in any case."""
    state_names: Sequence[str] = field(repr=False)
    action_names: Sequence[str] = field(repr=False)
    observation_names: Sequence[str] = field(repr=False)

    def joint(self) -> Joint:
        """Every transition with every observation that can follow it."""
        return joint(self.T, self.O, len(self.action_names), self.previous)

    def pomdp(self, *, time_limit: int | None = None) -> Pomdp:
        """The problem as sparse outcomes; before the first action a constant symbol is seen."""
        return self.world(time_limit=time_limit).pomdp()

    def world(self, *, discount: float | None = None, time_limit: int | None = DEFAULT_TIME_LIMIT) -> FiniteWorld:
        """The problem as a world; an `OutcomeWorld` where plain tables can not express it."""
        shared = {
            "name": self.name,
            "transitions": self.T,
            "observations": self.O,
            "ends": self.ends,
            "start": self.start,
            "state_names": self.state_names,
            "action_names": self.action_names,
            "observation_names": self.observation_names,
            "discount": self.discount if discount is None else discount,
            "time_limit": time_limit,
        }
        if self.rewards.ndim == 2 and not self.previous:
            return FiniteWorld(rewards=self.rewards, **shared)
        rewards = self.rewards.ravel()[self.joint().row] if self.rewards.ndim == 2 else self.rewards
        return OutcomeWorld(rewards=rewards, previous=self.previous, **shared)


def by_state_and_action(
    rewards: Float64[np.ndarray, "outcomes"], outcomes: Joint, states: int, actions: int
) -> Float64[np.ndarray, "S A"] | Float64[np.ndarray, "outcomes"]:
    """The rewards as a table `[S, A]`, if they depend on nothing else; as they were otherwise."""
    first = np.searchsorted(outcomes.row, np.arange(states * actions))
    alike = np.array_equal(rewards, rewards[first][outcomes.row])
    return rewards[first].reshape(states, actions) if alike else rewards
