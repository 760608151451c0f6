"""Records one update of RecurrentPPO of Stable-Baselines3, which `test_recurrent_ppo.py` repeats.

    pip install sb3-contrib
    python -m tests.learners.record_recurrent_ppo

Last recorded with Python 3.11.7, sb3-contrib 2.9.2, torch 2.13.0, gymnasium 1.4.0, numpy 2.4.6.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from benchmarks.recurrent_ppo import Task, recurrent_ppo

RECORD = Path(__file__).parent / "data" / "recurrent_ppo_update.npz"
TASK = Task(streams=4, length=16, time_limit=10, epochs=4, memory_size=8, hidden=(16,), entropy_weight=0.02)
REMAINING = 0.5  # of training, and so of the rate


def weights_of(policy: Any) -> dict[str, np.ndarray]:
    """The parameters, transposed as ours are, by network and in the order memory, hidden layers, last layer."""
    weights = {}
    for name, lstm, hidden, last in (
        ("actor", policy.lstm_actor, policy.mlp_extractor.policy_net, policy.action_net),
        ("critic", policy.lstm_critic, policy.mlp_extractor.value_net, policy.value_net),
    ):
        layers = [*(layer for layer in hidden if hasattr(layer, "weight")), last]
        memory = (lstm.weight_ih_l0.T, lstm.weight_hh_l0.T, lstm.bias_ih_l0)
        parts = [*memory, *(part for layer in layers for part in (layer.weight.T, layer.bias))]
        weights |= {f"{name}.{i}": part.detach().numpy().copy() for i, part in enumerate(parts)}
    return weights


def recorded_update() -> dict[str, np.ndarray]:
    """The steps of a rollout, memories before it, and weights before and after the update."""
    from stable_baselines3.common.callbacks import BaseCallback  # pyright: ignore[reportMissingImports]

    model = recurrent_ppo(TASK, seed=1)
    model.normalize_advantage = False  # its standard deviation is the unbiased one
    for lstm in (model.policy.lstm_actor, model.policy.lstm_critic):
        lstm.bias_hh_l0.data.zero_()  # ours has one bias
        lstm.bias_hh_l0.requires_grad_(False)
    seen, truncated = [], []

    class Notes(BaseCallback):
        def _on_step(self) -> bool:
            after, infos = self.locals["new_obs"].copy(), self.locals["infos"]
            for i in np.flatnonzero(self.locals["dones"]):
                after[i] = infos[i]["terminal_observation"]
            seen.append(after)
            truncated.append([info.get("TimeLimit.truncated", False) for info in infos])
            return True

    with mock.patch.object(model, "train"):
        model.learn(2 * TASK.streams * TASK.length, callback=Notes())  # the second rollout begins inside episodes
    buffer = model.rollout_buffer
    record = {
        "observations": buffer.observations.copy(),
        "next_observations": np.array(seen[-TASK.length :]),
        "actions": buffer.actions[..., 0].astype(np.int32),
        "log_chosen": buffer.log_probs.copy(),
        "first": buffer.episode_starts.astype(bool),
        "ended": np.concatenate([buffer.episode_starts[1:], model._last_episode_starts[None]]).astype(bool),
        "truncated": np.array(truncated[-TASK.length :]),
    }
    for name, short in (("actor", "pi"), ("critic", "vf")):
        for part, kind in (("h", "hidden"), ("c", "cell")):
            record[f"memory.{name}.{part}"] = getattr(buffer, f"{kind}_states_{short}")[0, 0].copy()
    record |= {f"before.{name}": part for name, part in weights_of(model.policy).items()}
    model._current_progress_remaining = REMAINING
    with mock.patch("numpy.random.randint", return_value=0):  # where a stream would be cut
        model.train()
    return record | {f"after.{name}": part for name, part in weights_of(model.policy).items()}


if __name__ == "__main__":
    RECORD.parent.mkdir(exist_ok=True)
    np.savez_compressed(RECORD, allow_pickle=False, **recorded_update())
