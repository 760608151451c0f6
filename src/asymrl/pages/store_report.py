"""The report of a store: the sections that every store has, and those that only some have."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from asymrl.pages.curve_data import curve_data
from asymrl.pages.page import LIBRARY, Section, page_of
from asymrl.pages.player_data import EPISODES, ignore, player_section
from asymrl.pages.return_tables import returns_section
from asymrl.pages.run_facts import settings_section, subtitle, training_section
from asymrl.pages.run_groups import groups_of
from asymrl.report.markup import escape
from asymrl.stores.files import RunError, write_whole
from asymrl.stores.result_files import RUNS_FILE, read_table
from asymrl.stores.store import Store

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
        more: sections for after the learning curves.
        episodes: about so many to step through, where networks were kept; 0 for none. They are played now, which takes
            some seconds for each agent.
        starts: seeds of these episodes, instead of a choice of good, bad and other ones.
        greedy: take the most likely actions in them, instead of sampled ones.
        tell: is called with what is computed next.

    Raises:
        RunError: if the runs have not begun.
    """
    with contextlib.suppress(RunError):  # then there are no episodes, and the page says why
        store.make_ready()
    sections = report_sections(store, [*more, *_player(store, episodes, starts, greedy, tell)])
    return page_of(store.path.resolve().name, sections, report_subtitle(store))


def _player(
    store: Store, episodes: int, starts: Sequence[int] | None, greedy: bool, tell: Callable[[str], None]
) -> list[Section]:
    """The player, or why there is none; nothing for runs whose networks were not to be kept."""
    if not store.keeps_networks or episodes < 1:
        return []
    try:
        return [player_section(store, episodes=episodes, seeds=starts, greedy=greedy, tell=tell)]
    except ValueError as error:  # no checkpoint yet, or a world that cannot be made here
        return [Section("Episodes", "player", f'<p class="note">No episodes: {escape(error)}</p>')]


def report_sections(store: Store, more: Sequence[Section] = ()) -> list[Section]:
    """The sections of the report; see `report_page`."""
    table = read_table(store.path, RUNS_FILE)
    groups = groups_of(table)
    return [
        curves_section(store),
        *more,
        returns_section(groups),
        settings_section(store, groups, table),
        training_section(store, table),
    ]


def report_subtitle(store: Store) -> str:
    """The runs of a store in a line."""
    return subtitle(read_table(store.path, RUNS_FILE))


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


def curves_section(store: Store) -> Section:
    """Learning curves to look into."""
    return Section(
        "Learning curves", "curves", CONTROLS, curve_data(store), "startCurves", (*LIBRARY, "curves.css", "curves.js")
    )
