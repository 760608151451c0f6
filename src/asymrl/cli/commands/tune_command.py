"""`asymrl tune`: a search over settings, ending in a file and the command that uses it."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from asymrl.api.searching import SEEDS, STEPS, TOGETHER, TRIALS
from asymrl.cli.commands.sweep import single_values
from asymrl.cli.commands.train import read_config
from asymrl.cli.output import print_json, print_table
from asymrl.cli.running import OUT_OF_TIME, Training, print_failures
from asymrl.cli.usage import EnvArgs, JsonAtEnd, UsageError, WorldName, full_world, user_errors

if TYPE_CHECKING:
    from asymrl.runs import SettingsSearch
    from asymrl.runs.driver import Outcome
    from asymrl.runs.settings_search import Trial

SHOWN = 10  # trials of the table


@dataclass(frozen=True, kw_only=True)
class Tune:
    """Search for settings that work in a world, with Optuna; the best are written into a file for --config.

    Trials that are worse than the median of those before are pruned. The same command continues an interrupted search,
    or extends it with more --trials. Needs pip install "asymrl[tune]".

      asymrl tune tiger --trials 20 --steps 50k
      asymrl tune CartPole-v1 --preset ppo-small --steps 100k --space space.toml
    """

    world: WorldName
    env_args: EnvArgs = None
    method: str | None = None
    """The learner and what its critic reads. None: a2c-asym-hs, or that of the preset."""
    preset: str | None = None
    """Settings to begin with, such as ppo-small; asymrl presets lists them."""
    trials: int = TRIALS
    """Total number of trials, each with its own choice of settings."""
    seeds: int = SEEDS
    """Runs of each trial."""
    steps: int = STEPS
    """Steps of each run."""
    together: int = TOGETHER
    """Trials that are trained together; those of one shape share a program."""
    space: Path | None = None
    """A TOML file with what to search: a table for each setting, with low and high, or choices. None: the rates and
    weights of the learner."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Other settings of all runs, such as memory_size=64, and arguments of the environment as env.NAME; what is given
    is not searched."""
    config: Path | None = None
    """A TOML file with such settings."""
    out: Path | None = None
    """Folder of the search. None: runs/tune-WORLD-METHOD."""
    json: JsonAtEnd = False
    training: Training = field(default_factory=Training)

    def run(self) -> int:
        self.training.checked()
        with user_errors():
            search = self._search()
            outcome = self._train(search)
        print_failures(outcome.failures)
        if outcome.interrupted is not None or outcome.is_out_of_time:
            why = "Stopped" if outcome.interrupted is not None else "Out of time"
            print(f"{why}; everything so far is in {search.folder}. The same command goes on.")
            status = OUT_OF_TIME if outcome.interrupted is None else 128 + outcome.interrupted
        else:
            status = 0
        return self._report(search, status)

    def _search(self) -> SettingsSearch:
        from asymrl.api.searching import new_search

        options = ("world", "method", "steps", "preset", "seeds")
        values = single_values(self.set, "--space says what to search", options)
        config = read_config(self.config) if self.config else {}
        overrides = {**config, **values, "steps": self.steps}
        if self.preset is not None:
            overrides["preset"] = self.preset
        if self.seeds < 1:
            raise UsageError(f"--seeds {self.seeds}: at least 1 is needed")
        return new_search(
            full_world(self.world, self.env_args), self.method or config.get("method"), overrides, trials=self.trials,
            seeds=range(self.seeds), space=self.space, together=self.together, out=self.out,
        )  # fmt: skip

    def _train(self, search: SettingsSearch) -> Outcome:
        from asymrl.api.searching import keeps_networks
        from asymrl.runs.callback import Callbacks
        from asymrl.runs.display import standard_display

        print(f"{search.folder}: {search.trials} trials of {', '.join(search.space)}")
        return search.run(
            lambda: Callbacks([standard_display(), *(tracker(search.folder) for tracker in self.training.trackers())]),
            keeps_networks=keeps_networks(search),
            **self.training.how(),
        )

    def _report(self, search: SettingsSearch, status: int) -> int:
        from asymrl.api.searching import tuning_of
        from asymrl.runs.files import RunError
        from asymrl.runs.settings_file import best_of
        from asymrl.runs.store import Store

        trials = search.results()
        answer: dict[str, Any] = {"folder": str(search.folder), "exit_status": status, "world": search.base["world"]}
        if best_of(trials) is None:
            if not status:
                why = "of each run, an episode has to be over in the last tenth of its --steps"
                print(f"asymrl: {search.folder}: no trial was completed; {why}", file=sys.stderr)
                answer["exit_status"] = status = 1
            self._answer(answer, trials, None)
            return status
        with user_errors():
            try:
                tuning = tuning_of(search)
            except RunError as error:
                raise UsageError(str(error)) from error
        print()
        print_table(_table(trials))
        print(f"\nbest settings  {tuning.file}\n\nnext:\n{tuning.command}")
        self.training.write_page(Store.open(search.folder))
        answer |= {"settings_file": str(tuning.file), "command": tuning.command}
        self._answer(answer, trials, tuning.settings)
        return status

    def _answer(self, answer: dict[str, Any], trials: list[Trial], best: dict[str, Any] | None) -> None:
        if self.json:
            print_json({**answer, "best": best, "trials": [asdict(trial) for trial in trials]})


def _table(trials: list[Trial]) -> Any:
    """The best trials, a row each."""
    import polars as pl

    rows = [
        {"trial": each.number, "return": each.value, "status": each.state}
        | {
            name: ":".join(map(str, value)) if isinstance(value, tuple) else value
            for name, value in each.settings.items()
        }
        for each in trials[:SHOWN]
    ]
    return pl.DataFrame(rows)
