"""Which worlds a learner can be trained in."""

from __future__ import annotations

import pytest

from asymrl.learners.state import training_world
from asymrl.settings import DQNSettings
from tests.worlds.dials import Dials


def test_action_values_need_a_list_of_actions():
    with pytest.raises(ValueError, match="adqn needs a list of actions in dials, but its actions are vectors"):
        training_world(DQNSettings(world="dials", time_limit=3), Dials())
