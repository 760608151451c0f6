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
from asymrl.learners.streams import Piece
from asymrl.settings import Settings
from asymrl.worlds.world import World

State = TypeVar("State", bound=RunState)


class Losses(NamedTuple):
    """The losses and gradient norms of a gradient step."""

    critic_loss: Float[Array, "*run"]
    policy_loss: Float[Array, "*run"]
    negentropy_loss: Float[Array, "*run"]
    negentropy_weight: Float[Array, "*run"]
    critic_gradient_norm: Float[Array, "*run"]
    actor_gradient_norm: Float[Array, "*run"]


def count(run: State, episodes: Episodes, on: Bool[Array, ""]) -> State:
    """The run with the episodes in its counters and in its last 100, if it is `on`."""
    number = episodes.lengths.shape[0]
    place = (run.episodes + jnp.arange(number)) % RECENT
    returns = run.recent_returns.at[place].set(episodes.returns())
    lengths = run.recent_lengths.at[place].set(episodes.lengths.astype(jnp.float32))
    return eqx.tree_at(
        lambda r: (r.timesteps, r.episodes, r.recent_returns, r.recent_lengths),
        run,
        (
            run.timesteps + jnp.where(on, jnp.sum(episodes.lengths), 0),
            run.episodes + jnp.where(on, number, 0),
            jnp.where(on, returns, run.recent_returns),
            jnp.where(on, lengths, run.recent_lengths),
        ),
    )


def count_ended(run: State, piece: Piece, on: Bool[Array, ""]) -> State:
    """`count` for the steps and the episodes that ended somewhere in streams."""
    lengths = (piece.times + 1).ravel().astype(jnp.float32)
    ended, values = on & piece.ended.ravel(), jnp.stack([piece.returns.ravel(), lengths])
    number = jnp.cumsum(ended) - 1  # the index of each episode among those that ended
    # If more ended than fit, only the last are written: of two values for one place, either might win.
    written = ended & (number > number[-1] - RECENT)
    place = jnp.where(written, (run.episodes + number) % RECENT, RECENT)
    recent = jnp.stack([run.recent_returns, run.recent_lengths]).at[:, place].set(values, mode="drop")
    steps = jnp.where(on, jnp.sum(piece.valid), 0)
    return eqx.tree_at(
        lambda r: (r.timesteps, r.episodes, r.recent_returns, r.recent_lengths),
        run,
        (run.timesteps + steps, run.episodes + number[-1] + 1, recent[0], recent[1]),
    )


def recent_means(run: RunState) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Mean return and mean length of the last 100 episodes of a run, or of all if there were fewer.

    They are zero before the first episode. Results leave such points out.
    """
    count = jnp.minimum(run.episodes, RECENT)
    is_filled = jnp.arange(RECENT) < count
    returns, lengths = (
        jnp.sum(jnp.where(is_filled, recent, 0.0)) / jnp.maximum(count, 1)
        for recent in (run.recent_returns, run.recent_lengths)
    )
    return returns, lengths


def is_solved(run: RunState, numbers: Numbers) -> Bool[Array, ""]:
    """Whether the run has reached the return at which it stops."""
    return (run.episodes >= RECENT) & (recent_means(run)[0] >= numbers.stop_return)


def write_point(
    run: State,
    timesteps: Int[Array, ""],
    losses: Losses,
    evaluated: Float[Array, "2"],
    due: Bool[Array, ""],
    numbers: Numbers,
) -> State:
    """Writes a point of the curve if one is due or the run is solved now.

    `timesteps` are those before this update.
    """
    counters = [timesteps, run.episodes, run.updates]
    columns = [*counters, *recent_means(run), *losses, evaluated[0], evaluated[1]]
    point = jnp.stack([column.astype(jnp.float32) for column in columns])
    row = jnp.arange(run.curve.shape[0]) == jnp.minimum(run.logged, run.curve.shape[0] - 1)
    solved = is_solved(run, numbers)
    # A failed run's last point would show what broke it; the message says that better.
    due = (due | (solved & ~run.solved)) & ~run.failed
    written = jnp.where((row & due)[:, None], point, run.curve)
    next_log = jnp.where(due, timesteps + numbers.log_period, run.next_log)
    return eqx.tree_at(
        lambda r: (r.curve, r.logged, r.next_log, r.solved), run, (written, run.logged + due, next_log, solved)
    )


def mean_outcomes(episodes: Episodes) -> Float[Array, "run 2"]:
    """Mean return and mean length of the episodes of each run."""
    returns = jax.vmap(Episodes.returns, (RUN_AXIS,))(episodes)
    return jnp.stack([returns.mean(-1), episodes.lengths.astype(jnp.float32).mean(-1)], axis=-1)


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
        return jnp.where(due[:, None], mean_outcomes(episodes), nothing)

    return jax.lax.cond(jnp.any(due), evaluate, lambda: nothing)


def evaluation_keys(keys: PRNGKeyArray) -> PRNGKeyArray:
    """The keys of evaluation, `[run]`, from those of an update."""
    return jax.vmap(lambda key: jax.random.fold_in(key, EVALUATION))(keys)
