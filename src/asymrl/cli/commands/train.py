"""`asymrl train`: some runs of one setting, in a folder; and `asymrl resume`: goes on with any runs in a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from asymrl.cli.parsing import NONE, parse
from asymrl.cli.running import SEEDS
from asymrl.cli.training_answer import Training
from asymrl.cli.usage import EnvArgs, Flag, RunFolder, Trust, UsageError, WorldName, full_world, read_toml, user_errors
from asymrl.runs.options import checked_values, method_of, resolve
from asymrl.settings import (
    SETTINGS,
    A2CSettings,
    DQNSettings,
    PPOSettings,
    Settings,
    check_learner,
    names_of,
    settings_type,
)
from asymrl.settings.hyperparameters import tuned
from asymrl.settings.methods import method


@dataclass(frozen=True)
class TrainOptions(Training):
    """What `asymrl train` is told besides the settings of a learner."""

    seeds: int | None = None
    """How many runs to train; their seeds are 0, 1, ... None: 5."""
    seed_list: tuple[int, ...] | None = None
    """Train these seeds instead."""
    out: Path | None = None
    """Folder of the runs. None: runs/WORLD-METHOD, with a number if that is taken."""
    config: Path | None = None
    """A TOML file with settings, named as in Python: entropy_weight = 0.3"""
    env_args: EnvArgs = None

    def __post_init__(self) -> None:
        pass  # the settings are checked when they are complete

    def completed(self, arguments: Sequence[str]) -> TrainOptions:
        """This command with what the command line, its `arguments`, does not give taken from the other sources.

        Only a parser knows what was given, so it reads the arguments again with other defaults.
        """
        world: Any = full_world(getattr(self, "world"), self.env_args)  # noqa: B009  of the learner's form of this command
        plain = type(self)(**{"world": world})
        config = read_config(self.config) if self.config else {}
        with user_errors():
            config = {**config, "method": method_of({**config, "preset": _preset(arguments, config)})}
        options = _parse(arguments, replace(plain, **config))
        method, preset = getattr(options, "method"), getattr(options, "preset")  # noqa: B009
        with user_errors():
            defaults = resolve(world, method, config, {"preset": preset}, tuned=tuned(world, method))
        return replace(_parse(arguments, replace(plain, **defaults)), world=world)

    def settings(self) -> Settings:
        """The settings of the runs. Raises ValueError if they are not possible."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        kind = settings_type(values["method"])
        return kind(**{name: values[name] for name in names_of(kind)})

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

        seeds = self.chosen_seeds()
        options, trackers = self.options(), self.trackers()
        with user_errors():
            settings = self.settings()
            store = new_store([Run(settings, seed) for seed in seeds], self.out, options["placement"])
        print(f"{store.path}: {_origin(settings)}")
        if settings.critic_sees != Settings.critic_sees and "s" not in settings.how.reads:
            print(f"critic_sees has no effect: the critic of {settings.method} reads the history alone")
        return self.train(store, options, trackers)


@dataclass(frozen=True)
class Train(TrainOptions, A2CSettings):
    """Train agents in a world, several seeds at once.

    Settings come from the command line, then the --config file, then the --preset, then from what the paper tuned for
    its worlds and methods (learning rates and entropy weight) or the world's file (discount), then from the defaults
    below. They are those of A2C; `asymrl train WORLD --method ppo --help` and `--method dqn --help` show the others.
    """

    world: WorldName = field()


@dataclass(frozen=True)
class TrainPPO(TrainOptions, PPOSettings):
    """Train agents in a world by PPO, several seeds at once.

    Settings come from the command line, then the --config file, then the --preset, then what the world's own file says
    (discount), then the defaults below.
    """

    world: WorldName = field()


@dataclass(frozen=True)
class TrainDQN(TrainOptions, DQNSettings):
    """Train agents in a world by the asymmetric DQN family, several seeds at once.

    Settings come from the command line, then the --config file, then the --preset, then what the world's own file says
    (discount), then the defaults below.
    """

    world: WorldName = field()


TRAIN = {"a2c": Train, "ppo": TrainPPO, "dqn": TrainDQN}


def train_command(arguments: Sequence[str]) -> type[TrainOptions]:
    """The form of `asymrl train` for the method that its arguments, or the configuration file among them, name.

    Raises UsageError if there is no such method, or what is given is a setting of another learner.
    """
    path = _option(arguments, "config")
    config = {} if path is None else read_config(Path(path))
    with user_errors():
        asked = _option(arguments, "method") or config.get("method")
        name = method_of({"method": asked, "preset": _preset(arguments, config)})
        learner = method(name).learner
        names = [_setting(argument) for argument in arguments if argument.startswith("--")]
        check_learner(name, [*config, *(setting for setting in names if setting in SETTINGS)])
    return TRAIN[learner]


def _option(arguments: Sequence[str], name: str) -> str | None:
    """The value of an option as the command line gives it, or None."""
    value = None
    for argument, following in zip_longest(arguments, arguments[1:]):
        if argument == f"--{name}":
            value = following
        elif argument.startswith(f"--{name}="):
            value = argument.partition("=")[2]
    return value


def _preset(arguments: Sequence[str], config: Mapping[str, Any]) -> str | None:
    """The preset that the command line names, or the configuration file."""
    named = _option(arguments, "preset")
    return config.get("preset") if named is None else None if named.lower() == NONE else named


def _setting(argument: str) -> str:
    name = argument.partition("=")[0].removeprefix("--").replace("-", "_")
    return name if name in SETTINGS else name.removeprefix("no_")


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
class Resume(Training):
    """Continue the runs in a folder, to their end or for longer.

    Works for runs of train, sweep, compare, reproduce and study.
    """

    folder: RunFolder

    steps: int | None = None
    """Total steps of each run, more than it was started with. None: unchanged."""

    current_code: Flag = False
    """Continue with your files of worlds and networks as they are now. Default: as they were when the runs began."""

    trust: Trust = False

    def run(self) -> int:
        from asymrl.api.run_folders import take_store
        from asymrl.report.paper.parts import probes_from_json

        options, trackers = self.options(), self.trackers()
        with user_errors():
            store = take_store(
                self.folder,
                self.steps,
                trust=self.trust,
                current_code=self.current_code,
                placement=options["placement"],
            )
        with user_errors(self.folder):
            try:
                probes = probes_from_json(store.probes)
            except ValueError:
                store.release()
                raise
        return self.train(store, options, trackers, probes)


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a TOML file. Raises UsageError if it cannot be read, or names something that is not a setting."""
    values = read_toml(path)
    own = {each.name for each in fields(TrainOptions)} | {"world"}
    for name in values:
        if name in own:
            raise UsageError(f"--config {path}: {name} is not a setting of a run; give it on the command line")
    with user_errors():
        return checked_values(values, f"--config {path}")


def _parse(arguments: Sequence[str], default: TrainOptions) -> TrainOptions:
    return parse(type(default), arguments, "asymrl train", default)
