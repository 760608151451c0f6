"""The names of memories. Importing this is cheap: settings are made before JAX is needed."""

from __future__ import annotations

from asymrl.worlds.user_classes import is_class_name

MEMORIES = ("gru", "lstm", "rnn", "attention", "none")


def is_users(memory: str) -> bool:
    """Whether a memory is a class of the user's own, rather than one of the kinds or a stack of them."""
    return memory.partition(":")[0] not in MEMORIES and is_class_name(memory)
