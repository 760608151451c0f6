"""Rounds of episodes: enough for an update to have a given number of steps, however short its episodes are.

A round has a fixed number of whole episodes of each run. A run that has enough steps takes no part in further rounds.
Gradients are means over the rounds of a run, so all of its episodes count the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from asymrl.learners.episodes import Episodes
from asymrl.learners.key_purposes import ROUNDS
from asymrl.learners.lengths import over_runs
from asymrl.learners.rollout import roll_out
from asymrl.nn.agent import Actor
from asymrl.settings import A2CSettings
from asymrl.worlds.world import World

if TYPE_CHECKING:
    from asymrl.learners.collector import Collector

MOST_ROUNDS = 16  # of an update; memory is reserved for the episodes of all of them

Tree = TypeVar("Tree")


class Rounds(NamedTuple):
    """The episodes of an update. Every array of `episodes` has an axis of rounds in front."""

    episodes: Episodes
    wanted: Bool[Array, "round run"]
    """Which runs took part in a round; False for all runs in rounds that were not needed."""

    def used(self) -> Int[Array, ""]:
        """How many rounds there were."""
        return jnp.sum(jnp.any(self.wanted, axis=1))

    def at(self, r: Int[Array, ""]) -> Episodes:
        """The episodes of a round."""
        return jax.tree.map(lambda leaf: leaf[r], self.episodes)


def wanted_steps(settings: A2CSettings) -> int:
    """Steps that an update should have."""
    assert settings.update_steps is not None
    return settings.update_steps


def most_rounds(settings: A2CSettings) -> int:
    """Rounds that an update may have."""
    return min(MOST_ROUNDS, math.ceil(wanted_steps(settings) / settings.episodes))


def round_keys(keys: PRNGKeyArray, r: Int[Array, ""] | int) -> PRNGKeyArray:
    """The keys of a round of each run, `[run]`, from those of the update."""
    return jax.vmap(lambda key: jax.random.fold_in(jax.random.fold_in(key, ROUNDS), r))(keys)


def roll_out_rounds(
    env: World, settings: A2CSettings, actors: Actor, keys: PRNGKeyArray, active: Bool[Array, "run"]
) -> Rounds:
    """Rounds of episodes until every active run has its steps, or `most_rounds` are played."""

    def one(r: Int[Array, ""], run_mask: Bool[Array, "run"]) -> Episodes:
        return roll_out(env, actors, round_keys(keys, r), run_mask, episodes=settings.episodes)

    def is_short(loop: tuple[Array, Array, Rounds]) -> Bool[Array, ""]:
        r, steps, _ = loop
        return (r < count) & jnp.any(active & (steps < wanted_steps(settings)))

    def another(loop: tuple[Array, Array, Rounds]) -> tuple[Array, Array, Rounds]:
        r, steps, rounds = loop
        run_mask = active & (steps < wanted_steps(settings))
        played = one(r, run_mask)
        written = jax.tree.map(
            lambda room, new: jax.lax.dynamic_update_index_in_dim(room, new, r, 0), rounds, Rounds(played, run_mask)
        )
        return r + 1, steps + jnp.where(run_mask, jnp.sum(played.lengths, axis=1), 0), written

    count = most_rounds(settings)
    shapes = jax.eval_shape(one, jnp.int32(0), active)
    room = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), (shapes, active))
    steps = jnp.zeros(active.shape, jnp.int32)
    return jax.lax.while_loop(is_short, another, (jnp.int32(0), steps, Rounds(*room)))[2]


def collect_rounds(
    collector: Collector,
    settings: A2CSettings,
    actors: Actor,
    keys: PRNGKeyArray,
    active: Bool[np.ndarray, "run"],
    steps: int | None = None,
) -> Rounds:
    """The same in a world that runs in Python; or with `steps`, only the first steps of one round."""
    taken, rounds, room = np.zeros(active.shape, np.int64), np.zeros((most_rounds(settings), len(active)), bool), None
    for r in range(len(rounds)):
        run_mask = active & (taken < wanted_steps(settings))
        if not run_mask.any():
            break
        played = collector.collect(actors, round_keys(keys, r), run_mask, episodes=settings.episodes, steps=steps)
        played = jax.tree.map(np.asarray, played)
        if room is None:
            room = jax.tree.map(lambda leaf: np.zeros((len(rounds), *leaf.shape), leaf.dtype), played)
        jax.tree.map(lambda rows, new, r=r: rows.__setitem__(r, new), room, played)
        taken += np.where(run_mask, played.lengths.sum(axis=1), 0)
        rounds[r] = run_mask
        if steps is not None:
            break
    assert room is not None
    return Rounds(room, rounds)  # pyright: ignore[reportArgumentType]  on its way to the device


def over_rounds(
    one: Callable[..., Any],
    time_limit: int,
    rounds: Rounds,
    models: tuple[Any, ...],
    others: tuple[Any, ...],
    keys: PRNGKeyArray,
) -> Any:
    """`over_runs(one, ...)`, whose last argument is a key, as a mean over the rounds of each run."""

    def of_round(r: Int[Array, ""]) -> Any:
        more = (*others, round_keys(keys, r))
        return over_runs(one, time_limit, rounds.at(r), rounds.wanted[r], models, more)

    def add(r: Int[Array, ""], total: Any) -> Any:
        shares = rounds.wanted[r] / jnp.maximum(jnp.sum(rounds.wanted, axis=0), 1)

        def added(sum_so_far: Array, new: Array) -> Array:
            share = shares.reshape(-1, *[1] * (new.ndim - 1))
            return sum_so_far + jnp.where(share > 0, share * new, 0.0)

        return jax.tree.map(added, total, of_round(r))

    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of_round, jnp.int32(0)))
    return jax.lax.fori_loop(0, rounds.used(), add, zeros)


def fold_rounds(step: Callable[[Tree, Episodes, Array, Array], Tree], rounds: Rounds, start: Tree) -> Tree:
    """`step(state, episodes, wanted, r)` for one round after another."""
    arrays, static = eqx.partition(start, eqx.is_array)

    def one(r: Int[Array, ""], arrays: Any) -> Any:
        return eqx.filter(step(eqx.combine(arrays, static), rounds.at(r), rounds.wanted[r], r), eqx.is_array)

    return eqx.combine(jax.lax.fori_loop(0, rounds.used(), one, arrays), static)
