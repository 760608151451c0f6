"""The arrays of a run and their names."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from asymrl.learning.programs.compiled import CompiledProgram
from asymrl.learning.state import training_world, upgrade_arrays
from asymrl.settings import DQNSettings
from asymrl.stores.checkpoints.states import to_arrays
from tests.learning.small import tiny
from tests.worlds.dials import Dials

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
    assert upgrade_arrays(arrays, 1) == dict(zip(OLD_NAMES.values(), arrays.values(), strict=True))
    assert upgrade_arrays(arrays, 2) == arrays
    paths = jax.tree_util.tree_leaves_with_path(CompiledProgram(tiny(world="heaven-hell-1")).shapes)
    names = {jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths}
    assert set(OLD_NAMES.values()) <= names
    today = dict.fromkeys(names, np.zeros(1))
    assert upgrade_arrays(today, 1) == today


def test_runs_of_dqn_that_were_saved_between_updates_still_are():
    """Before runs could be saved inside an update, nothing was said about that."""
    today = CompiledProgram(DQNSettings(world="heaven-hell-1", memory_size=4, hidden=(4,))).start([0, 1])
    arrays = to_arrays(today)
    before = {name: array for name, array in arrays.items() if name != "drawn"}
    np.testing.assert_array_equal(upgrade_arrays(before, 2)["drawn"], arrays["drawn"])
    assert not np.any(today.is_unfinished)


def test_action_values_need_a_list_of_actions():
    with pytest.raises(ValueError, match="adqn needs a list of actions in dials, but its actions are vectors"):
        training_world(DQNSettings(world="dials", time_limit=3), Dials())
