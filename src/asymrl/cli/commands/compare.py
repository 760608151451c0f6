"""`asymrl compare`: which critic should be used in this problem?"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from asymrl.cli.commands.sweep import single_values
from asymrl.cli.output import busy
from asymrl.cli.running import SEEDS, Training
from asymrl.cli.usage import EnvArgs, Flag, UsageError, WorldName, full_world, user_errors
from asymrl.runs.wording import wrapped

if TYPE_CHECKING:
    from asymrl.report.comparison import MethodRow
    from asymrl.runs.store import Store

WIDTH = 100


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Train methods side by side in a world, and say which critic to use there.

    The same command continues an interrupted comparison; with more --steps, finished runs are extended.

      asymrl compare tiger --steps 200k
      asymrl compare problem.pomdp --methods a2c a2c-asym-hs --seeds 8 --set memory_size=64
    """

    world: WorldName
    env_args: EnvArgs = None
    methods: tuple[str, ...] = ()
    """Methods to compare. By default a2c, a2c-asym-s, a2c-asym-hs, a2c-react-2 and a2c-react-4, or their equivalents
    for the preset's learner."""
    preset: str | None = None
    """Settings that work for a kind of problem, such as ppo-small; asymrl presets lists them."""
    seeds: int = SEEDS
    """Runs of each method; at least 2, since intervals need two."""
    steps: int = 200_000
    """Steps of each run."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Other settings of all runs, such as memory_size=64 actor_rate=0.001; arguments of the environment as env.NAME."""
    out: Path | None = None
    """Folder of the comparison. None: runs/compare-WORLD."""
    details: Flag = False
    """Also print whether giving the critic the state helps, and what exact analysis says about the critics."""
    training: Training = field(default_factory=Training)

    def run(self) -> int:
        from asymrl.api.run_folders import compare_folder, comparison_store

        placement = self.training.checked()
        world, overrides = self._wanted()
        with user_errors():
            store = comparison_store(self.out or compare_folder(world), self._runs(world, overrides), placement)
        return self.training.train(store, report=lambda store: self._report(store, world))

    def _wanted(self) -> tuple[str, dict[str, Any]]:
        """The whole name of the world, and the settings of all runs."""
        from asymrl.api.wanted import world_with_arguments

        if self.seeds < 2:
            raise UsageError(f"--seeds {self.seeds}: at least 2 are needed, as one run says nothing about others")
        values = single_values(self.set, "`asymrl sweep` tries several", ("world", "steps", "preset", "seeds"))
        if "method" in values or "methods" in values:
            raise UsageError("--set method: use --methods instead")
        overrides = {"preset": self.preset, **values, "steps": self.steps}
        with user_errors():
            return world_with_arguments(full_world(self.world, self.env_args), overrides)

    def _runs(self, world: str, overrides: dict[str, Any]) -> list[Any]:
        from asymrl.api.wanted import compared_methods, comparison_runs

        methods = self.methods or compared_methods(overrides)
        runs, exclusions = comparison_runs(world, methods, range(self.seeds), overrides)
        for method, reason in exclusions.items():
            print(f"{method} is left out: its critic needs a latent state. {reason}")
        return runs

    def _report(self, store: Store, world: str) -> None:
        from asymrl.api import Runs
        from asymrl.api.training import compared
        from asymrl.report.comparison import table
        from asymrl.report.html import advice_section
        from asymrl.report.reading_table import reading_lines
        from asymrl.runs.wording import thousands

        said = "comparing the runs, and the critics by an exact analysis where that is quick"
        with user_errors(), busy(said):
            answer = compared(world, Runs.of(store))
        picture, numbers = answer.runs.plot(), store.path / "comparison.json"
        rows = [_plain(row) for row in answer.rows]
        data: dict[str, Any] = {"world": world, "use": answer.method, "verdict": answer.verdict}
        data |= {"reason": answer.reason, "advice": answer.advice, "methods": rows}
        data["readings"] = [reading.to_json() for reading in answer.readings]
        numbers.write_text(json.dumps(data, indent=1) + "\n")
        print(f"\n{world}: {self.seeds} runs of each method, {thousands(self.steps)} steps each; 95 % intervals")
        print(f"\n{table(answer.rows)}\n\n{answer.verdict}\n{answer.reason}\n")
        if self.details:
            rest = answer.advice.removeprefix(f"{answer.verdict} {answer.reason} ")
            print(*wrapped(rest, WIDTH, break_on_hyphens=False), "", sep="\n")
            if answer.readings:
                print(*reading_lines(answer.readings), "", sep="\n")
        else:
            print("The same command with --details says whether the state helps, and why.\n")
        print(f"learning curves {picture}\nnumbers         {numbers}")

        section = advice_section(world, answer.method, answer.advice, answer.rows)
        self.training.write_page(store, lambda: [section])
        where = f"--where method={answer.method}"
        print(f"\nnext:\nasymrl evaluate {store.path} {where}\nasymrl export {store.path} {where} -o policy.npz")


def _plain(row: MethodRow) -> dict[str, Any]:
    """A row of the table for JSON."""
    values = row._asdict()
    return {name: part._asdict() if hasattr(part, "_asdict") else part for name, part in values.items()}
