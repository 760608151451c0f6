"""Values of options that no command can use, refused at one place before anything else is done."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from asymrl.cli.usage import UsageError

LARGEST_SEED = 2**32 - 1
DAY = 86_400.0
# Smallest and largest value, by the name of the option; None where a command has a message of its own.
LIMITS: dict[str, tuple[float | None, float]] = {
    "seeds": (None, 100_000),
    "seed": (0, LARGEST_SEED),
    "seed_list": (0, LARGEST_SEED),
    "first_seed": (0, LARGEST_SEED),
    "run_seed": (0, LARGEST_SEED),
    "episodes": (None, 10_000_000),
    "until": (1, math.inf),
    "depth": (None, 1_000_000),
    "minutes": (0, 1e6),
    "refresh_seconds": (None, DAY),
    "lanes": (None, 100_000),
    "workers": (None, 1000),
    "processes": (None, 1000),
    "mass": (0, 1),
}


def check_limits(command: Any) -> None:
    """Raises UsageError if a number of a command is beyond what can be used."""
    for each in fields(command):
        value = getattr(command, each.name)
        if each.name not in LIMITS or value is None:
            continue
        low, high = LIMITS[each.name]
        for number in value if isinstance(value, tuple) else (value,):
            if (low is not None and not number >= low) or number > high:
                least = f"between {low:g} and" if low is not None else "at most"
                name = each.name.replace("_", "-")
                raise UsageError(f"--{name} {number}: choose a number {least} {high:.10g}")
