"""RecurrentPPO of Stable-Baselines3 on CartPole with hidden velocities, and the same task in our settings.

`scripts/against_sb3.py` compares what both learn. The settings are those of RL Zoo for RecurrentPPO in this task,
CartPoleNoVel-v1, apart from 10 epochs instead of 20, a constant clip range and smaller networks.

Both have the same networks and take one gradient step per epoch from the whole rollout. RecurrentPPO's observation
includes the previous action, which the memories here always read, and its layers are initialised as ours are. What
still differs: an LSTM has two biases in torch; RecurrentPPO divides by the unbiased standard deviation of the
advantages, and cuts one of its streams at a random place in each epoch, where gradients stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np


@dataclass(frozen=True)
class Task:
    """What both are given."""

    steps: int = 102_400
    time_limit: int = 500
    """Steps after which an episode is cut off."""
    streams: int = 8
    """Environments side by side."""
    length: int = 32
    """Steps of each environment per rollout."""
    epochs: int = 10
    rate: float = 1e-3
    """Learning rate, annealed to 0."""
    discount: float = 0.98
    gae_lambda: float = 0.8
    clip: float = 0.2
    max_norm: float = 0.5
    value_weight: float = 0.5
    entropy_weight: float = 0.0
    adam_eps: float = 1e-5
    memory_size: int = 64
    """Of the two LSTMs, one for the policy and one for the value."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of policy and value, with ReLU."""
    evaluation_episodes: int = 100
    """Of each point of a learning curve, with sampled actions."""


class HiddenVelocities(gymnasium.Wrapper):
    """Shows the previous action, one-hot (zeros at first), the cart's position and the pole's angle."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def reset(self, **options: Any) -> Any:
        observation, info = self.env.reset(**options)
        return np.array([0, 0, *observation[::2]], np.float32), info

    def step(self, action: Any) -> Any:
        observation, *rest = self.env.step(action)
        return np.array([action == 0, action == 1, *observation[::2]], np.float32), *rest


def environments(task: Task, count: int) -> Any:
    """CartPoles for Stable-Baselines3."""
    from stable_baselines3.common.vec_env import DummyVecEnv  # pyright: ignore[reportMissingImports]

    make = lambda: HiddenVelocities(gymnasium.make("CartPole-v1", max_episode_steps=task.time_limit))  # noqa: E731
    return DummyVecEnv([make] * count)


def recurrent_ppo(task: Task, seed: int) -> Any:
    """RecurrentPPO with the settings of the task, and layers initialised as `asymrl.nn.layers` does."""
    import torch  # pyright: ignore[reportMissingImports]
    from sb3_contrib import RecurrentPPO  # pyright: ignore[reportMissingImports]

    networks = {
        "lstm_hidden_size": task.memory_size,
        "net_arch": list(task.hidden),
        "activation_fn": torch.nn.ReLU,
        "ortho_init": False,
        "optimizer_kwargs": {"eps": task.adam_eps},
    }
    model = RecurrentPPO(
        "MlpLstmPolicy", environments(task, task.streams), device="cpu", seed=seed, policy_kwargs=networks,
        n_steps=task.length, batch_size=task.streams * task.length, n_epochs=task.epochs,
        learning_rate=lambda remaining: remaining * task.rate, gamma=task.discount, gae_lambda=task.gae_lambda,
        clip_range=task.clip, max_grad_norm=task.max_norm, vf_coef=task.value_weight, ent_coef=task.entropy_weight,
    )  # fmt: skip
    last = (model.policy.action_net, model.policy.value_net)
    for layer in model.policy.modules():
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.xavier_normal_(layer.weight, gain=1.0 if layer in last else 2.0**0.5)
            torch.nn.init.zeros_(layer.bias)
    return model


def our_settings(task: Task) -> dict[str, Any]:
    """The same task in the words of `PPOSettings`, whose value loss is half the squared error."""
    return {
        "steps": task.steps, "time_limit": task.time_limit, "streams": task.streams,
        "rollout": task.length, "epochs": task.epochs, "minibatches": 1,
        "learning_rate": task.rate, "anneal": True, "discount": task.discount, "gae_lambda": task.gae_lambda,
        "clip_ratio": task.clip, "clip_values": False, "clip_norm": task.max_norm,
        "value_weight": 2 * task.value_weight, "entropy_weight": task.entropy_weight, "adam_eps": task.adam_eps,
        "normalise_advantages": True, "bootstrap_truncated": True, "memory": "lstm",
        "memory_size": task.memory_size, "hidden": task.hidden,
    }  # fmt: skip
