"""Errors of the user, and what several commands ask the user for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asymrl.envs import World


class UsageError(ValueError):
    """The command line asks for something that can not be. Printed as one line, without a traceback."""


def world_named(name: str) -> World:
    """The world that the user asked for."""
    from asymrl.envs import make

    try:
        return make(name)
    except ValueError as error:
        raise UsageError(str(error)) from error
