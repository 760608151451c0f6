"""`asymrl train`: some runs of one setting, in a folder; and `asymrl resume`: goes on with any runs in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from asymrl.cli.running import SEEDS, Training
from asymrl.cli.settings_options import Basic, Learner, Network
from asymrl.cli.usage import (
    EnvArgs,
    Flag,
    JsonAtEnd,
    RunFolder,
    Trust,
    UsageError,
    WorldName,
    full_world,
    read_toml,
    user_errors,
)
from asymrl.runs.options import checked_values
from asymrl.settings import SETTINGS, A2CSettings, Settings
from asymrl.settings.hyperparameters import tuned


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train agents in a world, several seeds at once.

    Settings come from the command line, then the --config file, then the --preset, then from what the paper tuned for
    its worlds and methods (learning rates and entropy weight) or the world's file (discount), then from the defaults
    below.

      asymrl train tiger --steps 500k
      asymrl train heaven-hell-3 --method a2c-asym-hs --seeds 3 --steps 2M
      asymrl train heaven-hell-3 --method a2c-react-6 --hidden 64 64 --out runs/window-6
      asymrl train CartPole-v1 --method ppo --steps 500k --quiet
      asymrl train light.py:Light --config settings.toml --json
    """

    world: WorldName
    seeds: int | None = None
    """How many runs to train; their seeds are 0, 1, ... None: 5."""
    seed_list: tuple[int, ...] | None = None
    """Train these seeds instead."""
    out: Path | None = None
    """Folder of the runs. None: runs/WORLD-METHOD, with a number if that is taken."""
    config: Path | None = None
    """A TOML file with settings, named as in Python: entropy_weight = 0.3"""
    env_args: EnvArgs = None
    json: JsonAtEnd = False
    basic: Basic = field(default_factory=dict)
    learner: Learner = field(default_factory=dict)
    network: Network = field(default_factory=dict)
    training: Training = field(default_factory=Training)

    def settings(self) -> Settings:
        """The settings of the runs. Raises UsageError if they are not possible."""
        from asymrl.api.wanted import settings_for

        world = full_world(self.world, self.env_args)
        config = read_config(self.config) if self.config else {}
        with user_errors():
            return settings_for(world, **{**config, **self.basic, **self.learner, **self.network})

    def chosen_seeds(self) -> Sequence[int]:
        """The seeds of the runs. Raises UsageError if there are none, or they are given in two ways."""
        if self.seeds is not None and self.seed_list is not None:
            raise UsageError(f"--seeds {self.seeds} and --seed-list: give one of them")
        seeds = range(SEEDS if self.seeds is None else self.seeds) if self.seed_list is None else self.seed_list
        if not seeds:
            option = f"--seeds {self.seeds}" if self.seed_list is None else "--seed-list"
            raise UsageError(f"{option}: train at least one run")
        return seeds

    def run(self) -> int:
        from asymrl.api.run_folders import new_store
        from asymrl.runs.runs import Run

        seeds, placement = self.chosen_seeds(), self.training.checked()
        settings = self.settings()
        with user_errors():
            store = new_store([Run(settings, seed) for seed in seeds], self.out, placement)
        print(f"{store.path}: {_origin(settings)}")
        if settings.critic_sees != Settings.critic_sees and "s" not in settings.how.reads:
            print(f"critic_sees has no effect: the critic of {settings.method} reads the history alone")
        return self.training.train(store, as_json=self.json)


def _origin(settings: Settings) -> str:
    """Where the settings that the paper tuned come from."""
    names = ("actor_rate", "critic_rate", "learning_rate", "entropy_weight")
    used = ", ".join(f"{name} {getattr(settings, name):g}" for name in names if hasattr(settings, name))
    if settings.preset is not None:
        return f"{used} (preset {settings.preset})"
    if not isinstance(settings, A2CSettings):
        return used
    paper = tuned(settings.world, settings.method)
    if paper is None:
        return f"{used} (the paper has no settings for this world and method)"
    if all(getattr(settings, name) == value for name, value in paper.items()):
        return f"{used} (as tuned in the paper)"
    return f"{used} (the paper: {', '.join(f'{value:g}' for value in paper.values())})"


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Continue the runs in a folder, to their end or for longer: those of train, sweep, compare and reproduce.

    asymrl resume runs/tiger-a2c-asym-hs
    asymrl resume runs/tiger-a2c-asym-hs --steps 4M
    """

    folder: RunFolder
    steps: int | None = None
    """Total steps of each run, more than it was started with. None: unchanged."""
    current_code: Flag = False
    """Continue with your files of worlds and networks as they are now. Default: as they were when the runs began."""
    trust: Trust = False
    json: JsonAtEnd = False
    training: Training = field(default_factory=Training)

    def run(self) -> int:
        from asymrl.api.run_folders import take_store

        placement = self.training.checked()
        with user_errors():
            store = take_store(
                self.folder, self.steps, trust=self.trust, current_code=self.current_code, placement=placement
            )
        return self.training.train(store, as_json=self.json)


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a TOML file. Raises UsageError if it cannot be read, or names something that is not a setting."""
    values = read_toml(path)
    for name in values:
        if name == "world" or (
            name not in SETTINGS and name in {each.name for each in (*fields(Train), *fields(Training))}
        ):
            raise UsageError(f"--config {path}: {name} is not a setting of a run; give it on the command line")
    with user_errors():
        return checked_values(values, f"--config {path}")
