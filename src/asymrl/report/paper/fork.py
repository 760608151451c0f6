"""Four history-state pairs at the fork of Heaven-Hell-n, whose values figure 4 follows through training."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int

if TYPE_CHECKING:
    from asymrl.learners.state import RunState

PAIRS = ("left", "right", "left-priest", "right-priest")
TITLES = {
    "left": "heaven left, without priest",
    "right": "heaven right, without priest",
    "left-priest": "heaven left, after the priest",
    "right-priest": "heaven right, after the priest",
}


class Walks(NamedTuple):
    """Walks to the fork, side by side; `[time, walk]`, and the time at which each is at the fork."""

    before: Int[np.ndarray, "time walk"]
    observations: Int[np.ndarray, "time walk"]
    states: Int[np.ndarray, "time walk"]
    at: Int[np.ndarray, "walk"]


@functools.cache
def walks(n: int) -> Walks:
    """The histories of the four pairs: straight north, or first to the priest and back.

    Shorter walks are padded with moves north; nothing after the fork is used.
    """
    from asymrl.nn.distributions import NO_ACTION
    from asymrl.worlds.builtin.heaven_hell import EAST, NORTH, SOUTH, WEST, corridor_moves

    straight = [NORTH] * n
    informed = [SOUTH] + [EAST] * n + [WEST] * n + [NORTH] + [NORTH] * n
    move, cells, priest, no_observation = corridor_moves(n), 4 * n + 2, 4 * n + 1, 4 * n + 3
    columns = []
    for side, actions in [(0, straight), (1, straight), (0, informed), (1, informed)]:
        padded = actions + [NORTH] * (len(informed) - len(actions))
        cell, previous_actions, observations, states = 0, [NO_ACTION], [no_observation], [side * cells]
        for action in padded:
            cell = int(move[cell, action])
            previous_actions.append(action)
            observations.append(priest + side if cell == priest else cell)
            states.append(side * cells + cell)
        columns.append((previous_actions, observations, states, len(actions)))
    previous_actions, observations, states = (
        np.asarray([column[i] for column in columns], np.int32).T for i in range(3)
    )
    return Walks(previous_actions, observations, states, np.asarray([column[3] for column in columns]))


def exact_values(n: int, discount: float = 0.99) -> dict[str, float]:
    """The values of the optimal policy: from the fork to heaven, or first to the priest, back, and to heaven.

    The reward is paid for the action from the exit: n actions later with the priest's word, 5n + 2 later without.
    """
    return {pair: discount**n if "priest" in pair else discount ** (5 * n + 2) for pair in PAIRS}


@dataclass(frozen=True)
class ForkProbe:
    """Asks the critics of a batch of runs for the values of the four pairs."""

    n: int = 4
    every: int = 50_000

    @property
    def columns(self) -> tuple[str, ...]:
        return PAIRS

    def to_json(self) -> dict[str, int]:
        return {"n": self.n, "every": self.every}

    def __call__(self, states: RunState) -> Float[np.ndarray, "run pair"]:
        return np.asarray(_values()(states.critic, walks(self.n)))


@functools.cache
def _values() -> Callable[[Any, Walks], Any]:
    # JAX is imported when it is needed.
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    @eqx.filter_jit
    def values(critics: Any, paths: Walks) -> Float[Array, "run pair"]:
        def one(critic: Any) -> Float[Array, "pair"]:
            along = critic(jnp.asarray(paths.before), jnp.asarray(paths.observations), jnp.asarray(paths.states))
            return along[paths.at, jnp.arange(len(PAIRS))]

        with jax.default_matmul_precision("highest"):
            return eqx.filter_vmap(one)(critics)

    return values
