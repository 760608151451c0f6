"""Writes docs/reference/commands.md from the dataclasses that define the command line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import MISSING, fields
from pathlib import Path

from asymrl.cli.command import COMMANDS
from asymrl.cli.examples import EXAMPLES
from asymrl.cli.option_table import Option, options_of, paragraphs
from asymrl.cli.running import Running
from asymrl.settings import SETTINGS_TYPES, A2CSettings, Settings

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
SHARED = {Running: "options of training", A2CSettings: "settings"}
INTRODUCTION = """\
# Commands

`asymrl COMMAND --help` shows the same in a terminal. Numbers can be written as `2000000`, `1e6`, `500k` or `2M`, also
in `--set` and, as text, in a `--config` file. Exit status 0 means success, 1 that a run failed or a fault was found, 2
that the command line was wrong. Commands that train [have more](../how-to/train.md#while-it-trains).
[JSON of commands](json.md) describes the output of `--json`.
"""
SETTINGS = """\
Shared by all learners. [a2c](#settings-of-a2c), [ppo](#settings-of-ppo) and [dqn](#settings-of-dqn) add their own, or
have other defaults."""


def page() -> str:
    """The page as Markdown."""
    parts = [INTRODUCTION, *(_command(name, command) for name, command in COMMANDS.items())]
    parts.append(f"## Options of training\n\n{_text(Running)}\n\n{_table(options_of(Running))}\n")
    common = [each for each in fields(Settings) if each.name not in ("world", "method")]
    parts.append(f"## Settings\n\n{SETTINGS}\n\n{_table(options_of(Settings, common))}\n")
    usual = {each.name: each.default for each in common}
    for name, kind in SETTINGS_TYPES.items():
        own = [each for each in fields(kind) if each.name != "world" and each.default != usual.get(each.name, MISSING)]
        parts.append(f"## Settings of {name}\n\n{_text(kind)}\n\n{_table(options_of(kind, own))}\n")
    return "\n".join(parts)


def _command(name: str, command: type) -> str:
    bases = [base for base in SHARED if issubclass(command, base)]
    inherited = {each.name for base in bases for each in fields(base)}
    everything = options_of(command)
    own = [each for each in everything if each.name not in inherited or not each.flags]
    places = [each.place for each in own if not each.flags]
    options = ["[OPTIONS]"] if len(everything) > len(places) else []
    more = [f"[{SHARED[base]}](#{SHARED[base].replace(' ', '-')})" for base in bases]
    lines = [f"## asymrl {name}", f"```\nasymrl {' '.join([name, *places, *options])}\n```", _text(command)]
    if own:
        lines.append(_table(own))
    if more:
        lines.append(f"Also: the {' and the '.join(more)}.")
    if name in EXAMPLES:
        lines.append("```bash\n" + "\n".join(EXAMPLES[name]) + "\n```")
    return "\n\n".join(lines) + "\n"


def _text(described: type) -> str:
    return "\n\n".join(textwrap.fill(paragraph, 120) for paragraph in paragraphs(described))


def _table(options: Iterable[Option]) -> str:
    return "\n".join(["| option | default | |", "|---|---|---|", *map(_row, options)])


def _row(option: Option) -> str:
    """Name, default and description of an option."""
    names = [f"{flag} {option.value}".strip() for flag in option.flags] or [option.value]
    default = option.default if option.default in ("", "on") else f"`{option.default}`"
    cells = [", ".join(f"`{name}`" for name in names), default, option.text]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page())
