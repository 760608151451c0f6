"""The report of a store: the sections that every store has, and those that only some have."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import polars as pl

from asymrl.report.html.curve_data import curve_data
from asymrl.report.html.page import LIBRARY, Section, page_of
from asymrl.report.html.player_data import EPISODES, ignore, player_section
from asymrl.report.html.return_tables import returns_section, search_section
from asymrl.report.html.run_facts import settings_section, subtitle, training_section
from asymrl.report.html.run_groups import groups_of, search_numbers
from asymrl.report.markup import escape
from asymrl.runs.files import RunError, write_whole
from asymrl.runs.store import Store
from asymrl.runs.tables import RUNS_FILE, read_table
from asymrl.runs.wording import plural

CONTROLS = """<p class="hint">Move over a chart for values; drag to zoom, double-click to go back.</p>
<div class="controls"></div>
<div class="charts"></div>
<noscript><p>The charts need JavaScript; the tables below do not.</p></noscript>"""


def report_page(
    store: Store,
    more: Sequence[Section] = (),
    *,
    episodes: int = EPISODES,
    starts: Sequence[int] | None = None,
    greedy: bool = False,
    tell: Callable[[str], None] = ignore,
) -> str:
    """The report of the runs in a store as one HTML file.

    Args:
        store: to read.
        more: sections to put after the learning curves.
        episodes: about how many to step through, where networks were kept; 0 for none. They are played now, which
            takes some seconds for each agent.
        starts: seeds of these episodes, instead of a choice of good, bad and other ones.
        greedy: take the most likely actions in them, instead of sampled ones.
        tell: called with what is computed next.

    Raises:
        RunError: if the runs have not begun.
    """
    with contextlib.suppress(RunError):  # then there are no episodes, and the page says why
        store.make_ready()
    sections = report_sections(store, [*more, *_player(store, episodes, starts, greedy, tell)])
    return page_of(store.path.resolve().name, sections, report_subtitle(store))


def _player(
    store: Store,
    episodes: int,
    starts: Sequence[int] | None,
    greedy: bool,
    tell: Callable[[str], None],
) -> list[Section]:
    """The player, or why there is none; nothing for runs that do not keep their networks."""
    if not store.keeps_networks or episodes < 1:
        return []
    try:
        return [
            player_section(
                store, search=search_numbers(store), episodes=episodes, seeds=starts, greedy=greedy, tell=tell
            )
        ]
    except ValueError as error:  # no checkpoint yet, or a world that cannot be made here
        return [Section("Episodes", "player", f'<p class="note">No episodes: {escape(error)}</p>')]


def report_sections(store: Store, more: Sequence[Section] = ()) -> list[Section]:
    """The sections of the report; see `report_page`. Runs of a search for settings have a section of their own."""
    table, search = read_table(store.path, RUNS_FILE), search_numbers(store)
    own, searched = _parts(table, search)
    groups = groups_of(own)
    return [
        curves_section(store, search),
        *more,
        returns_section(groups),
        *([search_section(groups_of(searched))] if len(searched) else []),
        settings_section(store, groups, own),
        training_section(store, table),
    ]


def report_subtitle(store: Store) -> str:
    """The runs of a store in a line."""
    own, searched = _parts(read_table(store.path, RUNS_FILE), search_numbers(store))
    return " · ".join([subtitle(own), *([f"{plural('search run', len(searched))} apart"] if len(searched) else [])])


def _parts(table: pl.DataFrame, search: Collection[int]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of the runs outside the search, and those of the search."""
    is_search = pl.col("run").is_in(list(search))
    return table.filter(~is_search), table.filter(is_search)


def save_report(
    store: Store,
    path: str | os.PathLike[str],
    more: Sequence[Section] = (),
    *,
    episodes: int = EPISODES,
    starts: Sequence[int] | None = None,
    greedy: bool = False,
    tell: Callable[[str], None] = ignore,
) -> Path:
    """Writes the report into a file; see `report_page`. Raises StorageError if that is not possible."""
    path = Path(path)
    page = report_page(store, more, episodes=episodes, starts=starts, greedy=greedy, tell=tell)
    write_whole(path, page.encode())
    return path


def curves_section(store: Store, search: Collection[int] = ()) -> Section:
    """Interactive learning curves, without those of a search."""
    data = curve_data(store, search)
    return Section("Learning curves", "curves", CONTROLS, data, "startCurves", (*LIBRARY, "curves.css", "curves.js"))
