"""The form in which Gymnasium's vector environments report: arrays with a mask `_key` beside each `key`."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool

from asymrl.adapters.gym.spaces import entry

Mask = Bool[np.ndarray, "num_envs"]


def state_info(states: Any, mask: Mask) -> dict[str, Any]:
    """`{"state": states}` for the environments in the mask; the values of the others are zero.

    The arrays are used as they are, not copied.
    """
    return {"state": _masked(states, mask), "_state": mask.copy()}


def final_info(observations: Any, states: Any, ended: Mask) -> dict[str, Any]:
    """The last observations and states of the episodes that have ended."""
    final_observations = np.full(len(ended), None, dtype=object)
    for i in np.flatnonzero(ended).tolist():
        final_observations[i] = entry(observations, i)
    return {
        "final_obs": final_observations,
        "_final_obs": ended.copy(),
        "final_info": state_info(states, ended),
        "_final_info": ended.copy(),
    }


def without_masks(states: Any) -> Any:
    """`info["state"]` of a vector environment without the masks that stand between the parts of a dictionary."""
    if isinstance(states, dict):
        return {key: value for key, value in states.items() if not key.startswith("_")}
    return states


def _masked(values: Any, mask: Mask) -> Any:
    if isinstance(values, dict):
        parts: dict[str, Any] = {}
        for key, value in values.items():
            parts[key], parts[f"_{key}"] = _masked(value, mask), mask.copy()
        return parts
    values[~mask] = 0
    return values
