"""`asymrl reproduce`: the paper's figures and its grid search, trained or drawn from results that are there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from asymrl.cli.running import Flag, Running, train_to_the_end
from asymrl.cli.usage import UsageError
from asymrl.learning.methods import METHODS
from asymrl.paper.tuned import PAPER_WORLDS

if TYPE_CHECKING:
    import polars as pl

    from asymrl.engine.runs import Run
    from asymrl.engine.store import Store
    from asymrl.paper.fork import ForkProbe

Part = Literal["curves", "critics", "grid"]

# What fits into a quarter of an hour on two cores: the three critics in the world where they differ most.
QUICK = {
    "curves": {"env": ("heaven-hell-3",), "methods": METHODS[:3], "seeds": 2, "steps": 800_000},
    "critics": {"env": ("heaven-hell-4",), "methods": METHODS[:3], "seeds": 2, "steps": 800_000},
    "grid": {"env": ("heaven-hell-3",), "methods": ("a2c-asym-hs",), "seeds": 1, "steps": 50_000},
}


@dataclass(frozen=True)
class Reproduce(Running):
    """Reproduce the paper: curves (figure 3), critics (figure 4), or grid (its search for settings).

    Runs that are in the folder already are not trained again, so a reproduction can be done in pieces.
    """

    part: Annotated[tyro.conf.Positional[Part], tyro.conf.arg(metavar="{curves,critics,grid}")] = "curves"
    """What to reproduce."""
    env: tuple[str, ...] | None = None
    """Worlds of the paper. None: all; for critics, heaven-hell-4."""
    methods: tuple[str, ...] | None = None
    """Methods. None: all five; for critics, the three that differ in it; for grid, a2c-asym-hs."""
    seeds: int | None = None
    """How many seeds. None: 20, as in the paper."""
    steps: int | None = None
    """Steps of each run. None: 10 million for the curves and critics of Heaven-Hell, 2 million otherwise."""
    quick: Flag = False
    """A version for a quarter of an hour on a laptop: one world, two seeds, 800 000 steps; a short grid."""
    out: Path | None = None
    """Folder of the runs and figures. None: runs in results/curves, for critics too, or in results/grid, those of
    --quick in results/quick; figures in figures."""
    from_results: Path | None = None
    """Train nothing; draw from the tables in this folder."""
    until: int | None = None
    """Draw the curves as they were after so many steps, to compare runs that were not trained for equally long."""
    no_draw: Flag = False
    """Only train: no figures. For machines without the packages for them."""
    keep_networks: bool = False
    """Whether the networks of finished runs are kept, to evaluate or extend them: some MB each."""

    def run(self) -> int:
        wanted = self._complete()
        figures = wanted.out or Path("figures")
        if wanted.from_results is not None:
            return wanted.draw(wanted.from_results, figures)
        out = wanted.out or Path("results") / ("quick" if self.quick else "grid" if self.part == "grid" else "curves")
        from asymrl.engine.files import StorageError
        from asymrl.engine.store import Store

        runs, probes, options = wanted.runs(), wanted._probes(), wanted.options()
        described = {world: probe.to_json() for world, probe in probes.items()}
        try:
            store = Store.take_or_create(out, runs, keeps_networks=self.keep_networks, probes=described)
        except (ValueError, StorageError) as error:
            raise UsageError(str(error)) from error
        chosen = {run.key for run in runs}
        only = [number for number, run in enumerate(store.runs) if run.key in chosen]

        def report(store: Store) -> None:
            if not self.no_draw:
                wanted.draw(store.path, figures)

        return train_to_the_end(store, options, self.trackers(), probes=probes, only=only, report=report)

    def _complete(self) -> Reproduce:
        """With what was not given filled in."""
        values = dict(QUICK[self.part]) if self.quick else _WHOLE[self.part]
        given = {name: getattr(self, name) for name in values if getattr(self, name) is not None}
        whole = replace(self, **{**values, **given})
        for world in whole.env or ():
            if world not in PAPER_WORLDS:
                raise UsageError(f"--env {world}: the paper has {', '.join(PAPER_WORLDS)}")
        for method in whole.methods or ():
            if method not in METHODS:
                raise UsageError(f"--methods {method}: the paper has {', '.join(METHODS)}")
        if (whole.seeds or 0) < 1:
            raise UsageError("no seeds: train at least one run")
        if self.until is not None and self.part != "curves":
            raise UsageError(f"--until: for curves only, not for {self.part}")
        if self.part == "critics" and whole.env != ("heaven-hell-4",):
            raise UsageError("--env: the critics' values are those of four histories of heaven-hell-4")
        return whole

    def runs(self) -> list[Run]:
        """The runs of this part of the paper."""
        from asymrl.paper.evaluation import curve_runs, grid_runs

        make = grid_runs if self.part == "grid" else curve_runs
        try:
            return make(self.env or (), self.methods or (), range(self.seeds or 0), self.steps)
        except ValueError as error:
            raise UsageError(str(error)) from error

    def _probes(self) -> dict[str, ForkProbe]:
        from asymrl.paper.evaluation import probes

        return {} if self.part == "grid" else probes(self.steps)

    def draw(self, source: Path, out: Path) -> int:
        """Figures and numbers from the tables in a folder."""
        from asymrl.engine.files import RunError

        parts = {"curves": self._draw_curves, "critics": self._draw_critics, "grid": self._draw_grid}
        try:
            out.mkdir(parents=True, exist_ok=True)
            parts[self.part](source, out)
        except RunError as error:
            raise UsageError(str(error)) from error
        except BrokenPipeError:  # whoever reads what is printed has gone
            raise
        except OSError as error:
            raise UsageError(f"{error.filename or out}: cannot be written: {error.strerror}") from error
        return 0

    def _rows(self, source: Path, name: str = "metrics") -> pl.DataFrame:
        from asymrl.paper.results import chosen, read_results

        return chosen(read_results(source, name), self.env or (), self.methods or (), self.seeds, self.steps)

    def _draw_curves(self, source: Path, out: Path) -> None:
        from asymrl.engine.wording import thousands
        from asymrl.paper import figures
        from asymrl.paper.results import comparison, up_to, with_tuned_settings

        table = with_tuned_settings(self._rows(source))
        if self.until is not None:
            table, short = up_to(table, self.until)
            for (world, method), steps in short.items():
                print(f"left out: {world} {method}, trained for {thousands(steps)} steps only")
        numbers = comparison(table)
        _print_table(numbers)
        print(_write_csv(numbers, out / "curves.csv"))
        print(figures.save(figures.learning_curves(table), out / "curves"))
        together = figures.aggregates(table)
        if together is not None:
            print(figures.save(together, out / "aggregates"))

    def _draw_critics(self, source: Path, out: Path) -> None:
        from asymrl.paper import figures
        from asymrl.paper.critics import final_values
        from asymrl.paper.results import with_tuned_settings

        probes = with_tuned_settings(self._rows(source, "probes"))
        numbers = final_values(probes)
        _print_table(numbers)
        print(_write_csv(numbers, out / "critics.csv"))
        print(figures.save(figures.critic_values(probes), out / "critics"))

    def _draw_grid(self, source: Path, out: Path) -> None:
        from asymrl.paper import figures
        from asymrl.paper.selection import leaders, ranking, searched

        table, missing = searched(self._rows(source))
        for said in missing:
            print(said)
        numbers = ranking(table)
        _print_table(leaders(numbers))
        print(_write_csv(numbers, out / "grid.csv"))
        print(figures.save(figures.grid_overview(numbers), out / "grid"))


_WHOLE = {
    "curves": {"env": PAPER_WORLDS, "methods": METHODS, "seeds": 20},
    "critics": {"env": ("heaven-hell-4",), "methods": METHODS[:3], "seeds": 20},
    "grid": {"env": PAPER_WORLDS, "methods": ("a2c-asym-hs",), "seeds": 20},
}


def _print_table(table: pl.DataFrame) -> None:
    """A table on the terminal; a number stands together with its bounds, `NAME_low` and `NAME_high`."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    own = [name for name in table.columns if not name.endswith(("_low", "_high"))]
    for name in own:
        shown.add_column(name.replace("_", " "), justify="left" if name in ("world", "method", "pair") else "right")
    for row in table.to_dicts():
        shown.add_row(*(_shown(row, name) for name in own))
    Console(width=200, highlight=False).print(shown)


def _shown(row: dict[str, object], name: str) -> str:
    value, low, high = (row.get(key) for key in (name, f"{name}_low", f"{name}_high"))
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if name.endswith(("_rate", "_weight")):
        return f"{value:g}"
    text = f"{value:.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"
    return text if low is None else f"{text} [{low:.3f}, {high:.3f}]"


def _write_csv(table: pl.DataFrame, path: Path) -> Path:
    table.write_csv(path, float_precision=6)
    return path
