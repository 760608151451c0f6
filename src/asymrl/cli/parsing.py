"""How the command line is read: numbers as people type them, and options that may be none."""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from asymrl.settings.quantities import count_text, real_number, whole_number

T = TypeVar("T")
READERS: dict[Any, tuple[str, Any]] = {
    int: ("INT", whole_number),
    float: ("FLOAT", real_number),
    str: ("TEXT", str),
    Path: ("PATH", Path),
}
NONE = "none"
REGISTRY = ConstructorRegistry()


def parse(kind: type[T], arguments: Sequence[str], prog: str, default: T | None = None) -> T:
    """The command that the arguments describe; leaves the process with a message if they are wrong."""
    respect_no_color()
    if default is None:
        return tyro.cli(kind, prog=prog, args=arguments, registry=REGISTRY)
    return tyro.cli(kind, prog=prog, args=arguments, default=default, registry=REGISTRY)


def respect_no_color() -> None:
    """Lets messages of the parser be without colour where NO_COLOR is set, as everything else is (no-color.org)."""
    if os.environ.get("NO_COLOR"):
        tyro._experimental_options["ansi_codes"] = False


def _typed(value: Any) -> str:
    """A value as one types it, and as the help page shows it: 2M rather than 2000000."""
    return count_text(value) if type(value) is int else str(value)


@REGISTRY.primitive_rule
def _number(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Whole and real numbers: 2M, 500k, 1e6."""
    if info.type not in (int, float):
        return None
    metavar, read = READERS[info.type]
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda texts: read(texts[0]),
        is_instance=lambda value: isinstance(value, int | float),
        str_from_instance=lambda value: [_typed(value)],
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

    def texts_of(value: Any) -> list[str]:
        return [NONE] if value is None else [_typed(part) for part in (value if is_tuple else (value,))]

    return PrimitiveConstructorSpec(
        nargs="*" if is_tuple else 1,
        metavar="|".join([f"{metavar} ..." if is_tuple else metavar, *words]),
        instance_from_str=value_of,
        is_instance=lambda value: value is None or value in words or isinstance(value, tuple if is_tuple else inner),
        str_from_instance=texts_of,
    )
