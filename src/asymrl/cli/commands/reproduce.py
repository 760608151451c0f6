"""`asymrl reproduce`: the paper's figures and its grid search, trained or drawn from results that are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from asymrl.cli.output import busy
from asymrl.cli.running import NetworkOptions, Training
from asymrl.cli.usage import Flag, UsageError, check_folder, user_errors
from asymrl.report.paper.parts import Extent, Part, extent
from asymrl.runs.wording import plural, thousands

if TYPE_CHECKING:
    from asymrl.runs.store import Store

HOUR, DAY = 3600.0, 86_400.0
CORE_RATE, GPU_RATE = 2_500.0, 500_000.0  # steps per second, of a laptop's core and of one large GPU; see benchmarks
ROOMS_FACTOR = 4.0  # a step of the memory rooms takes so many times as long, because of their convolutions


def speed_here() -> tuple[str, float]:
    """What trains here, in words, and a rough number of steps per second."""
    import jax

    from asymrl.runs.devices import cores

    if jax.default_backend() != "cpu":
        devices = len(jax.local_devices())
        return plural("accelerator", devices), devices * GPU_RATE
    return plural("core", cores()), cores() * CORE_RATE


def rough_time(seconds: float) -> str:
    """`20 minutes`, `5 hours` or `14 days`."""
    for unit, length in (("day", DAY), ("hour", HOUR)):
        if seconds >= 2 * length:
            return plural(unit, round(seconds / length))
    return plural("minute", max(1, round(seconds / 60)))


@dataclass(frozen=True, kw_only=True)
class Reproduce(NetworkOptions):
    """Reproduce the paper: curves (figure 3), critics (figure 4), grid (its search for settings), or claims.

    `claims` trains nothing: it tests the paper's claims against the runs of curves and critics, and of a grid in a
    neighbouring folder.

    Runs that are already in the folder are not trained again, so a reproduction can be done in pieces; runs that are
    shorter than requested are extended.

      asymrl reproduce curves --quick
      asymrl reproduce curves --env heaven-hell-3 --seeds 5 --steps 4M
      asymrl reproduce claims --from-results results/curves
    """

    part: Annotated[
        tyro.conf.Positional[Part | Literal["claims"]], tyro.conf.arg(metavar="{curves,critics,grid,claims}")
    ] = "curves"
    """What to reproduce."""
    env: tuple[str, ...] | None = None
    """Worlds of the paper. None: all; for critics, heaven-hell-4."""
    methods: tuple[str, ...] | None = None
    """Methods. None: all five; for critics, a2c, a2c-asym-s and a2c-asym-hs; for grid, a2c-asym-hs."""
    seeds: int | None = None
    """How many seeds. None: 20, as in the paper."""
    steps: Annotated[int | Literal["authors"] | None, tyro.conf.arg(metavar="INT|authors")] = None
    """Steps of each run, or as in the authors' scripts: 10 million in Heaven-Hell, 2 million elsewhere.
    None: for curves and critics 10 million, but 2 million in Shopping and 6 million in memory-four-rooms-9x9; for grid
    2 million."""
    precision: Literal["float32", "tf32"] | None = None
    """Precision of matrix products on a GPU; tf32 is faster and less exact. None: that of runs which are in the folder
    already, also for new ones of the same world; float32 elsewhere."""
    keep_networks: Flag = False
    """Keep the networks of finished runs, to evaluate or extend them: a few MB each. By default they are kept for
    curves and critics, and for a grid of at most 300 runs."""
    quick: Flag = False
    """A version for a quarter of an hour on a laptop: one world, two seeds, 800 000 steps; a short grid."""
    out: Path | None = None
    """Folder of the runs and figures. None: runs in runs/reproduce-curves (also for critics) or runs/reproduce-grid,
    with --quick in runs/reproduce-quick-...; figures in figures."""
    from_results: Path | None = None
    """Train nothing; draw from the tables in this folder."""
    until: int | None = None
    """Draw the curves only up to this many steps, to compare runs of different lengths."""
    no_draw: Flag = False
    """Only train: no figures. For machines without the plotting packages."""
    training: Training = field(default_factory=Training)

    def run(self) -> int:
        scope = self.extent()
        self.training.checked()
        if (part := self.part) == "claims":
            self._judge(scope)
            return 0
        if self.until is not None and part != "curves":
            raise UsageError(f"--until: for curves only, not for {part}")
        if self.from_results is not None:
            self._draw(part, self.from_results, scope)
            return 0
        from asymrl.api.run_folders import reproduction_folder, reproduction_store

        out = self.out or reproduction_folder(part, quick=self.quick)
        with user_errors():
            store, only = reproduction_store(
                part, scope, out, keep_networks=self.networks_wanted(), precision=self.precision
            )

        def report(store: Store) -> None:
            if not self.no_draw:
                self._draw(part, store, scope)
            else:
                self.training.write_page(store)

        self._say_how_much(store, only)
        return self.training.train(store, only=only, report=report)

    def _say_how_much(self, store: Store, only: Sequence[int]) -> None:
        """How many runs and steps are left, roughly how long they take here, and that there is a quick version."""
        remaining = sorted(set(store.unfinished()) & set(only))
        if not remaining:
            return
        from asymrl.report.paper.evidence import is_rooms

        settings = [store.runs[number].settings for number in remaining]
        on, rate = speed_here()
        seconds = sum(each.steps * (ROOMS_FACTOR if is_rooms(each.world) else 1.0) for each in settings) / rate
        about = f"{plural('run', len(remaining))}, up to {thousands(sum(each.steps for each in settings))} steps in all"
        print(f"{self.part}: {about}; very roughly {rough_time(seconds)} on {on}", flush=True)
        if not self.quick and seconds > HOUR:
            print(
                f"for a first look: asymrl reproduce {self.part} --quick, a quarter of an hour on a laptop", flush=True
            )

    def extent(self) -> Extent:
        """How much of the part is wanted; claims are about that of curves."""
        part = "curves" if self.part == "claims" else self.part
        with user_errors():
            return extent(part, self.env, self.methods, self.seeds, self.steps, quick=self.quick)

    def _judge(self, scope: Extent) -> None:
        """Prints what the paper claims and what came out."""
        from asymrl.api.run_folders import reproduction_folder
        from asymrl.report.paper.reproduced import claims_reproduction

        if self.methods is not None or self.until is not None:
            raise UsageError("claims compare all methods at the end of training; --steps looks at an earlier one")
        source = self.from_results or reproduction_folder("curves", quick=self.quick)
        out = check_folder(self.out or Path("figures"))
        with user_errors(source), busy("drawing tables and figures from the runs"):
            findings = claims_reproduction(source, self.env, scope.seeds, scope.steps)
        self.training.show_findings(findings, out, source)

    def _draw(self, part: Part, source: Store | Path, scope: Extent) -> None:
        """Prints the numbers, and writes them and the figures."""
        from asymrl.report.paper.reproduced import reproduction

        out = check_folder(self.out or Path("figures"))
        folder = source if isinstance(source, Path) else source.path
        with user_errors(folder), busy("drawing tables and figures from the runs"):
            findings = reproduction(part, folder, scope, until=self.until)
        self.training.show_findings(findings, out, source)
