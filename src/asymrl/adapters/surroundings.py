"""What other processes need to make the same worlds: where files are, what may run, and worlds made in Python."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import NamedTuple

from asymrl.adapters.sources import is_registered, register, registered
from asymrl.adapters.user_code import Location, import_folders, locate, locations
from asymrl.worlds.allowed_code import allow, allowed_names
from asymrl.worlds.registry import split_options


class Surroundings(NamedTuple):
    """What this process knows besides its settings. It can be sent to another process of the same user."""

    allowed: tuple[str, ...] = ()
    """Names of code that may run."""
    files: tuple[tuple[str, Location], ...] = ()
    worlds: tuple[tuple[str, bytes], ...] = ()
    """Worlds made in Python, by name."""
    folders: tuple[str, ...] = ()
    """Where the modules of those are."""

    def set_up(self) -> None:
        """Makes all of it known in this process."""
        import cloudpickle

        allow(*self.allowed)
        sys.path[:0] = [folder for folder in self.folders if folder not in sys.path]
        for source, location in self.files:
            locate(source, location)
        for name, data in self.worlds:
            if not is_registered(name):
                register(name, cloudpickle.loads(data))


def surroundings_of(worlds: Collection[str]) -> Surroundings:
    """What other processes need for the worlds with these names.

    Raises:
        ValueError: if a world was made in Python and cannot be sent.
    """
    import cloudpickle

    sent = {}
    for name in {split_options(world)[0] for world in worlds if is_registered(world)}:
        try:
            sent[name] = cloudpickle.dumps(registered(name))
        except Exception as error:
            raise ValueError(
                f"{name} was made in Python and cannot be sent to other processes ({type(error).__name__}: {error}); "
                "train it without --processes and Ray, or by a name that they can import, FILE.py:CLASS"
            ) from error
    folders = import_folders() if sent else []
    return Surroundings(allowed_names(), tuple(locations().items()), tuple(sorted(sent.items())), tuple(folders))
