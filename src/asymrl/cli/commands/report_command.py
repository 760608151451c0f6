"""`asymrl report`: the runs of a folder as one HTML page; also what `--report` of the commands that train writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from asymrl.cli.output import busy
from asymrl.cli.usage import AgentFolder, Flag, Trust, UsageError, check_folder, open_store, user_errors

if TYPE_CHECKING:
    from asymrl.report.html import Section
    from asymrl.runs.store import Store

ENDINGS = (".html", ".htm")


@dataclass(frozen=True)
class WriteReport:
    """Write an HTML page about the runs in a folder: learning curves, episodes to step through, tables, settings.

    It is one HTML file that needs no network: open it in a browser, send it to a colleague, print it.
    """

    folder: AgentFolder

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = Path("report.html")
    """The file to write."""

    episodes: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: about 8)")] = None
    """How many episodes of the trained agents to step through, where networks were kept; 0 for none."""

    starts: Annotated[tuple[int, ...], tyro.conf.arg(metavar="SEED ...", help_behavior_hint="(default: chosen)")] = ()
    """Seeds of these episodes. By default the best and the worst of 16 starts, then others in order."""

    greedy: Flag = False
    """Take the most likely actions in these episodes instead of sampling. In finite worlds their exact values are then
    available more often."""

    trust: Trust = False

    def run(self) -> int:
        check_page(self.output)
        if any(seed < 0 for seed in self.starts):
            raise UsageError(f"--starts {min(self.starts)}: a seed is 0 or more")
        if self.episodes is not None and self.episodes < 0:
            raise UsageError(f"--episodes {self.episodes}: give 0 or more")
        store = open_store(self.folder, trust=self.trust)
        more = claims_sections(store)
        save_page(store, self.output, more, episodes=self.episodes, starts=self.starts, greedy=self.greedy)
        return 0


def claims_sections(store: Store) -> list[Section]:
    """What the paper claims about the worlds and methods of a store, and whether its runs show it.

    Nothing for runs of other worlds or methods, and of a single method, which nothing can be compared with.
    """
    from asymrl.report.html import findings_section
    from asymrl.report.paper.reproduced import claims_reproduction
    from asymrl.runs.files import RunError
    from asymrl.settings.hyperparameters import PAPER_WORLDS
    from asymrl.settings.methods import PAPER_METHODS

    methods: dict[str, set[str]] = {}
    for run in store.runs:
        methods.setdefault(run.settings.world, set()).add(run.settings.method)
    worlds = [world for world in PAPER_WORLDS if len(methods.get(world, set()) & set(PAPER_METHODS)) > 1]
    if not worlds:
        return []
    try:
        findings = claims_reproduction(store.path, worlds)
    except (RunError, ValueError):  # settings that are not the paper's, or curves without points
        return []
    return [findings_section(findings, "The paper's claims")] if findings.leaders.height else []


def check_page(path: Path) -> None:
    """Refuses, before any work is done, a file that cannot be written or is no page."""
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"{path}: unknown file ending {path.suffix!r}; a report is a page, so use {ENDINGS[0]}")
    if path.is_dir():
        raise UsageError(f"{path}: cannot be written: it is a folder")
    check_folder(path.parent, path)


def save_page(
    source: Store | Path,
    path: Path,
    more: Sequence[Section] = (),
    *,
    episodes: int | None = None,
    starts: Sequence[int] = (),
    greedy: bool = False,
) -> None:
    """Writes the page about the runs in a store or its folder, with more sections, and says so."""
    from asymrl.report.html import save_report
    from asymrl.runs.store import Store
    from asymrl.runs.wording import plural, size_text

    folder = source if isinstance(source, Path) else source.path
    with user_errors(folder), busy("writing the page about the runs") as tell:
        store = Store.open(source) if isinstance(source, Path) else source
        path.parent.mkdir(parents=True, exist_ok=True)
        options = {} if episodes is None else {"episodes": episodes}
        how = {"starts": starts or None, "greedy": greedy, "tell": tell}
        save_report(store, path, more, **options, **how)
    print(f"report          {path} ({plural('run', len(store))}, {size_text(path.stat().st_size)})")
