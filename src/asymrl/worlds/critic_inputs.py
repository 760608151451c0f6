"""What an actor and a critic may read in a world: inputs by name, their symbols, and the belief b(h), compiled."""

from __future__ import annotations

from collections.abc import Collection

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.name_options import split_names
from asymrl.worlds.pomdp import Pomdp
from asymrl.worlds.spaces import Record, Space
from asymrl.worlds.world import World

BELIEF, SAMPLED_STATE, TIME = "belief", "sampled-state", "time"
SYMBOLS = {"state": "s", BELIEF: "b", SAMPLED_STATE: "s~b", TIME: "t"}
"""The symbols in equations of the inputs that every finite world offers a critic."""
OBSERVATION = "observation."  # prefix of a group's name where a signal has the same name
LARGEST_TABLE = 1 << 18  # a table Pr(s', o | s, a) with at most this many entries is kept dense


def observation_groups(env: World) -> dict[str, Space]:
    """The named parts of what the agent sees in a world: those of a record, or none."""
    space = env.observation_space
    return dict(space.items()) if isinstance(space, Record) else {}


def critic_meanings(env: World) -> dict[str, str]:
    """`signal_meanings`, and the groups of the observation."""
    groups = {name: f"the part {name} of what the agent may see" for name in observation_groups(env)}
    signals = signal_meanings(env)
    return signals | {f"{OBSERVATION}{name}" if name in signals else name: about for name, about in groups.items()}


def actor_space(env: World, sees: str | None) -> Space:
    """The space of what the actor sees: the named groups of the observation. None: all of it.

    Raises:
        ValueError: if there is no such group, or one is named twice.
    """
    if sees is None:
        return env.observation_space
    groups, names = observation_groups(env), split_names(sees)
    if not groups:
        raise ValueError(f"actor_sees {sees!r}: what the agent sees in {env.name} has no named parts; leave it out")
    for name in names:
        if name not in groups:
            raise ValueError(f"actor_sees {sees!r}: there is no {name!r}; {env.name} shows {', '.join(groups)}")
        if names.count(name) > 1:
            raise ValueError(f"actor_sees {sees!r} names {name} twice")
    return Record(tuple((name, space) for name, space in groups.items() if name in names))


def signal_meanings(env: World) -> dict[str, str]:
    """The inputs that a critic may have in a world, with their meanings; several may be joined by `+`."""
    meanings = {name: signal.about for name, signal in env.signals().items()}
    if isinstance(env, FiniteWorld):
        meanings[BELIEF] = "the probability of each state, given the history"
        meanings[SAMPLED_STATE] = "a state drawn from the belief, at each step anew"
    meanings[TIME] = "how many actions were taken"
    return meanings


def input_names(sees: str, known: Collection[str], world: str) -> tuple[str, ...]:
    """The names in what a critic sees, such as `state` and `time` in "state+time".

    Args:
        sees: one name, or several joined by `+` or commas.
        known: all valid names.
        world: its name, for messages.

    Raises:
        ValueError: if there is no such input, or one is named twice.
    """
    names = split_names(sees)
    for name in names:
        if name not in known:
            why = f"a {name} needs the tables of a finite world, which {world} has not; "
            choices = f"{world} can tell its critic {', '.join(known)}, or several of them joined by + or commas"
            raise ValueError(f"critic_sees {sees!r}: {why if name in (BELIEF, SAMPLED_STATE) else ''}{choices}")
        if names.count(name) > 1:
            raise ValueError(f"critic_sees {sees!r} names {name} twice")
    return names


def critic_symbol(sees: str, history: bool) -> str:
    """A critic as the equations write it: V(h, s) for "state" with the history, V(s, t) for "state+time"."""
    parts = [SYMBOLS.get(part, part) for part in split_names(sees)]
    return f"V({', '.join(['h'] * history + parts)})"


class BeliefFilter(eqx.Module):
    """b(h) -> b(hao), compiled: `vmap` it over histories, `scan` it over time.

    Small problems have one matrix Pr(s', o | s, a) for each action and observation. In larger ones the outcomes of a
    state and an action are padded to rows of equal length. Outcomes that end the episode have probability 0, so that
    every belief is conditional on the episode going on.
    """

    matrices: Float[Array | np.ndarray, "A O S S"] | None
    next_state: Int[Array | np.ndarray, "S A K"] | None
    observation: Int[Array | np.ndarray, "S A K"] | None
    probability: Float[Array | np.ndarray, "S A K"] | None
    start: Float[Array | np.ndarray, "S"]
    first_observation: Float[Array | np.ndarray, "S O"] | None

    def __init__(self, pomdp: Pomdp, *, largest_table: int = LARGEST_TABLE):
        S, A, O = pomdp.states, pomdp.actions, pomdp.observations
        going_on = np.where(pomdp.done, 0.0, pomdp.probability)
        self.matrices = self.next_state = self.observation = self.probability = None
        self.start, self.first_observation = pomdp.start, pomdp.first_observation
        size = A * O * S * S
        if size <= largest_table:
            s, a = pomdp.rows()
            self.matrices = np.zeros((A, O, S, S))
            np.add.at(self.matrices, (a, pomdp.observation, s, pomdp.next_state), going_on)
            return
        lengths = np.diff(pomdp.first)
        row = np.repeat(np.arange(S * A), lengths)
        place = np.arange(len(row)) - pomdp.first[row]

        def padded(values: np.ndarray, dtype: type) -> np.ndarray:
            table = np.zeros((S * A, int(lengths.max())), dtype)
            table[row, place] = values
            return table.reshape(S, A, -1)

        self.next_state = padded(pomdp.next_state, np.int32)
        self.observation = padded(pomdp.observation, np.int32)
        self.probability = padded(going_on, float)

    def begin(self, observation: Int[Array, ""]) -> Float[Array, "S"]:
        """The belief after the first observation; a constant symbol carries no information."""
        start = jnp.asarray(self.start)
        if self.first_observation is None:
            return start
        return _normalised(start * jnp.asarray(self.first_observation)[:, observation])[0]

    def __call__(
        self, belief: Float[Array, "S"], action: Int[Array, ""], observation: Int[Array, ""]
    ) -> tuple[Float[Array, "S"], Float[Array, ""]]:
        """The next belief, and the probability of this observation without an end; zeros if that is impossible."""
        if self.matrices is not None:
            # In full precision on every device: a filter never recovers what it loses.
            matrix = jnp.asarray(self.matrices)[action, observation]
            return _normalised(jnp.dot(belief, matrix, precision=jax.lax.Precision.HIGHEST))
        matches = jnp.asarray(self.observation)[:, action] == observation
        weight = jnp.where(matches, jnp.asarray(self.probability)[:, action] * belief[:, None], 0.0)
        joint = jnp.zeros_like(belief).at[jnp.asarray(self.next_state)[:, action]].add(weight)
        return _normalised(joint)


def _normalised(joint: Float[Array, "S"]) -> tuple[Float[Array, "S"], Float[Array, ""]]:
    total = joint.sum()
    return jnp.where(total > 0, joint / jnp.where(total > 0, total, 1.0), 0.0), total
