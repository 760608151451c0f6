"""Runs that another store has trained already need not be trained again."""

from __future__ import annotations

from asymrl.stores.files import RunError
from asymrl.stores.store import Store


def reuse(store: Store, other: Store) -> int:
    """Copies what runs reached that are over in another store and the same here: equal settings and seed.

    Args:
        store: was taken, and does not keep networks, which are not copied.
        other: where runs were trained.

    Returns:
        how many runs were copied.

    Raises:
        RunError: if this store keeps networks.
    """
    if store.keeps_networks:
        raise RunError(f"{store.path}: keeps the networks of its runs, which {other.path} does not give")
    over = {other.runs[number]: result for number, result in other.results().items() if result.is_over}
    found = {number: over[run] for number in store.unfinished() if (run := store.runs[number]) in over}
    if found:
        store.write_tables(found)
    return len(found)
