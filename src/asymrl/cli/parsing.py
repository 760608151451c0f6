"""How a command line is read: a command is a dataclass, its fields are the options, tyro parses it and writes its help.

Numbers are read as people type them, options may be none, and the string below a field says what the option means.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import math
import os
import re
import textwrap
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from asymrl.cli.usage import UsageError
from asymrl.settings.quantities import count_text, real_number, whole_number

T = TypeVar("T")
READERS: dict[Any, tuple[str, Any]] = {
    int: ("INT", whole_number),
    float: ("FLOAT", real_number),
    str: ("TEXT", str),
    Path: ("PATH", Path),
}
NONE = "none"
LARGEST_SEED = 2**32 - 1
# Smallest and largest value, by the name of the option; None where a command has a message of its own.
LIMITS: dict[str, tuple[float | None, float]] = {
    **dict.fromkeys(("seed", "seed_list", "first_seed", "run_seed"), (0, LARGEST_SEED)),
    **dict.fromkeys(("seeds", "lanes"), (None, 100_000)),
    **dict.fromkeys(("workers", "processes"), (None, 1000)),
    "episodes": (None, 10_000_000),
    "until": (1, math.inf),
    "depth": (None, 1_000_000),
    "minutes": (0, 1e6),
    "refresh_seconds": (None, 86_400.0),
    "mass": (0, 1),
}
REGISTRY = ConstructorRegistry()
CONFIG = (tyro.conf.OmitArgPrefixes,)  # an option of a group is --option, not --group.option


def parse(kind: type[T], arguments: Sequence[str], prog: str) -> T:
    """The command that the arguments describe; leaves the process with a message if they are wrong.

    Raises UsageError if a number is beyond what can be used.
    """
    if os.environ.get("NO_COLOR"):  # no-color.org
        tyro._experimental_options["ansi_codes"] = False
    about = inspect.cleandoc(kind.__doc__ or "")
    command = tyro.cli(kind, description=about, prog=prog, args=arguments, registry=REGISTRY, config=CONFIG)
    check_limits(command)
    return command


def help_text(kind: type, name: str) -> str:
    """What `asymrl NAME --help` prints, as wide as COLUMNS, without colour."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        parse(kind, ["--help"], f"asymrl {name}")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue())
    return "\n".join(line.rstrip() for line in plain.strip().splitlines())


def check_limits(command: Any) -> None:
    """Raises UsageError if a number of a command, or of a group of its options, is beyond what can be used."""
    for each in fields(command):
        value: Any = getattr(command, each.name)
        if is_dataclass(value):
            check_limits(value)
        elif each.name in LIMITS and value is not None:
            _check_limit(each.name, value if isinstance(value, tuple) else (value,))


def _check_limit(name: str, numbers: Sequence[float]) -> None:
    low, high = LIMITS[name]
    for number in numbers:
        if (low is not None and not number >= low) or number > high:
            least = f"between {low:g} and" if low is not None else "at most"
            raise UsageError(f"--{name.replace('_', '-')} {number}: choose a number {least} {high:.10g}")


def summary(command: type) -> str:
    """The first sentence of the documentation of a command."""
    return " ".join(inspect.cleandoc(command.__doc__ or "").partition("\n\n")[0].split())


def descriptions(described: type) -> dict[str, str]:
    """The string below each field of a dataclass and its bases, in one line."""
    texts: dict[str, str] = {}
    for base in reversed(described.__mro__[:-1]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for node, below in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(node, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(node.target, ast.Name):
                texts[node.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return texts


def typed(value: Any) -> str:
    """A value as one types it, and as the help shows it: 2M rather than 2000000."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return " ".join(map(typed, value))
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return count_text(int(value))
    return NONE if value is None else str(value)


def default_hint(default: Any) -> str:
    """What the help says about a default; nothing where it is nothing, or the text says what happens."""
    return "" if default is None or default is False or default in ((), "") else f"(default: {typed(default)})"


@REGISTRY.struct_rule
def _group(info: StructTypeInfo) -> StructConstructorSpec | None:
    """A command, or a group of options."""
    if not is_dataclass(info.type) or not isinstance(info.type, type) or info.type.__module__.startswith("tyro"):
        return None
    hints, texts = typing.get_type_hints(info.type, include_extras=True), descriptions(info.type)
    options = []
    for each in fields(info.type):
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        hint, text = hints[each.name], texts.get(each.name, "")
        if default is MISSING:
            default = tyro.MISSING
        elif not is_dataclass(default) and not isinstance(default, Mapping):
            text = re.sub(r"\bNone:", "Default:" if default is None else "none:", text)
            kind, *own = (hint.__origin__, *hint.__metadata__) if hasattr(hint, "__metadata__") else (hint,)
            hint: Any = Annotated[(kind, tyro.conf.arg(help_behavior_hint=default_hint(default)), *own)]
        options.append(StructFieldSpec(each.name, hint, default, helptext=text or None))
    return StructConstructorSpec(instantiate=info.type, fields=tuple(options))


@REGISTRY.primitive_rule
def _value(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Text, paths, and whole and real numbers: 2M, 500k, 1e6."""
    if info.type not in READERS:
        return None
    metavar, read = READERS[info.type]
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda texts: read(texts[0]),
        is_instance=lambda value: isinstance(value, int | float | str | Path),
        str_from_instance=lambda value: [typed(value)],
    )


@REGISTRY.primitive_rule
def _optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """A value that may be none, which is written so, or one of some words; without `{None}|` in messages."""
    if typing.get_origin(info.type) not in (types.UnionType, typing.Union):
        return None
    choices = typing.get_args(info.type)
    words = [word for part in choices if typing.get_origin(part) is typing.Literal for word in typing.get_args(part)]
    parts = [part for part in choices if part is not types.NoneType and typing.get_origin(part) is not typing.Literal]
    if len(parts) != 1 or types.NoneType not in choices:
        return None
    is_tuple = typing.get_origin(parts[0]) is tuple
    inner = typing.get_args(parts[0])[0] if is_tuple else parts[0]
    if inner not in READERS:
        return None
    metavar, read = READERS[inner]

    def value_of(texts: list[str]) -> Any:
        if [text.lower() for text in texts] == [NONE]:
            return None
        if len(texts) == 1 and texts[0].lower() in words:
            return texts[0].lower()
        if is_tuple and inner in (int, float):  # 64,32 as well as 64 32
            texts = [part for text in texts for part in text.split(",")]
        try:
            return tuple(map(read, texts)) if is_tuple else read(texts[0])
        except ValueError as error:
            raise ValueError(" or ".join([str(error), *words])) from None

    return PrimitiveConstructorSpec(
        nargs="*" if is_tuple else 1,
        metavar="|".join([f"{metavar} ..." if is_tuple else metavar, *words]),
        instance_from_str=value_of,
        is_instance=lambda value: value is None or value in words or isinstance(value, tuple if is_tuple else inner),
        str_from_instance=lambda value: [typed(part) for part in (value if isinstance(value, tuple) else (value,))],
    )
