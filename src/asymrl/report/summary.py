"""How well runs have learned, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from asymrl.report.intervals import Interval, bootstrap
from asymrl.report.run_kinds import kind_label, kinds_in
from asymrl.runs.statistics import mean_and_error
from asymrl.runs.wording import plural, plus_minus, thousands
from asymrl.settings import Settings
from asymrl.worlds.reference_scores import ReferenceScores
from asymrl.worlds.registry import runs_code, usual_time_limit

MORE_STEPS = "train for more steps, or set a shorter --time-limit"
"""What to do about runs in which no episode has ended."""
MOST_SEEDS_SHOWN, MOST_FAILURES_SHOWN = 10, 3


def summary(runs: pl.DataFrame) -> str:
    """The final return of runs, and the returns of a random and the best known policy.

    Runs that failed are named and left out of the means.

    Args:
        runs: a row for each run: `world`, `method`, settings, `seed`, and then `status`, `timesteps`, `updates`,
            `final_return`, and `recent_return` and `recent_length` of the last 100 episodes.
    """
    begun = runs.filter(pl.col("status") != "failed", pl.col("timesteps") > 0)
    unended = begun.filter(pl.col("final_return").is_null())
    sound = begun.filter(pl.col("final_return").is_not_null())
    lines = []
    if len(unended):
        of = "" if len(runs) == 1 else f" in {len(unended)} of {plural('run', len(runs))}"
        lines.append(f"no return yet   no episode was over{of}; {MORE_STEPS}")
    if len(sound):
        lines += _of_kinds(runs, sound) if _differing(runs) else _of_one_kind(sound)
    steps, updates = (thousands(int(runs[count].sum())) for count in ("timesteps", "updates"))
    lines.append(f"trained         {steps} steps, {updates} updates")
    return "\n".join([*lines, *_failures(runs)])


def _differing(runs: pl.DataFrame) -> list[str]:
    """The columns in which runs differ, besides their seed."""
    columns = runs.columns[: runs.columns.index("seed")]
    return [name for name in columns if name != "run" and runs[name].n_unique() > 1]


def ranking_of(runs: pl.DataFrame) -> pl.DataFrame:
    """The final return of each kind of run, best first within each world. Runs of one kind differ in their seed only.

    Args:
        runs: as for `summary`.

    Returns:
        `world, method, <settings in which kinds differ>, runs, final_return` (the interquartile mean, with the bounds
        of its 95 % interval) and, if runs failed, `failed`, how many. Those are left out of the other numbers.
    """
    same = runs.group_by("world", "method").agg(pl.col(_differing(runs)).n_unique().name.suffix(" values"))
    # Settings that follow from world and method, such as a world's discount, distinguish nothing.
    own = [name for name in _differing(runs) if name not in ("world", "method") and (same[f"{name} values"] > 1).any()]
    kinds, rows = ["world", "method", *own], []
    for kind, part in runs.group_by(kinds, maintain_order=True):
        finals = part.filter(pl.col("status") != "failed")["final_return"].drop_nulls().to_numpy()
        middle = bootstrap(finals[:, None]) if len(finals) else Interval(math.nan, math.nan, math.nan)
        rows.append(
            {
                **dict(zip(kinds, kind, strict=True)),
                "runs": len(finals),
                "final_return": middle.estimate,
                "final_return_low": middle.low,
                "final_return_high": middle.high,
                "failed": int((part["status"] == "failed").sum()),
            }
        )
    table = pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)
    order = {world: i for i, world in enumerate(runs["world"].unique(maintain_order=True))}
    table = table.sort(
        pl.col("world").replace_strict(order), "final_return", descending=[False, True], nulls_last=True,
        maintain_order=True,
    )  # fmt: skip
    return table if table["failed"].sum() else table.drop("failed")


def _of_one_kind(sound: pl.DataFrame) -> list[str]:
    """The results of runs that differ only in their seed; each of them if there are few."""
    finals = sound["final_return"].to_numpy()
    over = f" (mean ± standard error of {plural('run', len(sound))})" if len(sound) > 1 else ""
    lines = [f"final return    {plus_minus(finals)}  over the last tenth of training{over}"]
    if 1 < len(sound) <= MOST_SEEDS_SHOWN:
        lines.append(f"each run        {'  '.join(f'{value:.2f}' for value in finals)}")
    recent, length = (plus_minus(sound[f"recent_{what}"].to_numpy()) for what in ("return", "length"))
    fewest = int(sound["episodes_played"].to_numpy().min())
    few = fewest < 100
    of = f"all {fewest} episodes" if few and len(sound) == 1 else f"the last 100 episodes{', or all' * few}"
    lines.append(f"last episodes   return {recent}, length {length}  over {of}")
    if comparable(sound):
        lines += _references(sound["world"][0], float(mean_and_error(finals)[0]))
    return lines


def _of_kinds(runs: pl.DataFrame, sound: pl.DataFrame) -> list[str]:
    """The final return of each kind of run, world by world. A mean of all of them would mean nothing."""
    lines, worlds, best = ["final return    over the last tenth of training (mean ± standard error)"], 0, -math.inf
    for (world,), of_world in runs.group_by("world", maintain_order=True):
        kinds, worlds = kinds_in(of_world), worlds + 1
        lines.append(str(world))
        for rows in sound.filter(pl.col("world") == world).partition_by("method", *kinds, maintain_order=True):
            finals = rows["final_return"].to_numpy()
            best = max(best, float(mean_and_error(finals)[0]))
            lines.append(f"                {plus_minus(finals)}  {kind_label(rows, kinds)}, {plural('run', len(rows))}")
    if worlds > 1 or not comparable(runs):
        return lines
    return [*lines, *_references(runs["world"][0], best, ", by the best of these")]


def _failures(runs: pl.DataFrame) -> list[str]:
    failed = runs.filter(pl.col("status") == "failed")
    if failed.is_empty():
        return []
    own = _differing(runs)
    names = [
        ", ".join([f"seed {row['seed']}", *(f"{name}={row[name]}" for name in own)])
        for row in failed.head(MOST_FAILURES_SHOWN).to_dicts()
    ]
    more = f" and {len(failed) - len(names)} more" if len(failed) > len(names) else ""
    return [f"failed          {'; '.join(names)}{more}: a number was not finite; left out above"]


def comparable(table: pl.DataFrame) -> bool:
    """Whether the known reference returns apply to the task of these runs.

    Args:
        table: of runs or of metrics, with `world`; a setting without a column has its default.
    """
    defaults = {"time_limit": Settings.time_limit, "action_repeat": Settings.action_repeat}
    columns = [name if name in table.columns else pl.lit(value).alias(name) for name, value in defaults.items()]
    return all(_is_usual(*task) for task in table.select("world", *columns).unique().rows())


def _is_usual(world: str, time_limit: int | None, action_repeat: int) -> bool:
    """Whether reference returns hold: they are for a world's usual time limit, and actions of one step."""
    return time_limit == usual_time_limit(world) and action_repeat == 1


