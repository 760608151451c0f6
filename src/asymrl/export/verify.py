"""Does an exported policy do what the agent does? Whole episodes are played and every probability is compared."""

from __future__ import annotations

import numpy as np

from asymrl.export.numpy_policy import NumpyPolicy
from asymrl.gym.single import Environment
from asymrl.runs.policy import ActorPolicy

TOLERANCE = 1e-5


def largest_difference(agent: ActorPolicy, exported: NumpyPolicy, *, episodes: int = 3, seed: int = 0) -> float:
    """The largest difference between a probability of the agent and of its exported twin, in episodes of the agent.

    Actions are sampled, so that the episodes lead to many places.
    """
    env = Environment(agent.env)
    generator = np.random.default_rng(seed)
    largest = 0.0
    for episode in range(episodes):
        agent.reset()
        exported.reset()
        observation, _ = env.reset(seed=seed + episode)
        over = False
        while not over:
            shares = agent.observe(observation)
            largest = max(largest, float(np.abs(exported.observe(observation) - shares).max()))
            action = int(np.sum(np.cumsum(shares)[:-1] <= generator.random()))
            agent.previous_action = exported.previous_action = action
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    return largest
