"""Trains one run and records its updates one by one: losses, gradients, and how far Adam moves the networks.

    python scripts/record_updates.py --steps 4_800_000 --since 2_000_000 --out results/studies/lost-updates

writes `updates.parquet`: the updates with an episode that does not reach the best return, those around them, and of all
others every twentieth. A run of heaven-hell-3 takes a quarter of an hour on one core.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import tyro
from jaxtyping import Array, Float

from asymrl.learners.a2c import A2CState, learn
from asymrl.learners.compiled import CompiledProgram
from asymrl.learners.episodes import RUN_AXIS, Episodes
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.optimiser import AdamState
from asymrl.learners.program import precision
from asymrl.learners.rollout import roll_out
from asymrl.learners.state import is_active, keys_of
from asymrl.settings import A2CSettings

CHUNK = 250  # updates of one call
BEFORE, AFTER, EVERY = 5, 40, 20  # updates


@dataclass
class Recording:
    """What to record."""

    seed: int = 0
    steps: int = 4_800_000
    since: int = 2_000_000
    """The first timestep of the record."""
    best: float = 1.0
    """The return of an episode that went well."""
    out: Path = Path("results/studies/lost-updates")


def main(recording: Recording) -> None:
    settings = A2CSettings(steps=recording.steps)
    program = CompiledProgram(settings)
    arrays, chunks = eqx.filter(program.start([recording.seed]), eqx.is_array), []
    train = jax.jit(lambda arrays: jax.lax.scan(lambda a, _: update(program, settings, a), arrays, length=CHUNK))
    with precision(settings):
        while int(arrays.timesteps[0]) < recording.steps:
            arrays, chunk = train(arrays)
            chunks.append(jax.tree.map(np.asarray, chunk))
    table = pl.concat([pl.DataFrame(chunk) for chunk in chunks])
    table = table.unique("update", keep="first", maintain_order=True)  # a run that is over stands still
    recording.out.mkdir(parents=True, exist_ok=True)
    kept(table, recording).write_parquet(recording.out / "updates.parquet", compression="zstd")


def update(program: CompiledProgram, settings: A2CSettings, arrays: A2CState) -> tuple[Any, dict[str, Array]]:
    """One update of a run, and what happened."""
    runs: Any = eqx.combine(arrays, program.static)
    numbers = stack_numbers([settings])
    active = is_active(runs, numbers)
    episodes = roll_out(program.world, runs.actor, keys_of(runs), active, episodes=settings.episodes)
    new, losses = learn(program.world, settings.shape(), numbers, runs, episodes, active)
    returns = jax.vmap(Episodes.returns, (RUN_AXIS,))(episodes)
    measured = {
        "update": new.updates[0],
        "timestep": new.timesteps[0],
        "lowest_return": returns.min(),
        "longest": episodes.lengths.max(),
        "critic_loss": losses.critic_loss[0],
        "critic_gradient_norm": losses.critic_gradient_norm[0],
        "actor_gradient_norm": losses.actor_gradient_norm[0],
    }
    for name in ("critic", "actor"):
        moved = entries(getattr(new, name)) - entries(getattr(runs, name))
        adam: AdamState = getattr(new, f"{name}_adam")
        measured[f"{name}_step_norm"] = jnp.linalg.norm(moved)
        measured[f"{name}_largest_step"] = jnp.abs(moved).max()
        # Of parameters whose mean of squares counts less than epsilon.
        measured[f"{name}_below_eps"] = (jnp.sqrt(entries(adam.nu)) < settings.adam_eps).mean()
        measured[f"{name}_mean_root"] = jnp.sqrt(entries(adam.nu)).mean()
    return eqx.filter(new, eqx.is_array), measured


def entries(tree: Any) -> Float[Array, "parameter"]:
    """All numbers of a tree in one row."""
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))])


def kept(table: pl.DataFrame, recording: Recording) -> pl.DataFrame:
    """The rows to ship; `sampled` where a row is there as one of twenty."""
    table = table.filter(pl.col("timestep") >= recording.since).with_row_index("row")
    rows = table.filter(pl.col("lowest_return") < recording.best)["row"].to_list()
    near = {near for row in rows for near in range(row - BEFORE, row + AFTER + 1)}
    sampled = pl.col("row") % EVERY == 0
    return table.filter(sampled | pl.col("row").is_in(list(near))).with_columns(sampled=sampled).drop("row")


if __name__ == "__main__":
    main(tyro.cli(Recording))
