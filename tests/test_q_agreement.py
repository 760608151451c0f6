"""The two networks of an asymmetric DQN side by side."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scripts.q_agreement import agreement, rows

from asymrl.learners.compiled import CompiledProgram
from asymrl.runs.runs import Run
from asymrl.runs.trained import TrainedRuns
from asymrl.settings import DQNSettings

TINY: dict[str, Any] = {"memory_size": 4, "hidden": (4,), "time_limit": 6, "prefill": 10, "replay_steps": 20}


def test_an_action_is_judged_by_the_privileged_values_of_steps_that_were_taken():
    of_history = jnp.asarray([[[1.0, 2.0]], [[5.0, 0.0]], [[0.0, 9.0]]])
    privileged = jnp.asarray([[[0.0, 3.0]], [[1.0, 2.0]], [[7.0, 0.0]]])
    numbers = agreement(of_history, privileged, jnp.asarray([[True], [True], [False]]))
    assert {name: float(value) for name, value in numbers.items()} == {"agree": 0.5, "lost": 0.5, "range": 2.0}


def trained(method: str, **others: Any) -> TrainedRuns:
    settings = DQNSettings(world="heaven-hell-1", method=method, steps=100, **TINY, **others)
    program, seeds = CompiledProgram(settings), (0, 3)
    runs = tuple(Run(settings, seed) for seed in seeds)
    return TrainedRuns((0, 1), runs, program.start(seeds), program.world)


@pytest.mark.parametrize("others", [{}, {"bootstrap_truncated": True}, {"critic_sees": "sampled-state"}])
def test_there_is_a_row_for_each_run(others: dict[str, Any]):
    found = rows(trained("adqn-vr", **others), episodes=2, epsilon=0.5)
    assert [row["seed"] for row in found] == [0, 3]
    for row in found:
        assert 0 <= row["agree"] <= 1
        assert 0 <= row["lost"] <= row["range"]
        assert np.isfinite(row["return"])
    assert found[0]["range"] != found[1]["range"]


def test_there_is_none_for_a_dqn_without_a_privileged_network():
    assert rows(trained("dqn"), episodes=1, epsilon=0.0) == []
