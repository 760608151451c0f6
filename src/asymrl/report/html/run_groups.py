"""The runs of a store in groups that differ only in the seed, with the names and colours of the groups on the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from asymrl.report.curves import line_colours, method_colours
from asymrl.report.run_kinds import kind_label, kinds_in
from asymrl.runs.store import Store

SEARCH_SEED = 1000  # runs with seeds from here on, beside others, are a search for settings; see the studies


def search_numbers(store: Store) -> frozenset[int]:
    """The numbers of the runs of a store that were a search for settings, to be reported apart from the others.

    None of them if no other run has begun: then there is nothing else to report.
    """
    numbers = frozenset(number for number, run in enumerate(store.runs) if run.seed >= SEARCH_SEED)
    return numbers if numbers and store.results().keys() - numbers else frozenset()


class RunGroup(NamedTuple):
    """Runs of one world that differ in their seed only."""

    world: str
    label: str
    """The method, and the settings that differ between runs of one method in this world."""
    runs: pl.DataFrame
    """Their rows in `runs.parquet`."""

    @property
    def method(self) -> str:
        return self.runs["method"][0]

    @property
    def sound(self) -> pl.DataFrame:
        """The runs that did not fail and have a final return."""
        return self.runs.filter(pl.col("status") != "failed", pl.col("final_return").is_not_null())


def groups_of(table: pl.DataFrame) -> dict[str, list[RunGroup]]:
    """The groups of runs in each world, from the table of runs."""
    groups: dict[str, list[RunGroup]] = {}
    for runs in table.partition_by("world", maintain_order=True):
        world, kinds = runs["world"][0], kinds_in(runs)
        groups[world] = [
            RunGroup(world, kind_label(rows, kinds), rows)
            for rows in runs.partition_by("method", *kinds, maintain_order=True)
        ]
    return groups


def group_colours(groups: Sequence[RunGroup]) -> dict[str, str]:
    """A colour for each label: that of its method in all figures, if each method has one label."""
    methods = {group.label: group.method for group in groups}
    if len(set(methods.values())) == len(methods):
        colours = method_colours(list(methods.values()))
        return {label: colours[method] for label, method in methods.items()}
    return line_colours(list(methods))
