"""Tables of recorded falls and of their replays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure
from scipy.stats import binomtest

from asymrl.report.falls import rate_interval, rates_differ, shares_differ
from asymrl.report.intervals import Interval
from asymrl.studies.fall_replays.replay_figure import replay_figure
from asymrl.studies.fall_replays.variants import VARIANTS, usual_arm

FOLDER = "replays"  # in that of the study's runs
EPISODES = 2  # of an update
SUDDEN = 5  # times as long as before: a step of the critic that a fall begins with
PHASES = {
    "before": (-100, -1),
    "0": (0, 0),
    "1-2": (1, 2),
    "3-5": (3, 5),
    "6-10": (6, 10),
    "11-20": (11, 20),
    "21-40": (21, 40),
    "41-60": (41, 60),
}  # updates after the one that a fall begins with
ORDERED = (
    "critic_step_norm",
    "actor_step_norm",
    "critic_loss",
    "critic_gradient_norm",
    "actor_gradient_norm",
    "advantage_root",
    "entropy",
    "mean_return",
)


def replay_findings(folder: Path) -> tuple[Mapping[str, pl.DataFrame], Mapping[str, Figure]]:
    """Tables and figures of the replays beside the runs of a study, by the names of their files; none if none ship."""
    source = folder / FOLDER
    if not source.is_dir():
        return {}, {}
    falls, replays, hunts = (pl.read_parquet(source / f"{name}.parquet") for name in ("falls", "replays", "hunts"))
    shares = share_table(replays)
    tables = {
        "lost-falls": fall_table(falls, hunts),
        "lost-order": order_table(falls),
        "lost-replays": shares,
        "lost-hunts": hunt_table(hunts),
    }
    return tables, {"lost-replay": replay_figure(falls, shares)}


def fall_table(falls: pl.DataFrame, hunts: pl.DataFrame) -> pl.DataFrame:
    """How each fall begins, a row each.

    Columns: `first_return`, of the worst episode of the update that it begins with; `critic_kick` and `actor_kick`, how
    much longer the longest step of that update and the next two is than the median of 100 updates before; `sudden`;
    `next_failure`, updates until another episode fails; `episode_length`, the mean of 100 updates before;
    `steps_since_copy` of the target, null if that is older than the record; `steps` of its run until it was lost.
    """
    rows = []
    for (name,), record in falls.sort("after").group_by("fall", maintain_order=True):
        baseline, first = record.filter(pl.col("after").is_between(-100, -1)), record.filter(after=0)
        kicked = record.filter(pl.col("after").is_between(0, 2))
        later = record.filter(pl.col("after") > 0, pl.col("lowest_return") < 1)
        copy = record.filter(pl.col("after") <= 0, pl.col("copied"))["timestep"].max()
        kicks = {
            f"{who}_kick": float(kicked[f"{who}_step_norm"].max() / baseline[f"{who}_step_norm"].median())  # pyright: ignore
            for who in ("critic", "actor")
        }
        base, key = str(name).rsplit("-", 1)
        run = hunts.filter(base=base, key=int(key), arm="nothing").row(0, named=True)
        row = {"fall": name, "first_return": first["lowest_return"].item(), **kicks}
        row |= {
            "sudden": kicks["critic_kick"] >= SUDDEN,
            "next_failure": later["after"].min(),
            "episode_length": float(baseline["steps"].mean()) / EPISODES,  # pyright: ignore
            "steps_since_copy": None if copy is None else first["timestep"].item() - copy,
            "steps": run["steps"],
        }
        rows.append(row)
    return pl.DataFrame(rows)


def order_table(falls: pl.DataFrame) -> pl.DataFrame:
    """What moves when: the median over falls of medians over updates, a row for each quantity, a column per phase."""
    columns = []
    for label, (first, last) in PHASES.items():
        part = falls.filter(pl.col("after").is_between(first, last))
        medians = part.group_by("fall").agg(pl.col(ORDERED).median()).select(pl.col(ORDERED).median())
        columns.append(medians.transpose(column_names=[label]))
    return pl.concat([pl.DataFrame({"quantity": ORDERED}), *columns], how="horizontal")


def share_table(replays: pl.DataFrame) -> pl.DataFrame:
    """How many replays of each kind lost the task, a row for each start of the replays and variant.

    `share` has the Wilson interval and `p` compares it with that of `nothing` (Fisher's exact test); both treat replays
    of the same fall as independent. The last columns say how many fell from each solved state, `4 of 12`.
    """
    rows = []
    replays = replays.with_columns(state=pl.col("fall").str.split("-").list.first())
    states = replays["state"].unique().sort()
    order = {name: place for place, name in enumerate(VARIANTS)}
    counts = replays.group_by("later", "variant").agg(pl.len().alias("replays"), pl.col("fell").sum())
    counts = counts.sort("later", pl.col("variant").replace_strict(order, return_dtype=pl.Int32))
    for row in counts.iter_rows(named=True):
        usual = counts.filter(later=row["later"], variant="nothing").row(0, named=True)
        share = share_interval(row["fell"], row["replays"])
        p = shares_differ((row["fell"], usual["fell"]), (row["replays"], usual["replays"]))
        own = replays.filter(later=row["later"], variant=row["variant"])
        parts = {state: own.filter(state=state)["fell"] for state in states}
        by_state = {f"from_{state}": f"{fell.sum()} of {len(fell)}" for state, fell in parts.items()}
        bounds = {"share": share.estimate, "share_low": share.low, "share_high": share.high}
        rows.append({**row, **bounds, "p": p, **by_state})
    return pl.DataFrame(rows)


def share_interval(fell: int, replays: int) -> Interval:
    """A share with its Wilson interval."""
    test = binomtest(fell, replays)
    low, high = test.proportion_ci(method="wilson")
    return Interval(fell / replays, float(low), float(high))


def hunt_table(hunts: pl.DataFrame) -> pl.DataFrame:
    """How often runs from a solved state with tripled learning rates fall, a row for each state and arm.

    `falls_per_million` steps has the exact interval of a Poisson rate; `p` compares it with that of `nothing`, or for
    another final weight of the entropy with that of the usual one. `lost_before` counts runs that lost the task before
    the learning rates were tripled, which are in no other column.
    """
    rows, lost = [], hunts.filter(pl.col("lost_before"))
    hunts = hunts.filter(~pl.col("lost_before"))
    for (base, arm), runs in hunts.sort("base").group_by("base", "arm", maintain_order=True):
        usual = hunts.filter(base=base, arm=usual_arm(str(arm)))
        fell, millions = (
            [int(each["fell"].sum()) for each in (runs, usual)],
            [float(each["steps"].sum()) / 1e6 for each in (runs, usual)],
        )
        rate = rate_interval(fell[0], millions[0])
        rows.append(
            {
                "base": base,
                "arm": arm,
                "runs": len(runs),
                "millions": millions[0],
                "hell": int(runs["hell"].sum()),
                "falls": fell[0],
                "falls_per_million": rate.estimate,
                "falls_per_million_low": rate.low,
                "falls_per_million_high": rate.high,
                "p": rates_differ((fell[0], fell[1]), (millions[0], millions[1])),
                "lost_before": len(lost.filter(base=base, arm=arm)),
            }
        )
    return pl.DataFrame(rows)
