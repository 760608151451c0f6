"""Options after the name of a world, as text: `NAME:key=value,key=value`; and lists of names.

Importing this is cheap, since settings are made before JAX is needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

PREFIX = "env."  # in front of an argument of the environment's constructor that is also an option of asymrl
_WORDS = {"true": True, "false": False, "none": None}
_OPEN, _CLOSED = "[{", "]}"


def parse_options(name: str, text: str) -> dict[str, Any]:
    """The options in a text; `name` is the whole name, for errors.

    Values are numbers, true, false, none, text, or JSON: `map=["SF","FG"]`, `label="9"`.

    Raises:
        ValueError: if a part is not an option, or is given twice.
    """
    options: dict[str, Any] = {}
    for part in split_values(text):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"world {name!r}: {part!r} is not an option; write NAME:key=value,key=value")
        if key.strip() in options:
            raise ValueError(f"world {name!r}: the option {key.strip()} is given twice")
        options[key.strip()] = parse_value(name, value.strip())
    return options


def parsed_options(name: str, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options without `env.` in front, and those with it, which are arguments of a constructor."""
    options = parse_options(name, text)
    arguments = {key.removeprefix(PREFIX): value for key, value in options.items() if key.startswith(PREFIX)}
    return {key: value for key, value in options.items() if not key.startswith(PREFIX)}, arguments


def with_options(base: str, options: Mapping[str, Any]) -> str:
    """The inverse of `parse_options`, sorted. Raises ValueError if a value cannot be written as text."""
    if not options:
        return base
    return f"{base}:" + ",".join(f"{key}={_text(base, key, options[key])}" for key in sorted(options))


def split_values(text: str) -> list[str]:
    """The parts between commas that are not inside brackets or quotes."""
    parts, depth, quoted, start = [], 0, False, 0
    for i, letter in enumerate(text):
        if letter == '"' and text[i - 1 : i] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (letter in _OPEN) - (letter in _CLOSED)
            if letter == "," and depth <= 0:
                parts.append(text[start:i])
                start = i + 1
    return [part for part in (*parts, text[start:]) if part.strip()]


def parse_value(name: str, text: str) -> Any:
    """The value of an option of the world `name`, from text. Raises ValueError if it is damaged JSON."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    if text[:1] in ('"', *_OPEN):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"world {name!r:.200}: {text:.200} is not JSON: {error}") from None
    return text


def split_names(text: str) -> tuple[str, ...]:
    """The names of inputs in a list such as `state+time` or `heights,friction`."""
    return tuple(name.strip() for name in re.split(r"[+,]", text)) if text else ()


def _text(base: str, key: str, value: Any) -> str:
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()  # a number of NumPy
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    is_plain = isinstance(value, str) and value.strip() == value and not set(value) & set(',"[]{}')
    if is_plain and value and parse_value(base, value) == value:
        return value
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(
            f"{base}: the argument {key.removeprefix(PREFIX)} is a {type(value).__name__}, which cannot be kept with a "
            "run; give numbers, text, true, false, none, or lists of those, or name a function of your own that makes "
            "the environment"
        ) from None
