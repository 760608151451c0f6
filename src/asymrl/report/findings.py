"""Findings: tables and figures that are printed and written together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import polars as pl
from matplotlib.figure import Figure

from asymrl.report.curves import DPI
from asymrl.report.markup import details_html, escape, picture_html, table_html


class Findings(NamedTuple):
    """The tables and figures of a part of the paper or of a study."""

    name: str
    numbers: pl.DataFrame
    leaders: pl.DataFrame
    """The most important rows of the numbers."""
    figures: Mapping[str, Figure]
    """By the name of their files, without an ending."""
    notes: list[str]
    """What a reader should know before the table."""
    reading: str | None = None
    """How to read the table, to be printed under it."""
    tables: Mapping[str, pl.DataFrame] = MappingProxyType({})
    """Further tables, by the name of their files, without an ending."""
    shown: tuple[str, ...] = ()
    """The names of the further tables that are printed, too."""
    folded: tuple[str, ...] = ()
    """Those of them that pages fold away, because they are wide."""

    def _repr_html_(self) -> str:
        """Notes, the most important tables and the figures, for notebooks and reports; all numbers are folded away."""
        parts = [f"<p>{escape(note)}</p>" for note in self.notes]
        open_tables = [name for name in self.shown if name not in self.folded]
        parts += [table_html(self.leaders), *(table_html(self.tables[name], caption=name) for name in open_tables)]
        parts += [details_html(name.capitalize(), table_html(self.tables[name])) for name in self.folded]
        parts += [f"<p>{escape(self.reading)}</p>"] if self.reading else []
        parts += [picture_html(figure, name) for name, figure in self.figures.items()]
        if len(self.numbers) > len(self.leaders):
            parts.append(details_html("All numbers", table_html(self.numbers)))
        return "\n".join(parts)

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Writes the numbers as `NAME.csv`, and each figure as .png and .svg. Returns the files to look at."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for name, table in {self.name: self.numbers, **self.tables}.items():
            written.append(folder / f"{name}.csv")
            table.write_csv(written[-1], float_precision=6)
        return [*written, *(save_figure(figure, folder / name) for name, figure in self.figures.items())]


def save_figure(figure: Figure, path: Path) -> Path:
    """Writes a figure as PNG and, beside it, as SVG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".png"), dpi=DPI)
    figure.savefig(path.with_suffix(".svg"))
    return path.with_suffix(".png")
