"""Lists of names of what an actor or a critic sees. Importing this is cheap: settings are made before JAX is needed."""

from __future__ import annotations

import re


def split_names(text: str) -> tuple[str, ...]:
    """The names in a list such as `state+time` or `heights,friction`."""
    return tuple(name.strip() for name in re.split(r"[+,]", text)) if text else ()
