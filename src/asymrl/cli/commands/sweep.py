"""`asymrl sweep`: worlds x methods x settings x seeds, in a folder that knows what is still missing."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from asymrl.cli.running import SEEDS, NetworkOptions, Training
from asymrl.cli.usage import EnvArgs, JsonAtEnd, UsageError, full_world, read_toml, user_errors
from asymrl.runs.options import checked_values, method_of
from asymrl.settings.quantities import whole_number
from asymrl.worlds.name_options import PREFIX, parse_value, split_values

if TYPE_CHECKING:
    from asymrl.runs.runs import Run


@dataclass(frozen=True, kw_only=True)
class Sweep(NetworkOptions):
    """Train every world with every method, every setting and every seed; a second call trains what is missing.

    Other settings come from the preset, then from what the paper tuned for the world and method, then from the defaults
    of `asymrl train`. The command line overrides the --config file.

      asymrl sweep --env tiger shopping-2 --methods a2c a2c-asym-hs --set steps=500k --out runs/two-worlds
      asymrl sweep --env tiger --methods a2c --set actor_rate=1e-3,3e-4 steps=200k --seeds 3 --out runs/rates
      asymrl sweep --config rates.toml --minutes 30
    """

    env: tuple[str, ...] = ()
    """Names of worlds."""
    env_args: EnvArgs = None
    methods: tuple[str, ...] = ()
    """Names of methods; with a preset, its own method is the default."""
    preset: str | None = None
    """Settings that work for a kind of problem, such as ppo-small; asymrl presets lists them."""
    seeds: int | None = None
    """How many seeds: 0, 1, ... None: 5, as in `asymrl train`."""
    first_seed: int = 0
    """The first seed."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE,...")] = ()
    """Settings and their values to try, such as actor_rate=0.001,0.0003 steps=2M; arguments of the environments as
    env.NAME, such as env.length=5,9."""
    out: Path | None = None
    """Folder of the sweep."""
    config: Path | None = None
    """A TOML file with env, methods, preset, seeds, out, and a table [set] with lists of values."""
    json: JsonAtEnd = False
    training: Training = field(default_factory=Training)

    def run(self) -> int:
        from asymrl.api.run_folders import check_possible, grown_store, keeps_networks

        placement, out = self.training.checked(), self.given()["out"]
        if out is None:
            raise UsageError("--out is missing: name a folder for the sweep, such as --out runs/my-sweep")
        with user_errors():
            runs = self.runs()
            check_possible(runs, placement)
            store = grown_store(Path(out), runs, keeps_networks=keeps_networks(runs, self.networks_wanted()))
        return self.training.train(store, as_json=self.json)

    def runs(self) -> list[Run]:
        """The runs that are asked for. Raises ValueError if they are not possible."""
        from asymrl.api.wanted import sweep_runs

        given = self.given()
        axes, preset = given["set"], given["preset"]
        where = "--set" if self.config is None else f"--set or --config {self.config}"
        for name, values in axes.items():
            for value in values if not name.startswith(PREFIX) else []:
                checked_values({name: value}, where)
        if preset is not None:
            axes = {"preset": [preset]} | axes
        methods = given["methods"] or ((method_of({"preset": preset}),) if preset is not None else ())
        if not given["env"] or not methods:
            raise UsageError("name worlds with --env and methods with --methods, or give a --config file")
        count, first = SEEDS if given["seeds"] is None else given["seeds"], given["first_seed"]
        if count < 1:
            raise UsageError(f"--seeds {count}: train at least one run")
        worlds = [full_world(name, self.env_args) for name in given["env"]]
        return sweep_runs(worlds, methods, axes, range(first, first + count))

    def given(self) -> dict[str, Any]:
        """What was given, by the names of `CONFIG`: as an option, or in the file, or neither."""
        config = {} if self.config is None else read_config(self.config)
        usual = {each.name: each.default for each in fields(Sweep)}
        own = {name: getattr(self, name) for name in CONFIG if name not in config or getattr(self, name) != usual[name]}
        listed = {name: value if isinstance(value, list) else [value] for name, value in config.get("set", {}).items()}
        axes = {name.replace("-", "_"): [_one(name, value) for value in values] for name, values in listed.items()}
        return {**config, **own, "set": {**axes, **axes_of(self.set)}}


CONFIG = {"env": list, "methods": list, "preset": str, "seeds": int, "first_seed": int, "out": str, "set": dict}
EXPECTED = {list: "a list", int: "a whole number", str: "text", dict: "a table"}


def read_config(path: Path) -> dict[str, Any]:
    """What a TOML file says about a sweep. Raises UsageError if it cannot be read, or says something else."""
    values = read_toml(path)
    for name, value in values.items():
        if name not in CONFIG:
            raise UsageError(f"--config {path}: unknown {name!r}; a sweep has {', '.join(CONFIG)}")
        if CONFIG[name] is int and isinstance(value, str | float):
            with contextlib.suppress(ValueError):
                values[name] = whole_number(str(value))
        if not isinstance(values[name], CONFIG[name]) or isinstance(value, bool):
            raise UsageError(f"--config {path}: {name} is {value!r}, expected {EXPECTED[CONFIG[name]]}")
    return values


def axes_of(texts: Sequence[str]) -> dict[str, list[Any]]:
    """The settings that `--set NAME=VALUE,VALUE ...` gives, with their values."""
    axes: dict[str, list[Any]] = {}
    for name, values in map(axis, texts):
        if name in axes:
            raise UsageError(f"--set {name} is given twice; write {name}=VALUE,VALUE to try several values")
        axes[name] = values
    return axes


def single_values(texts: Sequence[str], otherwise: str, options: Sequence[str]) -> dict[str, Any]:
    """The settings that `--set NAME=VALUE ...` gives to a command that tries one value of each.

    Args:
        texts: of the option.
        otherwise: what tries several.
        options: what the command has options for, which would win in silence.
    """
    axes = axes_of(texts)
    if several := [name for name, values in axes.items() if len(values) != 1]:
        raise UsageError(f"--set {several[0]}: give one value; {otherwise}")
    if both := [name for name in axes if name in options]:
        raise UsageError(f"--set {both[0]}: use --{both[0]} instead")
    return {name: value for name, (value,) in axes.items()}


def axis(text: str) -> tuple[str, list[Any]]:
    """The name and the values of `name=value,value`."""
    name, equals, values = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set {text}: write NAME=VALUE or NAME=VALUE,VALUE,...")
    name = name.replace("-", "_")
    if name.startswith(PREFIX):
        with user_errors(f"--set {text}"):
            return name, [parse_value(name, part.strip()) for part in split_values(values)]
    return name, [_one(name, _value(part)) for part in values.split(",") if part]


def _one(name: str, value: Any) -> Any:
    """A value of a setting; one hidden layer is a list, too."""
    return [value] if name == "hidden" and isinstance(value, int) else value


def _value(text: str) -> Any:
    """The value that a text means: a number, true or false, a list of whole numbers such as 64:64, or itself."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    parts = text.split(":")
    return [int(part) for part in parts] if all(part.isdigit() for part in parts) else text
