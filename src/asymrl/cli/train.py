"""`asymrl train`: many runs at once, in a folder from which they can go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from asymrl.cli.usage import UsageError, read_toml
from asymrl.learning.settings import Settings
from asymrl.paper import tuned
from asymrl.runs.files import RunError, StorageError
from asymrl.runs.options import checked_values, settings_from_file

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclass(frozen=True)
class Train(Settings):
    """Train agents in a world, many seeds at once.

    Settings come from the command line, then the --config file, then what the paper tuned for its worlds and methods
    (learning rates and entropy weight) or the world's own file says (discount), then the defaults below.
    """

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD")] = field()
    """Name of the world, such as heaven-hell-3 or cleaner:maze_seed=7 (see asymrl envs); a .pomdp file; a Gymnasium id;
    gymnax:NAME; MODULE:CLASS or FILE.py:CLASS of your own."""

    seeds: int = 5
    """How many runs to train at once; their seeds are 0, 1, ..."""
    seed_list: tuple[int, ...] | None = None
    """Which seeds instead."""
    out: Path | None = None
    """Folder of the runs. None: runs/WORLD-METHOD, with a number if that is taken."""
    config: Path | None = None
    """A TOML file with settings, named as in Python: entropy_weight = 0.3"""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints."""
    refresh_seconds: float = 1.5
    """Seconds between two updates of the display and of the metrics."""
    tensorboard: Flag = False
    """Also write for TensorBoard, into the folder of the runs."""
    wandb: Flag = False
    """Also report to Weights & Biases."""

    def __post_init__(self) -> None:
        pass  # the settings are checked when they are complete

    def completed(self, arguments: Sequence[str]) -> Train:
        """This command with what the command line, its `arguments`, does not give taken from the other sources.

        Only a parser knows what was given, so it reads the arguments again with other defaults.
        """
        plain = Train(world=self.world)
        config = read_config(self.config) if self.config else {}
        given = _parse(arguments, replace(plain, **config))
        try:
            found = {**settings_from_file(given.world), **(tuned(given.world, given.method) or {})}
        except ValueError as error:
            raise UsageError(str(error)) from error
        return _parse(arguments, replace(plain, **{**found, **config}))

    def settings(self) -> Settings:
        """The settings of the runs. Raises ValueError if they are not possible."""
        return Settings(**{each.name: getattr(self, each.name) for each in fields(Settings)})

    def run(self) -> int:
        from asymrl.cli.training import follow_to_the_end, wanted_trackers
        from asymrl.runs.batch import Batch
        from asymrl.runs.trainer import Pace
        from asymrl.training import new_folder

        try:
            seeds = range(self.seeds) if self.seed_list is None else self.seed_list
            if not seeds:
                raise UsageError("no seeds: train at least one run")
            batch = Batch.product([self.settings()], seeds)
            pace = Pace(self.refresh_seconds, self.checkpoint_seconds)
            trackers = wanted_trackers(tensorboard=self.tensorboard, wandb=self.wandb)
            folder = new_folder(batch, self.out)
        except (ValueError, StorageError) as error:
            raise UsageError(str(error)) from error
        print(f"{folder.path}: {self._origin()}")
        return follow_to_the_end(folder, pace, trackers)

    def _origin(self) -> str:
        """Where the settings that the paper tuned come from."""
        found = tuned(self.world, self.method)
        names = ("actor_rate", "critic_rate", "entropy_weight")
        used = ", ".join(f"{name} {getattr(self, name):g}" for name in names)
        if found is None:
            return f"{used} (the paper has no settings for this world and method)"
        if all(getattr(self, name) == value for name, value in found.items()):
            return f"{used} (as tuned in the paper)"
        return f"{used} (the paper: {', '.join(f'{value:g}' for value in found.values())})"


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a TOML file. Raises UsageError if it can not be read, or says something that is no setting."""
    values = read_toml(path)
    own = {each.name for each in fields(Train)} - {each.name for each in fields(Settings)} | {"world"}
    for name in values:
        if name in own:
            raise UsageError(f"--config {path}: {name} is not a setting of a run; give it on the command line")
    try:
        return checked_values(values, f"--config {path}")
    except RunError as error:
        raise UsageError(str(error)) from error


def _parse(arguments: Sequence[str], default: Train) -> Train:
    return tyro.cli(Train, prog="asymrl train", args=arguments, default=default)
