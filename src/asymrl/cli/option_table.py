"""The options of a command, read from its dataclass: what `--help` and the reference page of commands show."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import tyro

from asymrl.settings.quantities import count_text

POSITIONAL = typing.get_args(tyro.conf.Positional[int])[1]
NAMES = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


@dataclass(frozen=True)
class Option:
    """An option or a positional argument of a command."""

    name: str
    """Of the field."""
    flags: tuple[str, ...]
    """As they are typed, such as -o and --output; none for a positional argument."""
    value: str
    """What stands for its value, such as INT or FILE; nothing for a switch."""
    default: str
    """As it is typed; nothing if there is none, or the text says what happens."""
    text: str
    """What it means."""
    is_needed: bool

    @property
    def is_pair(self) -> bool:
        """Whether it can be turned on and off: `--greedy` and `--no-greedy`."""
        return len(self.flags) == 2 and self.flags[1] == f"--no-{self.flags[0][2:]}"

    @property
    def usage(self) -> str:
        """The option as it is typed: `-o, --output FILE` or `--[no-]greedy`."""
        if self.is_pair:
            return self.flags[0].replace("--", "--[no-]")
        return f"{', '.join(self.flags)} {self.value}".strip()

    @property
    def place(self) -> str:
        """A positional argument in the usage line, in brackets if it can be left out."""
        return self.value if self.is_needed else f"[{self.value}]"


def options_of(command: type, which: Iterable[Field[Any]] | None = None) -> list[Option]:
    """The options of a dataclass, or of some of its fields."""
    hints, texts = typing.get_type_hints(command, include_extras=True), _descriptions(command)
    selection = fields(command) if which is None else which
    return [_option(each, hints[each.name], texts.get(each.name, "")) for each in selection]


def paragraphs(described: type) -> list[str]:
    """The docstring of a class, each paragraph in one line."""
    return [" ".join(part.split()) for part in inspect.cleandoc(described.__doc__ or "").split("\n\n")]


def _option(each: Field[Any], hint: Any, described: str) -> Option:
    argument = _argument(hint)
    text = " ".join((getattr(argument, "help", None) or described).split())
    text = re.sub(r"\bNone:", "Default:" if each.default is None else "none:", text)
    value, long = _value(each, hint), each.name.replace("_", "-")
    flags = [*(getattr(argument, "aliases", None) or ()), f"--{long}"] if POSITIONAL not in _metadata(hint) else []
    if _kind(hint)[0] is bool:
        value = ""
        flags += [f"--no-{long}"] if tyro.conf.FlagCreatePairsOff not in _metadata(hint) else []
    return Option(each.name, tuple(flags), value, _default(each), text, each.default is MISSING)


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


def _argument(hint: Any) -> Any:
    """What `tyro.conf.arg` says about an option, if it is used."""
    return next((each for each in _metadata(hint) if hasattr(each, "metavar")), None)


def _default(each: Field[Any]) -> str:
    if each.default is MISSING or each.default is None or each.default in ((), ""):
        return ""
    if isinstance(each.default, bool):
        return "on" if each.default else ""
    if isinstance(each.default, tuple):
        return " ".join(map(str, each.default))
    if isinstance(each.default, int) or (isinstance(each.default, float) and each.default.is_integer()):
        return count_text(int(each.default))
    return str(each.default)


def _descriptions(command: type) -> dict[str, str]:
    """The string below each field, of a class and its bases."""
    descriptions: dict[str, str] = {}
    for base in reversed(command.__mro__[:-1]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for node, below in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(node, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(node.target, ast.Name):
                descriptions[node.target.id] = str(ast.literal_eval(below.value))
    return descriptions
