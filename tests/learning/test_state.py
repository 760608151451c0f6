"""The arrays of a run and their names."""

from __future__ import annotations

import jax
import pytest

from asymrl.learning.programs.compiled import CompiledProgram
from asymrl.learning.state import training_world, upgrade_array_names
from asymrl.settings import DQNSettings
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
    assert upgrade_array_names({old: i for i, old in enumerate(OLD_NAMES)}) == {
        new: i for i, new in enumerate(OLD_NAMES.values())
    }
    paths = jax.tree_util.tree_leaves_with_path(CompiledProgram(tiny(world="heaven-hell-1")).shapes)
    names = {jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths}
    assert set(OLD_NAMES.values()) <= names
    assert upgrade_array_names(dict.fromkeys(names)) == dict.fromkeys(names)


def test_action_values_need_a_list_of_actions():
    with pytest.raises(ValueError, match="adqn needs a list of actions in dials, but its actions are vectors"):
        training_world(DQNSettings(world="dials", time_limit=3), Dials())
