"""Arrays of checkpoints that earlier versions wrote become those of today."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from asymrl.learners.compiled import CompiledProgram
from asymrl.runs.earlier_arrays import upgrade_arrays
from asymrl.runs.states import array_shapes, to_arrays
from asymrl.settings import DQNSettings, new_settings
from tests.learners.small import tiny

SETTINGS = tiny(world="heaven-hell-1")
# As checkpoints had them while the optimiser was a chain of two parts.
OLD_NAMES = {
    "actor_adam.1.0.count": "actor_adam.count",
    "actor_adam.1.0.mu.head.layers.0.bias": "actor_adam.mu.head.layers.0.bias",
    "critic_adam.1.0.nu.history.memory.hidden_weight": "critic_adam.nu.history.memory.hidden_weight",
    "critic.history.memory.hidden_weight": "critic.history.memory.hidden_weight",
    "curve": "curve",
}


def test_old_names_of_arrays_become_those_of_today():
    arrays = {old: np.full(1, i) for i, old in enumerate(OLD_NAMES)}
    assert upgrade_arrays(arrays, 1, SETTINGS) == dict(zip(OLD_NAMES.values(), arrays.values(), strict=True))
    assert upgrade_arrays(arrays, 2, SETTINGS) == arrays
    paths = jax.tree_util.tree_leaves_with_path(CompiledProgram(SETTINGS).shapes)
    names = {jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths}
    assert set(OLD_NAMES.values()) <= names
    today = dict.fromkeys(names, np.zeros(1))
    assert upgrade_arrays(today, 1, SETTINGS) == today


def test_runs_of_dqn_that_were_saved_between_updates_still_are():
    """Before runs could be saved inside an update, nothing was said about that."""
    settings = DQNSettings(world="heaven-hell-1", memory_size=4, hidden=(4,))
    today = CompiledProgram(settings).start([0, 1])
    arrays = to_arrays(today)
    before = {name: array for name, array in arrays.items() if name != "drawn"}
    np.testing.assert_array_equal(upgrade_arrays(before, 2, settings)["drawn"], arrays["drawn"])
    assert not np.any(today.is_unfinished)


GRID_CRITICS = [
    ("a2c-asym-s", "state", 4),
    ("a2c-asym-hs", "state", 4),
    ("a2c-asym-hs", "state+time", 0),  # a grid that is one part of a signal has no zeros
    ("ppo-asym-s", "state", 3),  # without a target
    ("adqn", "state", 4),
    ("adqn-state", "state", 4),
]


@pytest.mark.parametrize(("method", "sees", "padded"), GRID_CRITICS)
def test_critics_of_grids_that_were_saved_without_zeros_beside_the_agent_have_the_same_values(
    method: str, sees: str, padded: int
):
    """Their first layers get rows for these inputs, in the networks, targets and optimisers; nothing else changes."""
    options = {"critic_sees": sees, "memory_size": 4, "hidden": (4,), "steps": 100}
    settings = new_settings(world="memory-four-rooms-7x7", method=method, **options)
    settings = replace(settings, replay_steps=100, prefill=0) if isinstance(settings, DQNSettings) else settings
    shapes = {name: shape.shape for name, shape in array_shapes(CompiledProgram(settings)).items()}
    rng = np.random.default_rng(0)
    today = {name: rng.normal(size=(2, *shape)) for name, shape in shapes.items() if "head" in name or "phi_s" in name}
    history = settings.memory_size if "h" in settings.how.reads else 0
    wide = [name for name, array in today.items() if sees == "state" and array.shape[1] > 3000]
    assert len(wide) == padded
    at = history + 6
    for name in wide:
        today[name][:, at : at + 2] = 0.0
    before = {name: np.delete(array, [at, at + 1], axis=1) if name in wide else array for name, array in today.items()}
    upgraded = upgrade_arrays(before, 2, settings)
    for name, array in today.items():
        np.testing.assert_array_equal(upgraded[name], array, err_msg=name)
        np.testing.assert_array_equal(upgrade_arrays(today, 3, settings)[name], array, err_msg=name)
