"""`asymrl sweep`: worlds x methods x settings x seeds, in a folder that knows what is still missing."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from asymrl.cli.running import SEEDS, NetworkOptions, Training
from asymrl.cli.usage import EnvArgs, Flag, UsageError, full_world, read_toml, user_errors
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
    json: Flag = False
    """Print one JSON object at the end for other programs; everything else goes to stderr."""
    training: Training = field(default_factory=Training)

    def run(self) -> int:
        from asymrl.api.checks import check_possible
        from asymrl.api.run_folders import grown_store, keeps_networks

        command = self._with_config()
        if command.out is None:
            raise UsageError("--out is missing: name a folder for the sweep, such as --out runs/my-sweep")
        placement = self.training.checked()
        with user_errors():
            runs = command.runs()
            check_possible(runs, placement)
            store = grown_store(command.out, runs, keeps_networks=keeps_networks(runs, command.networks_wanted()))
        return self.training.train(store, as_json=self.json)

    def runs(self) -> list[Run]:
        """The runs that are asked for. Raises ValueError if they are not possible."""
        from asymrl.api.wanted import sweep_runs

        axes: dict[str, list[Any]] = {}
        where = "--set" if self.config is None else f"--set or --config {self.config}"
        for name, values in map(axis, self.set):
            if name in axes:
                raise UsageError(f"--set {name} is given twice; write {name}=VALUE,VALUE to try several values")
            axes[name] = values
            for value in values if not name.startswith(PREFIX) else []:
                checked_values({name: value}, where)
        if self.preset is not None:
            axes = {"preset": [self.preset]} | axes
        methods = self.methods or ((method_of({"preset": self.preset}),) if self.preset is not None else ())
        if not self.env or not methods:
            raise UsageError("name worlds with --env and methods with --methods, or give a --config file")
        count = SEEDS if self.seeds is None else self.seeds
        if count < 1:
            raise UsageError(f"--seeds {count}: train at least one run")
        worlds = [full_world(name, self.env_args) for name in self.env]
        return sweep_runs(worlds, methods, axes, range(self.first_seed, self.first_seed + count))

    def _with_config(self) -> Sweep:
        if self.config is None:
            return self
        config = read_config(self.config)
        axes = tuple(
            f"{name}={','.join(_text(value, name) for value in _listed(values))}"
            for name, values in config.pop("set", {}).items()
        )
        names = {text.partition("=")[0] for text in self.set}
        changes: dict[str, Any] = {
            name: Path(value) if name == "out" else tuple(value) if isinstance(value, list) else value
            for name, value in config.items()
            if getattr(self, name) == getattr(Sweep(), name)
        }
        config_axes = tuple(axis for axis in axes if axis.partition("=")[0] not in names)
        return replace(self, **changes, set=(*config_axes, *self.set))


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


def _listed(values: Any) -> Sequence[Any]:
    return values if isinstance(values, list) else [values]


def _text(value: Any, name: str = "") -> str:
    """A TOML value of a setting as it is written on the command line."""
    if name.startswith(PREFIX):
        return json.dumps(value)
    if isinstance(value, bool):
        return str(value).lower()
    return ":".join(map(str, value)) if isinstance(value, list) else str(value)


def axis(text: str) -> tuple[str, list[Any]]:
    """The name and the values of `name=value,value`."""
    name, equals, values = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set {text}: write NAME=VALUE or NAME=VALUE,VALUE,...")
    name = name.replace("-", "_")
    if name.startswith(PREFIX):
        with user_errors(f"--set {text}"):
            return name, [parse_value(name, part.strip()) for part in split_values(values)]
    parsed = [_value(part) for part in values.split(",") if part]
    # One hidden layer is a list, too.
    return name, [[value] if name == "hidden" and isinstance(value, int) else value for value in parsed]


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