def reference_of(settings: Settings) -> ReferenceScores | None:
    """The reference returns of a run's task, or None if none are known."""
    from asymrl.theory.solvers.references import known_returns  # its solvers take a while to load

    is_usual = _is_usual(settings.world, settings.time_limit, settings.action_repeat)
    return known_returns(settings.world) if is_usual else None


def _references(world: str, reached: float, by: str = "") -> list[str]:
    """What random, uninformed and the best known policies get, and how far between the last two the runs are."""
    from asymrl.theory.solvers.references import known_returns  # its solvers take a while to load

    reference = known_returns(world)
    if reference is None:
        return []
    random, best, zero = reference.undiscounted["random"], reference.undiscounted["best"], reference.without_information
    lines = [f"random policy   {random}"]
    start = "a random policy"
    if zero is not random:
        lines.append(f"uninformed      {zero}  for the best policy that ignores what it sees")
        start = "the best uninformed policy"
    lines.append(f"best known      {best}" + (" (proven bounds)" if best.low < best.high else ""))
    share = reference.reached(reached)
    if share is None:
        return lines
    end = "the lower bound of the best" if best.low < best.high else "the best known"
    if round(share, 2) < 0:
        return [*lines, f"reached         less than {start}"]
    return [*lines, f"reached         {share:z.0%} of the way from {start} to {end}{by}"]


def next_commands(
    folder: Path, settings: Settings, where: Mapping[str, Any] | None = None, *, has_networks: bool = True
) -> str:
    """Commands that a user may want to run next on a folder.

    Args:
        folder: of the store.
        settings: of one of the runs.
        where: the settings of the best runs, where runs differ.
        has_networks: whether their networks were kept.
    """
    if not has_networks:
        return f'asymrl.load("{folder}").metrics in Python; the networks were not kept (--keep-networks keeps them)'
    conditions = " ".join(f"{name}={value}" for name, value in (where or {}).items())
    which = f" --where {conditions}" if conditions else ""
    trust = " --trust" if any(map(runs_code, settings.code_names)) else ""
    commands = [f"asymrl evaluate {folder}{which}{trust}", f"asymrl render {folder}{which} -o episode.gif{trust}"]
    if not getattr(settings, "anneal", False):  # a run whose learning rate has fallen to zero is not made longer
        longer = 2 * settings.steps // settings.log_period * settings.log_period
        commands.append(f"asymrl resume {folder} --steps {longer}{trust}")
    return "\n".join(commands)
