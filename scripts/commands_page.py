"""Writes docs/reference/commands.md: what `asymrl COMMAND --help` prints."""

from __future__ import annotations

import os
from pathlib import Path

from asymrl.cli.command import COMMANDS
from asymrl.cli.parsing import help_text

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
COLUMNS = 120
INTRODUCTION = """\
# Commands

The help of every command, as `asymrl COMMAND --help` prints it. Numbers can be written as `2000000`, `1e6`, `500k` or
`2M`, also in `--set` and, as text, in a `--config` file. Exit status 0 means success, 1 that a run failed or a fault
was found, 2 that the command line was wrong. Commands that train [have more](../how-to/train.md#while-it-trains).
[JSON of commands](json.md) describes the output of `--json`.
"""


def page() -> str:
    """The page as Markdown."""
    columns, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), str(COLUMNS)
    try:
        parts = [f"## asymrl {name}\n\n```\n{help_text(command, name)}\n```\n" for name, command in COMMANDS.items()]
    finally:
        del os.environ["COLUMNS"]
        if columns is not None:
            os.environ["COLUMNS"] = columns
    return "\n".join([INTRODUCTION, *parts])


if __name__ == "__main__":
    PAGE.write_text(page())
