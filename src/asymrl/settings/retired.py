"""Settings of earlier versions that are no longer a choice: files that chose what is left are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RETIRED: dict[str, tuple[Any, ...] | None] = {
    "attention_heads": None,
    "draws": ("shared",),
    "update_steps": (None,),
}
"""By name, the values that mean what every run does now; None: all values, where the setting alone changed nothing."""


def without_retired(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a file without those that are retired.

    Raises:
        ValueError: if one of them has a value that this version does not train with.
    """
    for name, allowed in RETIRED.items():
        if name in values and allowed is not None and values[name] not in allowed:
            raise ValueError(
                f"{name} is {values[name]!r}; this version of asymrl only reads runs with "
                f"{' or '.join(map(repr, allowed))}, so use the version that wrote them"
            )
    return {name: value for name, value in values.items() if name not in RETIRED}
