"""Writes docs/reference/commands.md from the dataclasses that define the command line."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Literal

import tyro

from asymrl.cli.command import COMMANDS
from asymrl.cli.running import Running
from asymrl.learning.settings import SETTINGS_TYPES, A2CSettings, Settings

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
SHARED = {Running: "options of training", A2CSettings: "settings"}
INTRODUCTION = """\
# Commands

`asymrl COMMAND --help` shows the same in a terminal. Exit status 0 means success, 1 that a run failed or a fault was
found, 2 that the command line was wrong. Commands that train [have some more](../how-to/train.md#while-it-trains).
"""
SETTINGS = """\
What all learners share. The settings of [a2c](#settings-of-a2c), [ppo](#settings-of-ppo) and [dqn](#settings-of-dqn)
are their own, or have other defaults."""
POSITIONAL = typing.get_args(tyro.conf.Positional[int])[1]
NAMES = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


def page() -> str:
    """The page as Markdown."""
    parts = [INTRODUCTION, *(_command(name, command) for name, command in COMMANDS.items())]
    parts.append(f"## Options of training\n\n{_text(Running)}\n\n{_table(_options(Running, fields(Running)))}\n")
    common = [each for each in fields(Settings) if each.name not in ("world", "method")]
    parts.append(f"## Settings\n\n{SETTINGS}\n\n{_table(_options(Settings, common))}\n")
    usual = {each.name: each.default for each in common}
    for name, kind in SETTINGS_TYPES.items():
        own = [each for each in fields(kind) if each.name != "world" and each.default != usual.get(each.name, MISSING)]
        parts.append(f"## Settings of {name}\n\n{_text(kind)}\n\n{_table(_options(kind, own))}\n")
    return "\n".join(parts)


def _command(name: str, command: type) -> str:
    bases = [base for base in SHARED if issubclass(command, base)]
    inherited = {each.name for base in bases for each in fields(base)}
    hints = typing.get_type_hints(command, include_extras=True)
    own = [each for each in fields(command) if each.name not in inherited or _is_positional(hints[each.name])]
    places = [_place(each, hints[each.name]) for each in own if _is_positional(hints[each.name])]
    options = ["[OPTIONS]"] if len(fields(command)) > len(places) else []
    more = [f"[{SHARED[base]}](#{SHARED[base].replace(' ', '-')})" for base in bases]
    lines = [f"## asymrl {name}", f"```\nasymrl {' '.join([name, *places, *options])}\n```", _text(command)]
    if own:
        lines.append(_table(_options(command, own)))
    if more:
        lines.append(f"Also: the {' and the '.join(more)}.")
    return "\n\n".join(lines) + "\n"


def _text(described: type) -> str:
    """The docstring of a class as paragraphs."""
    paragraphs = inspect.cleandoc(described.__doc__ or "").split("\n\n")
    return "\n\n".join(textwrap.fill(paragraph, 120) for paragraph in paragraphs)


def _table(rows: Iterator[tuple[str, str, str]]) -> str:
    return "\n".join(["| option | default | |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])


def _options(command: type, which: typing.Iterable[Field[Any]]) -> Iterator[tuple[str, str, str]]:
    """Name, default and description of each option."""
    hints, texts = typing.get_type_hints(command, include_extras=True), _descriptions(command)
    for each in which:
        text = getattr(_argument(hints[each.name]), "help", None) or texts[each.name]
        yield _name(each, hints[each.name]), _default(each), " ".join(text.split()).replace("|", "\\|")


def _name(each: Field[Any], hint: Any) -> str:
    value = _value(each, hint)
    if _is_positional(hint):
        return f"`{value}`".replace("|", "\\|")
    names = [*(getattr(_argument(hint), "aliases", None) or ()), "--" + each.name.replace("_", "-")]
    kind, _ = _kind(hint)
    if kind is bool:
        pairs = tyro.conf.FlagCreatePairsOff not in _metadata(hint)
        return f"`{names[-1]}`" + (f", `--no-{names[-1][2:]}`" if pairs else "")
    return ", ".join(f"`{name} {value}`".replace("|", "\\|") for name in names)


def _place(each: Field[Any], hint: Any) -> str:
    """A positional argument in the usage line, in brackets if it can be left out."""
    is_needed = each.default is MISSING
    return _value(each, hint) if is_needed else f"[{_value(each, hint)}]"


def _value(each: Field[Any], hint: Any) -> str:
    """What stands for the value of an option: FLOAT, or NAME for one of its own."""
    kind, several = _kind(hint)
    if metavar := getattr(_argument(hint), "metavar", None):
        text = metavar
    elif typing.get_origin(kind) is Literal:
        text = "|".join(map(str, typing.get_args(kind)))
    else:
        text = NAMES.get(kind, each.name.upper())
    return f"{text} ..." if several else text


def _kind(hint: Any) -> tuple[Any, bool]:
    """The type of a value, without None and annotations, and whether there may be several."""
    if typing.get_origin(hint) is typing.Annotated:
        return _kind(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return _kind(next(part for part in typing.get_args(hint) if part is not types.NoneType))
    if typing.get_origin(hint) is tuple:
        return typing.get_args(hint)[0], True
    return hint, False


def _metadata(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())


def _is_positional(hint: Any) -> bool:
    return POSITIONAL in _metadata(hint)


def _argument(hint: Any) -> Any:
    """What `tyro.conf.arg` says about an option, if it is used."""
    return next((each for each in _metadata(hint) if hasattr(each, "metavar")), None)


def _default(each: Field[Any]) -> str:
    if each.default is MISSING or each.default is None or each.default == ():
        return ""
    if isinstance(each.default, bool):
        return "on" if each.default else ""
    if isinstance(each.default, tuple):
        return f"`{' '.join(map(str, each.default))}`"
    return f"`{each.default}`"


def _descriptions(command: type) -> dict[str, str]:
    """The string below each field, of a class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(command.__mro__[:-1]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for node, below in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(node, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(node.target, ast.Name):
                found[node.target.id] = str(ast.literal_eval(below.value))
    return found


if __name__ == "__main__":
    PAGE.write_text(page())
