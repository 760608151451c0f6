"""The tables of `docs/how-to/presets.md`, made of `results/presets/runs.json`.

    python -m scripts.presets_page                       # writes the tables anew
    python -m scripts.presets_page --collect evidence    # first takes in what `scripts.preset_evidence` has measured

A run whose settings are those of a preset belongs to it, whatever it was called when it was measured; others are
candidates that lost.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy import stats
from scripts.preset_tasks import TASKS

from asymrl.runs.statistics import mean_and_error
from asymrl.runs.wording import thousands
from asymrl.settings.presets import PRESETS

ROOT = Path(__file__).parents[1]
RECORD, PAGE = ROOT / "results" / "presets" / "runs.json", ROOT / "docs" / "how-to" / "presets.md"
OTHER, SEARCH_SEEDS = "recurrent-ppo", (100, 101, 102)
BEGIN, END = "<!-- {}: by scripts/presets_page.py -->", "<!-- end -->"
NEEDED = ("task", "arm", "method", "seed", "steps", "return", "seconds", "settings", "versions")


def collect(folder: Path, record: Path = RECORD) -> None:
    """Adds the results in a folder to the record.

    A run that is there already is replaced; one with other steps than its task has now is dropped, unless it belongs to
    the search.
    """
    there = {_key(each): each for each in records(record)} if record.exists() else {}
    for path in sorted(folder.glob("*.json")):
        each = {name: value for name, value in json.loads(path.read_text()).items() if name in NEEDED}
        each["return"] = round(each["return"], 4)
        if each["arm"] != OTHER:
            each["settings"] = _chosen(each["settings"])
            each["arm"] = preset_of(each) or each["arm"]
        there[_key(each)] = each
    there = {key: run for key, run in there.items() if _is_current(run) or run["seed"] in SEARCH_SEEDS}
    record.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(there[key]) for key in sorted(there)]
    record.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def records(record: Path = RECORD) -> list[dict[str, Any]]:
    return json.loads(record.read_text())


def preset_of(run: dict[str, Any]) -> str | None:
    """The preset that a run has the settings of, if there is one."""
    own = {name: tuple(value) if isinstance(value, list) else value for name, value in run["settings"].items()}
    for name, preset in PRESETS.items():
        # A world's own discount counts where a preset has none.
        rest = {each: value for each, value in own.items() if each != "discount" or "discount" in preset.values}
        if run["method"].startswith(preset.learner) and rest == _differing(preset.learner, preset.values):
            return name
    return None


def _differing(learner: str, values: Any) -> dict[str, Any]:
    """The settings that are not at the default of a learner."""
    from asymrl.settings import SETTINGS_TYPES

    usual = SETTINGS_TYPES[learner]()
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


def _chosen(settings: dict[str, Any]) -> dict[str, Any]:
    """Of all settings of a run those that somebody chose, rather than the task or a default."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    kept = _differing(settings["method"].partition("-")[0], values)
    of_task = ("method", "preset", "steps", "time_limit", "log_points", "world")
    return {name: value for name, value in kept.items() if name not in of_task}


def _is_current(run: dict[str, Any]) -> bool:
    return run["steps"] == TASKS[run["task"]].steps


def _key(run: dict[str, Any]) -> tuple[Any, ...]:
    return run["task"], run["arm"], run["method"], run["seed"]


def cell(runs: list[dict[str, Any]]) -> str:
    """Mean return with its 95 % interval after Student, and the number of runs; of two runs, both returns."""
    if not runs:
        return ""
    values = np.asarray([run["return"] for run in runs])
    digits = 0 if np.abs(values).max() >= 20 else 2
    mean, error = mean_and_error(values)
    if len(values) == 1:
        return f"{mean:.{digits}f} (1 run)"
    if len(values) == 2:
        return " and ".join(f"{value:.{digits}f}" for value in np.sort(values))
    reach = float(error) * stats.t.ppf(0.975, len(values) - 1)
    return f"{mean:.{digits}f} [{mean - reach:.{digits}f}, {mean + reach:.{digits}f}] ({len(values)})"


def of(runs: list[dict[str, Any]], task: str, arm: str, method: str) -> list[dict[str, Any]]:
    """The runs of an arm with the steps of the task; those of the search only if there are no others."""
    own = [run for run in runs if (run["task"], run["arm"], run["method"]) == (task, arm, method)]
    own = [run for run in own if _is_current(run)]
    return [run for run in own if run["seed"] not in SEARCH_SEEDS] or own


def reached_table(runs: list[dict[str, Any]]) -> list[str]:
    """What each preset reached in its tasks."""
    lines = [
        "| task | steps | preset | V(h) | V(h, s) | RecurrentPPO | random | best |",
        "|---|---:|---|---|---|---|---:|---:|",
    ]
    for name, task in TASKS.items():
        for preset in dict.fromkeys([task.preset, *(run["arm"] for run in runs if run["task"] == name)]):
            if preset not in PRESETS:
                continue
            learner = PRESETS[preset].learner
            cells = [cell(of(runs, name, preset, learner)), cell(of(runs, name, preset, f"{learner}-asym-hs"))]
            if not any(cells):
                continue
            theirs = cell(of(runs, name, OTHER, "ppo")) if preset == task.preset else ""
            words = [
                task.title,
                thousands(task.steps),
                f"`{preset}`",
                *cells,
                theirs,
                f"{task.random:g}",
                f"{task.best:g}",
            ]
            lines.append(f"| {' | '.join(words)} |")
    return lines


def search_table(runs: list[dict[str, Any]]) -> list[str]:
    """What the candidates reached on average, and with how many runs if there are several."""
    lines = ["| task | steps | critic | candidates, best first |", "|---|---:|---|---|"]
    for task, method in itertools.product(TASKS, ("ppo", "ppo-asym-hs")):
        tried = [run for run in runs if (run["task"], run["method"]) == (task, method) and run["seed"] in SEARCH_SEEDS]
        for steps in sorted({run["steps"] for run in tried}):
            returns: dict[str, list[float]] = {}
            for run in tried:
                if run["steps"] == steps:
                    returns.setdefault(run["arm"], []).append(run["return"])
            ranked = sorted(returns.items(), key=lambda each: -np.mean(each[1]))
            words = [f"{f'`{arm}`' if arm in PRESETS else arm} {_mean(each)}" for arm, each in ranked]
            critic = "V(h)" if method == "ppo" else "V(h, s)"
            lines.append(f"| {TASKS[task].title} | {thousands(steps)} | {critic} | {', '.join(words)} |")
    return lines


def _mean(returns: list[float]) -> str:
    return f"{np.mean(returns):.4g}" + (f" ({len(returns)})" if len(returns) > 1 else "")


def with_tables(page: str, runs: list[dict[str, Any]]) -> str:
    """The page with its tables made anew."""
    for name, lines in (("reached", reached_table(runs)), ("search", search_table(runs))):
        begin = BEGIN.format(name)
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(END)
        page = "\n".join([before + begin, *lines, END]) + after
    return page


@dataclass(frozen=True)
class Options:
    """What to do."""

    collect: Path | None = None
    """A folder with results to take in first."""


def main(options: Options) -> None:
    if options.collect is not None:
        collect(options.collect)
    PAGE.write_text(with_tables(PAGE.read_text(), records()))


if __name__ == "__main__":
    main(tyro.cli(Options))
