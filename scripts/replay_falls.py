"""Records falls of solved runs of heaven-hell-3 update by update, and replays them with one thing changed.

    python scripts/replay_falls.py start --agent                 # a solved state: the agent that ships
    python scripts/replay_falls.py start --seed 1 --steps 1_645_000   # or a new run with the paper's settings
    python scripts/replay_falls.py hunt agent --keys 1 16        # runs from there with tripled learning rates
    python scripts/replay_falls.py hunt agent --keys 1 16 --arm "both clip 1"
    python scripts/replay_falls.py hunt agent --keys 1 21 --floor 3   # first triples the weight of the entropy slowly
    python scripts/replay_falls.py replay agent-3 --keys 1 4     # a fall that the hunt found
    python scripts/replay_falls.py replay agent-3 --keys 1 3 --later 10
    python scripts/replay_falls.py write results/studies/lost/replays

States are kept in `runs/falls`, about 100 MB per fall. On one core a hunt takes a minute per run, a replay 2 to 5 s.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import tyro

from asymrl import zoo
from asymrl.learners.a2c import A2CState
from asymrl.learners.curve import recent_means
from asymrl.learners.schedules import scheduled
from asymrl.learners.state import RECENT
from asymrl.report.falls import LOST, SOLVED
from asymrl.settings import A2CSettings
from asymrl.studies.fall_replays.changed_updates import CHUNK, Change, Replayer, with_key
from asymrl.studies.fall_replays.replaying import (
    Measured,
    changed_from,
    forward,
    onset_of,
    replay,
    with_entropy_weight,
)
from asymrl.studies.fall_replays.variants import VARIANTS, floor_arm

FOLDER = Path("runs/falls")
SETTINGS = A2CSettings(steps=100_000_000, log_points=10)
FAST = Change(actor_speed=3.0, critic_speed=3.0)
FLOOR = 0.01  # weight of the entropy after the paper's schedule
RING = 14  # states kept, CHUNK updates apart
WARM_UP = (0.02, 0.1, 1.0)  # speeds, 1000 updates each: Adam's means are not shipped with an agent
SHOWN = (-150, 150)  # updates around the start of a fall that are written


@dataclass
class Start:
    """A solved state to hunt from."""

    agent: bool = False
    """The agent that ships with the package, after 3000 updates that fill Adam's means."""
    seed: int = 1
    """Of a new run with the paper's settings."""
    steps: int = 1_645_000
    """Of the new run."""

    def run(self, replayer: Replayer) -> None:
        if self.agent:
            arrays = agent_state(replayer)
            for speed in WARM_UP:
                arrays, _ = forward(replayer, arrays, 1000, Change(actor_speed=speed, critic_speed=speed), FLOOR)
            save_state(FOLDER / "agent.npz", arrays)
            return
        arrays = replayer.start(self.seed)
        while int(arrays.timesteps[0]) < self.steps:
            arrays, _ = replayer.train(arrays, CHUNK, entropy_weight=paper_weight(arrays))
        save_state(FOLDER / f"seed{self.seed}.npz", arrays)


@dataclass
class Hunt:
    """Runs from a solved state with tripled learning rates, until the task is lost or the steps are over."""

    base: tyro.conf.Positional[str]
    keys: tuple[int, int] = (1, 16)
    """The first, and the one after the last."""
    steps: int = 100_000
    arm: str = "nothing"
    """Which of the variants holds throughout."""
    floor: float | None = None
    """Factor on the final weight of the entropy. Each run approaches it slowly, at the paper's learning rates, before
    they are tripled. None: the usual weight, at once."""

    def run(self, replayer: Replayer) -> None:
        if self.floor is not None and self.arm != "nothing":
            raise SystemExit("--floor is an arm of its own: leave --arm out")
        change = changed_from(FAST, VARIANTS[self.arm].later)
        arm = self.arm if self.floor is None else floor_arm(self.floor)
        weight = FLOOR * (1 if self.floor is None else self.floor)
        for key in range(*self.keys):
            arrays = with_key(load_state(FOLDER / f"{self.base}.npz", replayer), key)
            if self.floor is not None:
                now = FLOOR if self.base == "agent" else paper_weight(arrays)
                arrays = with_entropy_weight(replayer, arrays, now, weight)
            if float(recent_means(arrays)[0][0]) < SOLVED:
                lost = {"steps": 0, "fell": False, "hell": 0, "failures": 0, "lost_before": True}
                append(FOLDER / "hunts.jsonl", {"base": self.base, "arm": arm, "key": key, **lost})
                continue
            start, ring, rows, fell = int(arrays.timesteps[0]), deque(maxlen=RING), [], False
            while int(arrays.timesteps[0]) - start < self.steps and not fell:
                ring.append(arrays)
                arrays, measured = replayer.train(arrays, CHUNK, change, entropy_weight=weight)
                rows.append(measured)
                fell = float(recent_means(arrays)[0][0]) < LOST
            record, name = joined(rows), f"{self.base}-{key}"
            row = {
                "base": self.base,
                "arm": arm,
                "key": key,
                "steps": int(arrays.timesteps[0]) - start,
                "fell": fell,
                "hell": int((record["lowest_return"] < 0).sum()),
                "failures": int((record["lowest_return"] < 1).sum()),
                "lost_before": False,
            }
            append(FOLDER / "hunts.jsonl", row)
            if fell and arm == "nothing":
                for state in ring:
                    save_state(FOLDER / name / f"{int(state.updates[0])}.npz", state)
                np.savez(FOLDER / name / "record.npz", allow_pickle=False, **record)


