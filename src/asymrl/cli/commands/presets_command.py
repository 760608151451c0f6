"""`asymrl presets`: settings that work for kinds of problems that the paper does not have."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from asymrl.cli.output import print_json
from asymrl.cli.usage import AsJson, user_errors
from asymrl.settings.presets import PRESETS, Preset, preset_named

WIDTH = 100


@dataclass(frozen=True)
class Presets:
    """List the presets for --preset: settings that work for a kind of problem.

    asymrl presets
    asymrl train CartPole-v1 --preset ppo-small --steps 200k
    """

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="PRESET")] = ()
    """Show only these. By default all."""

    json: AsJson = False

    def run(self) -> int:
        with user_errors():
            presets = {name: preset_named(name) for name in self.names} or PRESETS
        if self.json:
            print_json({name: _plain(preset) for name, preset in presets.items()})
            return 0
        for name, preset in presets.items():
            print(f"{name:<12}{preset.purpose}")
            values = ", ".join(f"{each} {_text(value)}" for each, value in preset.values.items())
            print(textwrap.indent(textwrap.fill(f"{preset.method}: {values}", WIDTH - 12), 12 * " "), end="\n\n")
        print(f"asymrl train WORLD --preset {next(iter(presets))}")
        return 0


def _plain(preset: Preset) -> dict[str, Any]:
    return {"method": preset.method, "purpose": preset.purpose, "settings": dict(preset.values)}


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ":".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
