"""Arrays of checkpoints that earlier versions wrote, in today's form."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from asymrl.learners.state import BETWEEN_UPDATES
from asymrl.nn.grid_state import zero_rows
from asymrl.settings import Settings


def upgrade_arrays(arrays: dict[str, np.ndarray], version: int, settings: Settings) -> dict[str, np.ndarray]:
    """The arrays of saved runs with these settings, in today's form.

    Those of the optimisers used to be two levels deeper, and every update of DQN was finished before the next began.
    Before version 3, the heads of critics that read a grid had no zeros for their inputs beside the agent.
    """
    if version == 1:
        arrays = {re.sub(r"^(actor|critic)_adam\.1\.0\.", r"\1_adam.", name): array for name, array in arrays.items()}
    if "owed" in arrays and "drawn" not in arrays:
        arrays = {**arrays, "drawn": np.full(arrays["owed"].shape, BETWEEN_UPDATES, np.int32)}
    if version < 3:
        history = settings.memory_size if "h" in settings.how.reads else 0
        arrays = {
            name: _with_zero_rows(array, history) if _reads_grid(name, arrays) else array
            for name, array in arrays.items()
        }
    return arrays


def _reads_grid(name: str, names: Collection[str]) -> bool:
    """Whether an array is the first layer after the features of a grid."""
    network, first, rest = name.partition("head.layers.0.weight")
    features = (f"{network}phi_s.{part}" for part in ("embedding.table", "kernels.0"))
    return bool(first) and not rest and all(each in names for each in features)


def _with_zero_rows(weights: np.ndarray, history: int) -> np.ndarray:
    """The weights of runs `[run, inputs, outputs]`, of which `history` inputs come first; see `aligned`."""
    first, zeros = zero_rows(weights.shape[1], history)
    return np.insert(weights, [first] * zeros, 0, axis=1)
