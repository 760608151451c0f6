"""The events that a pool reports: runs that advance, runs that are over, states to keep, and trouble."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from asymrl.runs.saved_runs import SavedRuns
    from asymrl.runs.tables import RunResult
    from asymrl.settings import Settings


class Opened(NamedTuple):
    """A pool is being compiled."""

    shape: Settings
    lanes: int


class Advanced(NamedTuple):
    """The runs in the lanes of a pool were trained a little further."""

    results: Mapping[int, RunResult]


class Retired(NamedTuple):
    """A run is over and has left its lane."""

    number: int
    result: RunResult
    saved: SavedRuns | None


class Stopped(NamedTuple):
    """Runs without a lane were stopped. Those in a lane are `Retired`."""

    numbers: tuple[int, ...]


class Checkpointed(NamedTuple):
    """The runs in the lanes of a pool, to be kept in case they are interrupted."""

    saved: SavedRuns


class Failed(NamedTuple):
    """A run could not go on, and has left its lane; it can be tried again from where it was."""

    number: int
    reason: str
    """A line, and under it the traceback of the user's code if that is at fault."""
    saved: SavedRuns | None


class Broken(NamedTuple):
    """Runs could not be trained."""

    numbers: tuple[int, ...]
    reason: str


class Noted(NamedTuple):
    """Something that the user may want to know."""

    message: str


Event = Opened | Advanced | Retired | Failed | Stopped | Checkpointed | Broken | Noted
