"""Whether the two networks of an asymmetric DQN want the same actions, in the episodes of trained runs.

    python scripts/q_agreement.py FOLDER [FOLDER ...] [--episodes 20] [--epsilon 0.1] [--write FILE.csv]

Q(h, a) acts, and the targets of both networks are values of its best action according to the privileged network. Where
that network thinks much more of another action, these targets are far from those of the best action that there is.
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
from jaxtyping import Array, Bool, Float

from asymrl.agents.trained import TrainedRuns, load_trained
from asymrl.collection.episodes import RUN_AXIS, Episodes, training_batch
from asymrl.collection.rollout import roll_out
from asymrl.learning.dqn import DQNState
from asymrl.learning.q_networks import QNetworks
from asymrl.stores.files import RunError


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


def rows(trained: TrainedRuns, episodes: int, epsilon: float, seed: int = 0) -> list[dict[str, Any]]:
    """A row per run of one shape. Raises RunError if these are not runs of an asymmetric DQN."""
    states, env, settings = trained.states, trained.world, trained.settings[0]
    if not isinstance(states, DQNState) or states.critic is None:
        raise RunError(f"{settings.method} does not have two networks of action values")
    count = len(trained.runs)
    keys, active = jax.random.split(jax.random.key(seed), count), jnp.ones(count, bool)
    played = roll_out(env, states.actor, keys, active, episodes=episodes, epsilon=jnp.full(count, epsilon))
    arrays, static = eqx.partition((states.actor, states.critic), eqx.is_array)

    def one(arrays: Any, played: Episodes) -> dict[str, Array]:
        data = training_batch(env, settings, played, settings.horizon)
        of_history, privileged = QNetworks(*eqx.combine(arrays, static)).values(
            data.before, data.observations, data.signal
        )
        assert privileged is not None
        return {"return": jnp.mean(played.returns()), **agreement(of_history, privileged, data.valid)}

    numbers = jax.device_get(jax.jit(jax.vmap(one, (0, RUN_AXIS)))(arrays, played))
    what = {"world": settings.world, "method": settings.method}
    return [
        {**what, "seed": run.seed, "learning_rate": run.settings.learning_rate, "clip_norm": run.settings.clip_norm}
        | {name: float(values[i]) for name, values in numbers.items()}
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
        found = [row for folder in folders for each in load_trained(folder) for row in rows(each, episodes, epsilon)]
    except RunError as error:
        sys.exit(str(error))
    table = pl.DataFrame(found)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, float_precision=3):
        print(table)
    if write is not None:
        table.write_csv(write, float_precision=4)


if __name__ == "__main__":
    tyro.cli(main)
