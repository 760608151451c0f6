"""CartPole without its velocities: trained, exported, and played in a plain Gymnasium loop.

    python examples/cart_pole.py [STEPS]

The agent sees where the cart is and how the pole leans, and must remember to know how fast they move. The critic reads
all four numbers, which asymrl takes from `env.unwrapped.state`. One or two minutes on two cores.
"""

import sys
import tempfile
from pathlib import Path

import gymnasium
import numpy as np

import asymrl
from asymrl.export.numpy_policy import NumpyPolicy

LIMIT = 100  # steps of an episode
SETTINGS = {"episodes": 8, "memory_size": 64, "hidden": (64,), "estimator": "td-lambda", "td_lambda": 0.9,
            "target_period": 1_000, "entropy_weight": 0.03, "entropy_steps": 100_000, "stop_return": 95}  # fmt: skip


class HiddenVelocities(gymnasium.ObservationWrapper):
    """Shows the two positions among CartPole's four numbers."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation):
        return observation[::2]


def hidden_velocities():
    """The environment. From the command line: `asymrl train examples/cart_pole.py:hidden_velocities`."""
    return HiddenVelocities(gymnasium.make("CartPole-v1", max_episode_steps=LIMIT))


def play(policy, episodes=20):
    """How many steps the pole stays up on average, in a plain Gymnasium loop without JAX."""
    env, total = hidden_velocities(), 0
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        policy.reset()
        over = False
        while not over:
            observation, _, terminated, truncated, _ = env.step(policy.act(observation))
            total, over = total + 1, terminated or truncated
    return total / episodes


def main(steps=100_000, **settings):
    """Trains, exports and plays. Returns the mean length of episodes at the start of training and after it."""
    with tempfile.TemporaryDirectory() as folder:
        runs = asymrl.train(f"{__file__}:hidden_velocities", "a2c-asym-hs", seeds=1, steps=steps,
                            out=Path(folder) / "run", **{**SETTINGS, **settings})  # fmt: skip
        file = runs.export(Path(folder) / "policy.npz")
        before, after = runs.metrics["return"][0], play(NumpyPolicy(file))
    print(f"the pole stayed up for {before:.0f} steps before training and {after:.0f} of {LIMIT} after it")
    return before, after


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
