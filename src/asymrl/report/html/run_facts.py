"""What the runs of a store are and how they were trained: settings, hardware, versions and times."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from asymrl.reading import read_json
from asymrl.report.html.page import Section
from asymrl.report.html.run_groups import RunGroup
from asymrl.report.markup import details_html, escape, facts_html, setting_text, table_html
from asymrl.report.run_kinds import reads_state
from asymrl.report.summary import ranking_of
from asymrl.runs.description import SETTINGS_FILE
from asymrl.runs.files import RunError
from asymrl.runs.runs import differing_by_choice, to_json
from asymrl.runs.sessions import sessions
from asymrl.runs.store import Store
from asymrl.runs.tables import RUNS_FILE, read_table
from asymrl.runs.wording import duration, listed, plural, thousands
from asymrl.settings import Settings

MANIFEST = "manifest.json"
MOST_ROWS = 1_000  # runs in the table of all runs
MOST_DIFFERENCES = 12  # kinds of runs that are listed at once
OWN = ("run", "world", "method", "seed", "status", "timesteps", "final_return", "recent_return", "seconds", "failure")


def runs_html(store: Store) -> str:
    """The runs of a store as a short piece of HTML, for notebooks: a table of the results of each kind of run."""
    name = f"<p><strong>{escape(store.path)}</strong><br>"
    if not (store.path / RUNS_FILE).is_file():
        return f"{name}{plural('run', len(store))}, not begun</p>"
    table = read_table(store.path, RUNS_FILE)
    return f"{name}{escape(subtitle(table))}</p>\n{table_html(ranking_of(table))}"


def subtitle(table: pl.DataFrame) -> str:
    """The runs of a store in a line."""
    worlds, methods = table["world"].unique(maintain_order=True), table["method"].unique(maintain_order=True)
    steps, devices = int(table["timesteps"].sum()), table["device"].drop_nulls().unique(maintain_order=True)
    what = [
        plural("run", len(table)),
        worlds[0] if len(worlds) == 1 else plural("world", len(worlds)),
        methods[0] if len(methods) == 1 else plural("method", len(methods)),
        f"{thousands(steps)} steps",
        *map(_device, devices),
    ]
    return " · ".join(what)


def settings_section(store: Store, groups: Mapping[str, Sequence[RunGroup]], table: pl.DataFrame) -> Section:
    """What all runs share, what differs between the groups, and a row for each run of the table."""
    by_number = {number: store.runs[number] for number in table["run"]}
    names = [name for name in differing_by_choice(by_number.values()) if name not in ("world", "method")]
    rows = [
        {"world": world, "method": group.method}
        | {name: _own_text(by_number[group.runs["run"][0]].settings, name) for name in names}
        | {"runs": len(group.runs), "seeds": _ranges(group.runs["seed"].to_list())}
        for world, each in groups.items()
        for group in each
    ]
    parts = [_differences(pl.DataFrame(rows, infer_schema_length=None))] if len(rows) > 1 else []
    shared = {name: setting_text(value) for name, value in to_json(store.runs)["settings"].items()}
    if len(rows) == 1:
        shared |= {"seeds": rows[0]["seeds"]}
    parts.append(details_html(f"What all runs share: {len(shared)} settings", facts_html(shared)))
    own = [name for name in OWN if name in table.columns and table[name].null_count() < len(table)]
    some = f" (the first {thousands(MOST_ROWS)})" if len(table) > MOST_ROWS else ""
    parts.append(details_html(f"Every run{some}", table_html(table.select(own).head(MOST_ROWS))))
    return Section("Settings and runs", "settings", "\n".join(parts))


def _own_text(settings: Settings, name: str) -> str:
    has_effect = name != "critic_sees" or reads_state(settings.method)
    return setting_text(getattr(settings, name, None) if has_effect else None)


def _differences(rows: pl.DataFrame) -> str:
    """What differs between runs; folded away if that is long."""
    if len(rows) <= MOST_DIFFERENCES:
        return f"<h3>What differs</h3>\n{table_html(rows)}"
    return details_html(f"What differs: {len(rows)} kinds of runs", table_html(rows))


def training_section(store: Store, table: pl.DataFrame) -> Section:
    """Hardware, versions and times, as far as the folder records them."""
    statuses = table["status"].value_counts(sort=True).rows()
    devices = [_device(kind) for kind in table["device"].drop_nulls().unique().sort()]
    facts: dict[str, object] = {
        "runs": ", ".join(f"{thousands(count)} {status}" for status, count in statuses),
        "steps": f"{thousands(int(table['timesteps'].sum()))}, {thousands(int(table['updates'].sum()))} updates",
        "devices": listed(devices) if devices else None,
        "settings written by": _versions(_json(store.path / SETTINGS_FILE).get("versions")),
    }
    parts = [facts_html({name: value for name, value in facts.items() if value})]
    try:
        held = sessions(store.path)
    except RunError as error:  # the page does not need them
        held = []
        parts.append(f"<p>{escape(str(error))}</p>")
    if held:
        parts += ["<h3>Sessions</h3>", table_html(pl.DataFrame([_session(each) for each in held]))]
    if manifest := _json(store.path / MANIFEST):
        about = manifest.pop("what", None)
        parts += ["<h3>Notes kept with the runs</h3>", *([f"<p>{escape(str(about))}</p>"] if about else [])]
        parts.append(details_html(MANIFEST, facts_html(manifest)))
    return Section("Hardware, versions and times", "training", "\n".join(parts))


def _session(held: Mapping[str, Any]) -> dict[str, str]:
    seconds, steps = float(held.get("seconds") or 0), int(held.get("steps") or 0)
    return {
        "started": _moment(str(held.get("started", ""))),
        "time": duration(seconds),
        "steps": thousands(steps),
        "steps per second": thousands(steps / seconds) if seconds else "",
        "devices": ", ".join(f"{count} × {_device(kind)}" for kind, count in (held.get("devices") or {}).items()),
        "machine": str(held.get("machine") or ""),
        "versions": _versions(held.get("versions")),
        "commit": str(held.get("commit") or "")[:10],
    }


def _moment(text: str) -> str:
    """A time in UTC, for people to read."""
    try:
        moment = datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    except ValueError:
        return text
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _device(kind: str) -> str:
    return kind.upper() if kind == "cpu" else kind


def _versions(versions: Any) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items()) if isinstance(versions, dict) else ""


def _json(path: Any) -> dict[str, Any]:
    """The contents of a JSON file; nothing if it is not there."""
    try:
        data = read_json(path) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: damaged: {error}") from error
    return data if isinstance(data, dict) else {}


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in order, with neighbours together: `0–4, 7`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)
