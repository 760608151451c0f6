"""The compiled training of a batch of runs: roll out, learn, count, log, again."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asymrl.envs.world import World
from asymrl.learning.learn import Losses, learn
from asymrl.learning.rollout import Episodes, roll_out
from asymrl.learning.run import RECENT, Run, new_runs, training_world
from asymrl.learning.settings import Numbers, Settings

SHORTEST = 16  # the learning pass is compiled for this length and its doubles, up to the time limit


def lengths_compiled(time_limit: int) -> tuple[int, ...]:
    """The episode lengths that the learning pass is compiled for. Short episodes need not pay for long ones."""
    lengths, length = [], SHORTEST
    while length < time_limit:
        lengths.append(length)
        length *= 2
    return (*lengths, time_limit)


def is_active(runs: Run, numbers: Numbers) -> Bool[Array, "run"]:
    """Which runs still train."""
    return (runs.timesteps < numbers.steps) & ~runs.failed


def update(env: World, settings: Settings, numbers: Numbers, runs: Run) -> Run:
    """One update of each run that is still active; the others stay exactly as they are."""
    active = is_active(runs, numbers)
    keys = jax.vmap(jax.random.fold_in)(runs.key, runs.updates)
    episodes = roll_out(env, runs.actor, keys, active, episodes=settings.episodes)
    due = active & (runs.timesteps >= runs.next_log)
    evaluated = evaluate_if_due(env, settings, runs, keys, due)

    lengths = lengths_compiled(settings.time_limit)
    longest = jnp.max(jnp.where(active[:, None], episodes.lengths, 0))
    branches = [functools.partial(_learn_all, env, settings, numbers, length=length) for length in lengths]
    arrays, static = eqx.partition(runs, eqx.is_array)
    arrays, losses = jax.lax.switch(
        jnp.searchsorted(jnp.asarray(lengths), longest),
        [lambda a, e, x, branch=branch: branch(a, static, e, x) for branch in branches],
        arrays,
        episodes,
        active,
    )
    return _log(eqx.combine(arrays, static), runs.timesteps, losses, evaluated, due, numbers)


def _learn_all(
    env: World,
    settings: Settings,
    numbers: Numbers,
    arrays: Run,
    static: Run,
    episodes: Episodes,
    active: Bool[Array, "run"],
    *,
    length: int,
) -> tuple[Run, Losses]:
    """Counts the episodes and learns from their first `length` steps, in every run."""

    def one(arrays: Run, episodes: Episodes, active: Bool[Array, ""], numbers: Numbers) -> tuple[Run, Losses]:
        run = _count(eqx.combine(arrays, static), episodes)
        run, losses = learn(env, settings, numbers, run, episodes, length)
        finite = jnp.all(jnp.isfinite(jnp.stack(losses)))
        run = eqx.tree_at(lambda r: r.updates, run, run.updates + 1)
        kept = jax.tree.map(
            lambda new, old: jnp.where(active & finite, new, old), eqx.filter(run, eqx.is_array), arrays
        )
        return eqx.tree_at(lambda r: r.failed, kept, kept.failed | (active & ~finite)), losses

    axes = Episodes(1, 1, 1, 1, 1, 0, 0)
    return jax.vmap(one, (0, axes, 0, 0))(arrays, episodes, active, numbers)


def _count(run: Run, episodes: Episodes) -> Run:
    """Adds the episodes to the counters and to the last 100."""
    count = episodes.lengths.shape[0]
    place = (run.episodes + jnp.arange(count)) % RECENT
    return eqx.tree_at(
        lambda r: (r.timesteps, r.episodes, r.recent_returns, r.recent_lengths),
        run,
        (
            run.timesteps + jnp.sum(episodes.lengths),
            run.episodes + count,
            run.recent_returns.at[place].set(episodes.returns()),
            run.recent_lengths.at[place].set(episodes.lengths.astype(jnp.float32)),
        ),
    )


def recent_means(runs: Run) -> tuple[Float[Array, "run"], Float[Array, "run"]]:
    """Mean return and mean length of the last 100 episodes of each run, or of as many as there were."""
    count = jnp.minimum(runs.episodes, RECENT)
    there = jnp.arange(RECENT)[None] < count[:, None]
    return tuple(  # pyright: ignore[reportReturnType]
        jnp.sum(jnp.where(there, recent, 0.0), axis=1) / jnp.maximum(count, 1)
        for recent in (runs.recent_returns, runs.recent_lengths)
    )


def _log(
    runs: Run,
    timesteps: Int[Array, "run"],
    losses: Losses,
    evaluated: Float[Array, "run 2"],
    due: Bool[Array, "run"],
    numbers: Numbers,
) -> Run:
    """Writes a point of the curve for the runs where one is due. `timesteps` are those before this update."""
    returns, episode_lengths = recent_means(runs)
    counters = [timesteps, runs.episodes, runs.updates]
    columns = [*counters, returns, episode_lengths, *losses, evaluated[:, 0], evaluated[:, 1]]
    point = jnp.stack([column.astype(jnp.float32) for column in columns], axis=-1)
    row = jnp.arange(runs.curve.shape[1])[None] == jnp.minimum(runs.logged, runs.curve.shape[1] - 1)[:, None]
    # A failed run's last point would show what broke it; the message says that better.
    due = due & ~runs.failed
    written = jnp.where((row & due[:, None])[..., None], point[:, None], runs.curve)
    return eqx.tree_at(
        lambda r: (r.curve, r.logged, r.next_log),
        runs,
        (written, runs.logged + due, jnp.where(due, timesteps + numbers.log_period, runs.next_log)),
    )


def evaluate_if_due(
    env: World, settings: Settings, runs: Run, keys: Any, due: Bool[Array, "run"]
) -> Float[Array, "run 2"]:
    """Mean return and length of episodes apart from training, for the runs where a point is due; NaN elsewhere."""
    nothing = jnp.full((due.shape[0], 2), np.nan)
    if not settings.evaluation_episodes:
        return nothing

    def evaluate() -> Float[Array, "run 2"]:
        apart = jax.vmap(lambda key: jax.random.fold_in(key, 1_000))(keys)
        episodes = roll_out(
            env, runs.actor, apart, due, episodes=settings.evaluation_episodes, greedy=settings.evaluation_greedy
        )
        returns = jax.vmap(Episodes.returns, (Episodes(1, 1, 1, 1, 1, 0, 0),))(episodes)
        return jnp.stack([returns.mean(-1), episodes.lengths.astype(jnp.float32).mean(-1)], axis=-1)

    return jax.lax.cond(jnp.any(due), evaluate, lambda: nothing)


class Program:
    """Compiled training for all runs whose settings have one shape."""

    def __init__(self, settings: Settings):
        self.settings = settings.shape()
        self.env = training_world(settings)
        self._train = jax.jit(self._train_batch, donate_argnums=0, static_argnums=3)

    def start(self, seeds: Sequence[int] | np.ndarray) -> Run:
        """New runs, one per seed."""
        return new_runs(self.env, self.settings, np.asarray(seeds))

    def train(self, runs: Run, numbers: Numbers, updates: int) -> Run:
        """At most this many further updates of each run; fewer where a run is complete. Consumes `runs`."""
        arrays, static = eqx.partition(runs, eqx.is_array)
        return eqx.combine(self._train(arrays, numbers, jnp.int32(updates), _Static(static)), static)

    def _train_batch(self, arrays: Run, numbers: Numbers, updates: Int[Array, ""], static: _Static) -> Run:
        def go_on(loop: tuple[Array, Run]) -> Bool[Array, ""]:
            done, arrays = loop
            return (done < updates) & jnp.any(is_active(arrays, numbers))

        def once(loop: tuple[Array, Run]) -> tuple[Array, Run]:
            done, arrays = loop
            runs = update(self.env, self.settings, numbers, eqx.combine(arrays, static.tree))
            return done + 1, eqx.filter(runs, eqx.is_array)

        with jax.default_matmul_precision("tensorfloat32" if self.settings.precision == "tf32" else "highest"):
            return jax.lax.while_loop(go_on, once, (jnp.int32(0), arrays))[1]


class _Static:
    """The parts of runs that are not arrays; equal for all batches of one program."""

    def __init__(self, tree: Run):
        self.tree = tree

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static)


@functools.lru_cache(maxsize=16)
def _program(shape: Settings) -> Program:
    return Program(shape)


def program(settings: Settings) -> Program:
    """The program for these settings, compiled once per shape."""
    return _program(settings.shape())


def stack_numbers(settings: Sequence[Settings]) -> Numbers:
    """The numbers of a batch of runs, one of each per run."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *[each.numbers() for each in settings])
