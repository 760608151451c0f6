"""Kinds of runs, which are runs of one world that differ only in their seed, and the names of kinds."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from asymrl.settings import Settings
from asymrl.settings.methods import method as method_named


def kinds_in(table: pl.DataFrame) -> list[str]:
    """The settings in which runs of one method differ, in a table of runs or of their metrics, of one world."""
    end = table.columns.index("timestep" if "timestep" in table.columns else "status")
    settings = [name for name in table.columns[:end] if name not in ("run", "world", "method", "seed")]
    counts = table.group_by("method").agg(pl.col(settings).n_unique()).select(pl.col(settings).max())
    return [name for name in settings if counts[name][0] > 1]


def kind_label(rows: pl.DataFrame, kinds: Sequence[str]) -> str:
    """What distinguishes the runs of one kind from others: their method, and the settings `kinds`.

    What the critic sees is left out where it is the default and has no effect: "a2c, critic_sees state" would say that
    V(h) reads the state.
    """
    label = rows["method"][0]
    own = {name: rows[name][0] for name in kinds}
    if own.get("critic_sees") == Settings.critic_sees and not reads_state(label):
        del own["critic_sees"]
    return ", ".join([label, *(f"{name} {value}" for name, value in own.items())])


def reads_state(method: str) -> bool:
    """Whether a method's critic reads the state, or what `critic_sees` puts in its place; true of an unknown method."""
    try:
        return "s" in method_named(method).reads
    except ValueError:
        return True
