"""Worlds from files."""

from __future__ import annotations

from asymrl.adapters.files.reader import read
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.world import DEFAULT_TIME_LIMIT


def world_from_file(
    path: str,
    *,
    discount: float | int | None = None,
    episodic: bool = True,
    time_limit: int | None = DEFAULT_TIME_LIMIT,
) -> FiniteWorld:
    """The world in a `.pomdp` file.

    Args:
        path: the file.
        discount: instead of the one in the file.
        episodic: whether a `reset` row ends the episode; otherwise it only goes back to the start.
        time_limit: steps after which an episode is cut off.

    Raises:
        FileError: with line and column, if the file can not be read.
    """
    return read(path, episodic=episodic).world(discount=discount, time_limit=time_limit)