@dataclass
class Replays:
    """Replays of a fall as each variant."""

    fall: tyro.conf.Positional[str]
    keys: tuple[int, int] = (1, 4)
    later: int = 0
    """How many updates after the episode the replay starts; 0: before it."""
    variants: tuple[str, ...] = tuple(VARIANTS)

    def run(self, replayer: Replayer) -> None:
        folder = FOLDER / self.fall
        record = dict(np.load(folder / "record.npz"))
        onset = int(record["update"][onset_of(record["lowest_return"])])

        def state(update: int) -> A2CState:
            """The run after so many updates, or the first state that was kept, if that is later."""
            kept = sorted(int(path.stem) for path in folder.glob("[0-9]*.npz"))
            near = max((each for each in kept if each <= update), default=kept[0])
            arrays = load_state(folder / f"{near}.npz", replayer)
            return forward(replayer, arrays, update - near, FAST, FLOOR)[0]

        before = state(onset + self.later if self.later else onset - 1)
        early = before if self.later else state(onset - 101)
        if not self.later:
            _, rows = replay(replayer, early, before, VARIANTS["nothing"], usual=FAST, weight=FLOOR, key=0)
            check_same(joined(rows), record, onset)
        for key in range(*self.keys):
            for name in self.variants:
                variant = replace(VARIANTS[name], starts=-1) if self.later else VARIANTS[name]
                found, _ = replay(replayer, early, before, variant, usual=FAST, weight=FLOOR, key=key)
                row = {"fall": self.fall, "later": self.later, "variant": name, "key": key, **found._asdict()}
                append(FOLDER / "replays.jsonl", row)


@dataclass
class Write:
    """Writes what was recorded as three small tables."""

    out: tyro.conf.Positional[Path]

    def run(self, replayer: Replayer) -> None:
        del replayer
        self.out.mkdir(parents=True, exist_ok=True)
        for name in ("hunts", "replays"):
            lines = (FOLDER / f"{name}.jsonl").read_text().splitlines()
            table = pl.DataFrame([json.loads(line) for line in lines], infer_schema_length=None)
            table.write_parquet(self.out / f"{name}.parquet", compression="zstd")
        falls = []
        for path in sorted(FOLDER.glob("*/record.npz")):
            record = pl.DataFrame({name: values for name, values in np.load(path).items()})
            onset = onset_of(record["lowest_return"].to_numpy())
            near = record.with_row_index("row").with_columns(after=pl.col("row").cast(pl.Int32) - onset).drop("row")
            near = near.filter(pl.col("after").is_between(*SHOWN))
            falls.append(near.select(pl.lit(path.parent.name).alias("fall"), "after", pl.exclude("fall", "after")))
        pl.concat(falls).write_parquet(self.out / "falls.parquet", compression="zstd")


def agent_state(replayer: Replayer) -> A2CState:
    """A run with the networks of the agent that ships, and nothing in Adam's means."""
    arrays = replayer.start(0)
    (agent,) = zoo.load("heaven-hell-3").load()
    actor, critic = (eqx.filter(network, eqx.is_array) for network in (agent.states.actor, agent.states.critic))
    values = (actor, critic, critic, jnp.ones_like(arrays.recent_returns), jnp.full_like(arrays.episodes, RECENT))
    return eqx.tree_at(lambda a: (a.actor, a.critic, a.target, a.recent_returns, a.episodes), arrays, values)


def paper_weight(arrays: A2CState) -> float:
    """The weight of the entropy after so many steps with the paper's settings."""
    return float(scheduled("linear", arrays.timesteps[0], start=0.1, end=FLOOR, steps=2e6))


def save_state(path: Path, arrays: A2CState) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path, *(np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf) for leaf in jax.tree.leaves(arrays))
    )


def load_state(path: Path, replayer: Replayer) -> A2CState:
    leaves, tree = jax.tree.flatten(replayer.start(0))
    with np.load(path) as saved:
        values = [jnp.asarray(saved[f"arr_{number}"]) for number in range(len(leaves))]
    keyed = [jax.random.wrap_key_data(new) if is_key(old) else new for old, new in zip(leaves, values, strict=True)]
    return jax.tree.unflatten(tree, keyed)


def is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def joined(rows: Sequence[Measured]) -> Measured:
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def check_same(again: Measured, record: Measured, onset: int) -> None:
    """Raises ValueError unless a replay that changes nothing repeats the record bit for bit."""
    first = int(np.flatnonzero(record["update"] == onset)[0])
    for name, values in again.items():
        known = record[name][first:]
        both = min(len(known), len(values))
        if not np.array_equal(known[:both], values[:both]):
            raise ValueError(f"{name}: the replay differs from the record; was it made by another version or machine?")


def append(path: Path, row: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def main() -> None:
    command = tyro.extras.subcommand_cli_from_dict(
        {"start": Start, "hunt": Hunt, "replay": Replays, "write": Write}, description=__doc__
    )
    command.run(Replayer(SETTINGS))


if __name__ == "__main__":
    main()
