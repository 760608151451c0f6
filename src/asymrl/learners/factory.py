"""The program for given settings, made once."""

from __future__ import annotations

import functools
import threading
from collections.abc import Hashable

from asymrl.learners.compiled import CompiledProgram
from asymrl.learners.program import Program
from asymrl.learners.state import named_world
from asymrl.learners.stepped import SteppedProgram
from asymrl.settings import Settings
from asymrl.worlds.registry import version_of
from asymrl.worlds.stepped_world import SteppedWorld

_lock = threading.Lock()


def program(settings: Settings) -> Program:
    """The program for these settings, one per shape and version of the code that they name."""
    with _lock:
        return _program(settings.shape(), tuple(map(version_of, settings.code_names)))


@functools.lru_cache(maxsize=16)
def _program(shape: Settings, version: Hashable) -> Program:
    del version  # part of the key
    world = named_world(shape)
    if isinstance(world, SteppedWorld):
        return SteppedProgram(shape, world)
    return CompiledProgram(shape, world)
