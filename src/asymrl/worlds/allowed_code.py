"""Code that may run in this process, by the name that settings have for it: what the user has named or trusts.

Settings in a folder can come from somebody else. What they name is imported only if it is allowed here.
"""

from __future__ import annotations

_ALLOWED: set[str] = set()


class UntrustedCodeError(ValueError):
    """A name would run code that the user has not named."""


def allow(*names: str) -> None:
    """The user has named this code, such as `tmaze.py:TMaze:length=9`, or trusts it."""
    _ALLOWED.update(names)


def is_allowed(name: str) -> bool:
    return name in _ALLOWED


def check_allowed(name: str) -> None:
    """Raises UntrustedCodeError unless this code is allowed."""
    if name not in _ALLOWED:
        raise UntrustedCodeError(
            f"{name} would run code that a file names, not you; if you trust it, say so with --trust, or trust=True in "
            "Python"
        )


def allowed_names() -> tuple[str, ...]:
    """All of them, for other processes of the same user."""
    return tuple(sorted(_ALLOWED))
