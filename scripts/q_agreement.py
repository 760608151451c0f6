"""Whether the two networks of an asymmetric DQN prefer the same actions, in the episodes of trained runs.

    python scripts/q_agreement.py FOLDER [FOLDER ...] [--episodes 20] [--epsilon 0.1] [--write FILE.csv]

Q(h, a) acts, and chooses the action whose privileged value the privileged network learns from. Where that network
prefers another action, it learns the value of a policy that is not the best one by its own values.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import polars as pl
import tyro
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from asymrl.learners.dqn import DQNState
from asymrl.learners.episodes import RUN_AXIS, Episodes, training_batch
from asymrl.learners.q_networks import QNetworks
from asymrl.learners.rollout import roll_out
from asymrl.learners.signals import signal_keys
from asymrl.runs.files import RunError
from asymrl.runs.trained import TrainedRuns, load_trained


def agreement(
    of_history: Float[Array, "time episode action"],
    privileged: Float[Array, "time episode action"],
    valid: Bool[Array, "time episode"],
) -> dict[str, Float[Array, ""]]:
    """How well the best action of Q(h, a) does by the privileged values, over all steps that were taken.

    `agree`: the share of steps in which it is the best there, too. `lost`: how much less it is worth than the best one.
    `range`: how much the best one is worth more than the worst.
    """
    chosen = jnp.take_along_axis(privileged, jnp.argmax(of_history, axis=-1)[..., None], axis=-1)[..., 0]
    best, worst = jnp.max(privileged, axis=-1), jnp.min(privileged, axis=-1)
    steps = {"agree": chosen == best, "lost": best - chosen, "range": best - worst}
    return {name: jnp.sum(jnp.where(valid, each, 0.0)) / jnp.sum(valid) for name, each in steps.items()}


def rows(trained: TrainedRuns, episodes: int, epsilon: float) -> list[dict[str, Any]]:
    """A row per run of one shape; none if these are not runs of an asymmetric DQN."""
    states, env, settings = trained.states, trained.world, trained.settings[0]
    if not isinstance(states, DQNState) or states.critic is None:
        return []
    count = len(trained.runs)
    keys = jax.vmap(jax.random.key)(jnp.asarray(trained.seeds))
    arrays, static = eqx.partition((states.actor, states.critic), eqx.is_array)

    def compare(arrays: Any, played: Episodes, key: PRNGKeyArray) -> dict[str, Array]:
        data = training_batch(env, settings, played, settings.horizon, key)
        networks = QNetworks(*eqx.combine(arrays, static))
        of_history, privileged = networks.values(data.before, data.observations, data.signal)
        assert privileged is not None
        steps = slice(data.valid.shape[0])  # without what only a bootstrap after the last step reads
        return {"return": jnp.mean(played.returns()), **agreement(of_history[steps], privileged[steps], data.valid)}

    with jax.default_matmul_precision("highest"):
        shares = jnp.full(count, epsilon)
        played = roll_out(env, states.actor, keys, jnp.ones(count, bool), episodes=episodes, epsilon=shares)
        numbers = jax.device_get(jax.jit(jax.vmap(compare, (0, RUN_AXIS, 0)))(arrays, played, signal_keys(keys)))
    return [
        {
            "world": settings.world,
            "method": settings.method,
            "seed": run.seed,
            "learning_rate": run.settings.learning_rate,
            "clip_norm": run.settings.clip_norm,
            **{name: float(values[i]) for name, values in numbers.items()},
        }
        for i, run in enumerate(trained.runs)
    ]


def main(
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional],
    episodes: int = 20,
    epsilon: float = 0.1,
    write: Path | None = None,
) -> None:
    """Compare the two networks of asymmetric DQNs.

    Args:
        folders: Stores with networks.
        episodes: Of each run.
        epsilon: How often a random action is taken in them.
        write: A file for the table.
    """
    try:
        groups = [group for folder in folders for group in load_trained(folder)]
    except RunError as error:
        sys.exit(str(error))
    table = pl.DataFrame([row for group in groups for row in rows(group, episodes, epsilon)])
    if table.is_empty():
        sys.exit("no runs with two networks of action values here; train some with --method adqn-vr, for example")
    table = table.with_columns(pl.col("agree", "lost", "range", "return").round(3))
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
        print(table)
    if write is not None:
        try:
            table.write_csv(write)
        except OSError as error:
            sys.exit(f"{write}: {error}")


if __name__ == "__main__":
    tyro.cli(main)
