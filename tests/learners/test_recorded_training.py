"""Twenty updates of each learner, in a compiled world and in one that runs in Python, as they were recorded.

Each case trains two runs. One has learning rates of nearly zero: its numbers are counts, lengths and returns of
episodes that depend on the random keys alone, so they are equal on any machine. The other learns; its losses and norms
of gradients agree up to rounding. `python -m tests.learners.test_recorded_training` records them again.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asymrl
from asymrl.settings import new_settings

RECORD = Path(__file__).parent / "data" / "recorded_training.json"
SMALL: dict[str, Any] = {"memory_size": 4, "hidden": (4,), "log_points": 20}
NONE = 1e-30  # as good as zero in float32, and a positive number
NO_RATES = {"a2c": {"actor_rate": NONE, "critic_rate": NONE}}
NO_RATE = {"learning_rate": NONE}
ON_PPO: dict[str, Any] = {"streams": 2, "rollout": 16, "epochs": 2, "minibatches": 2, "steps": 640}
ON_DQN: dict[str, Any] = {"prefill": 100, "replay_steps": 2000, "steps": 700}
CASES: dict[str, dict[str, Any]] = {
    "a2c": {"world": "heaven-hell-3", "method": "a2c-asym-hs", "steps": 1500},
    "a2c in Python": {"world": "CartPole-v1", "method": "a2c", "steps": 800},
    "ppo": {"world": "heaven-hell-3", "method": "ppo-asym-hs", **ON_PPO},
    "ppo in Python, normalised": {
        **{"world": "CartPole-v1", "method": "ppo", **ON_PPO},
        **{"normalise_observations": True, "normalise_rewards": True},
    },
    "dqn": {"world": "heaven-hell-3", "method": "adqn-vr", **ON_DQN},
    "dqn in Python": {"world": "CartPole-v1", "method": "dqn", **ON_DQN},
}
COUNTS = ("timestep", "episode", "update")
OF_EPISODES = ("return", "length")  # means over recent episodes, of whole numbers
LEARNED = ("critic_loss", "policy_loss", "negentropy_loss", "critic_gradient_norm", "actor_gradient_norm")


def trained(case: str, folder: Path) -> list[dict[str, list[float | None]]]:
    """The learning curves of the run that does not learn, and of the one that does."""
    settings = CASES[case]
    learner = settings["method"].partition("-")[0]
    still = new_settings(**settings, **SMALL, **NO_RATES.get(learner, NO_RATE))
    runs = asymrl.train([still, new_settings(**settings, **SMALL)], seeds=[3], out=folder)
    table = runs.metrics.sort("run", "timestep")
    columns = (*COUNTS, *OF_EPISODES, *LEARNED)
    curves = [table.filter(table["run"] == run) for run in (0, 1)]
    return [{name: curve[name].cast(float).fill_nan(None).to_list() for name in columns} for curve in curves]


def numbers(curve: dict[str, list[float | None]], names: tuple[str, ...]) -> np.ndarray:
    return np.array([[np.nan if x is None else x for x in curve[name]] for name in names])


@pytest.mark.parametrize("case", CASES)
def test_the_first_updates_are_those_recorded(case: str, tmp_path: Path):
    still, learns = trained(case, tmp_path / "runs")
    recorded_still, recorded_learns = json.loads(RECORD.read_text())[case]
    np.testing.assert_array_equal(numbers(still, COUNTS), numbers(recorded_still, COUNTS))
    np.testing.assert_allclose(numbers(still, OF_EPISODES), numbers(recorded_still, OF_EPISODES), rtol=1e-6)
    for names, rounding in ((COUNTS, 0.0), (OF_EPISODES, 1e-6), (LEARNED, 1e-4)):
        np.testing.assert_allclose(
            numbers(learns, names), numbers(recorded_learns, names), rtol=rounding, atol=rounding, err_msg=str(names)
        )


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    with tempfile.TemporaryDirectory() as place:
        recorded = {case: trained(case, Path(place, str(i))) for i, case in enumerate(CASES)}
    RECORD.write_text(json.dumps(recorded, separators=(",", ":")) + "\n")
