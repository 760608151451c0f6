"""The learning curve: the counters of runs in training, and the points that are written."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learners.episodes import RUN_AXIS, Episodes
from asymrl.learners.key_purposes import EVALUATION
from asymrl.learners.numbers import Numbers
from asymrl.learners.rollout import roll_out
from asymrl.learners.state import RECENT, RunState
from asymrl.settings import Settings
from asymrl.worlds.world import World

States = TypeVar("States", bound=RunState)


class Losses(NamedTuple):
    """The losses and gradient norms of a gradient step of each run."""

    critic_loss: Float[Array, "run"]
    policy_loss: Float[Array, "run"]
    negentropy_loss: Float[Array, "run"]
    negentropy_weight: Float[Array, "run"]
    critic_gradient_norm: Float[Array, "run"]
    actor_gradient_norm: Float[Array, "run"]


def count(runs: States, episodes: Episodes, active: Bool[Array, "run"]) -> States:
    """Adds the episodes to the counters and to the last 100."""
    number = episodes.lengths.shape[1]
    returns = jax.vmap(Episodes.returns, (RUN_AXIS,))(episodes)

    def put(recent: Float[Array, "recent"], first: Int[Array, ""], values: Float[Array, "episode"]) -> Array:
        return recent.at[(first + jnp.arange(number)) % RECENT].set(values)

    recent_returns = jax.vmap(put)(runs.recent_returns, runs.episodes, returns)
    recent_lengths = jax.vmap(put)(runs.recent_lengths, runs.episodes, episodes.lengths.astype(jnp.float32))
    keep = active[:, None]
    return eqx.tree_at(
        lambda r: (r.timesteps, r.episodes, r.recent_returns, r.recent_lengths),
        runs,
        (
            runs.timesteps + jnp.where(active, jnp.sum(episodes.lengths, axis=1), 0),
            runs.episodes + jnp.where(active, number, 0),
            jnp.where(keep, recent_returns, runs.recent_returns),
            jnp.where(keep, recent_lengths, runs.recent_lengths),
        ),
    )


def count_ended(
    run: States,
    ended: Bool[Array, "time stream"],
    returns: Float[Array, "time stream"],
    lengths: Int[Array, "time stream"],
    steps: Int[Array, ""],
) -> States:
    """`count` for one run and the episodes that ended somewhere in its streams, after `steps` steps in all streams."""
    ended, values = ended.ravel(), jnp.stack([returns.ravel(), lengths.ravel().astype(jnp.float32)])
    number = jnp.cumsum(ended) - 1  # the index of each episode among those that ended
    # If more ended than fit, only the last are written: of two values for one place, either might win.
    written = ended & (number > number[-1] - RECENT)
    place = jnp.where(written, (run.episodes + number) % RECENT, RECENT)
    recent = jnp.stack([run.recent_returns, run.recent_lengths]).at[:, place].set(values, mode="drop")
    return eqx.tree_at(
        lambda r: (r.timesteps, r.episodes, r.recent_returns, r.recent_lengths),
        run,
        (run.timesteps + steps, run.episodes + number[-1] + 1, recent[0], recent[1]),
    )


def recent_means(runs: RunState) -> tuple[Float[Array, "run"], Float[Array, "run"]]:
    """Mean return and mean length of the last 100 episodes of each run, or of all if there were fewer.

    They are zero before the first episode. Results leave such points out.
    """
    count = jnp.minimum(runs.episodes, RECENT)
    there = jnp.arange(RECENT)[None] < count[:, None]
    returns, lengths = (
        jnp.sum(jnp.where(there, recent, 0.0), axis=1) / jnp.maximum(count, 1)
        for recent in (runs.recent_returns, runs.recent_lengths)
    )
    return returns, lengths


def is_solved(runs: RunState, numbers: Numbers) -> Bool[Array, "run"]:
    """Which runs have reached the return at which they stop."""
    return (runs.episodes >= RECENT) & (recent_means(runs)[0] >= numbers.stop_return)


def means(episodes: Episodes) -> Float[Array, "run 2"]:
    """Mean return and mean length of the episodes of each run."""
    returns = jax.vmap(Episodes.returns, (RUN_AXIS,))(episodes)
    return jnp.stack([returns.mean(-1), episodes.lengths.astype(jnp.float32).mean(-1)], axis=-1)


def write_point(
    runs: States,
    timesteps: Int[Array, "run"],
    losses: Losses,
    evaluated: Float[Array, "run 2"],
    due: Bool[Array, "run"],
    numbers: Numbers,
) -> States:
    """Writes a point of the curve for the runs where one is due or that are solved now.

    `timesteps` are those before this update.
    """
    returns, episode_lengths = recent_means(runs)
    counters = [timesteps, runs.episodes, runs.updates]
    columns = [*counters, returns, episode_lengths, *losses, evaluated[:, 0], evaluated[:, 1]]
    point = jnp.stack([column.astype(jnp.float32) for column in columns], axis=-1)
    row = jnp.arange(runs.curve.shape[1])[None] == jnp.minimum(runs.logged, runs.curve.shape[1] - 1)[:, None]
    solved = is_solved(runs, numbers)
    # A failed run's last point would show what broke it; the message says that better.
    due = (due | (solved & ~runs.solved)) & ~runs.failed
    written = jnp.where((row & due[:, None])[..., None], point[:, None], runs.curve)
    next_log = jnp.where(due, timesteps + numbers.log_period, runs.next_log)
    return eqx.tree_at(
        lambda r: (r.curve, r.logged, r.next_log, r.solved), runs, (written, runs.logged + due, next_log, solved)
    )


def evaluate_if_due(
    env: World, settings: Settings, runs: RunState, keys: PRNGKeyArray, due: Bool[Array, "run"]
) -> Float[Array, "run 2"]:
    """Mean return and length of evaluation episodes, for the runs where a point is due; NaN elsewhere."""
    nothing = jnp.full((due.shape[0], 2), np.nan)
    if not settings.evaluation_episodes:
        return nothing

    def evaluate() -> Float[Array, "run 2"]:
        episodes = roll_out(
            env,
            runs.actor,
            evaluation_keys(keys),
            due,
            episodes=settings.evaluation_episodes,
            greedy=settings.evaluation_greedy,
        )
        return jnp.where(due[:, None], means(episodes), nothing)

    return jax.lax.cond(jnp.any(due), evaluate, lambda: nothing)


def evaluation_keys(keys: PRNGKeyArray) -> PRNGKeyArray:
    """The keys of evaluation, `[run]`, from those of an update."""
    return jax.vmap(lambda key: jax.random.fold_in(key, EVALUATION))(keys)
