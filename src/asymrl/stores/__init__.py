"""Runs and the folders that keep them: what they are, what they reached, how to continue.

A `Run` is one training: settings and a seed. A `Store` is a folder with runs; reading it needs this package only.
`convert_sweep` reads sweeps of versions before 0.2. A `RunError` is a problem that the user can fix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.stores.earlier_results import convert_sweep as convert_sweep
    from asymrl.stores.files import RunError as RunError, StorageError as StorageError
    from asymrl.stores.runs import Run as Run
    from asymrl.stores.store import Store as Store

__getattr__, __dir__ = exports(
    __name__,
    {
        "asymrl.stores.earlier_results": ["convert_sweep"],
        "asymrl.stores.files": ["RunError", "StorageError"],
        "asymrl.stores.runs": ["Run"],
        "asymrl.stores.store": ["Store"],
    },
)
