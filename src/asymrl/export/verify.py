"""Does an exported policy do what the agent does? Whole episodes are played and every number is compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from asymrl.adapters.gym.environment import Environment
from asymrl.agents.policy import ActorPolicy, draw
from asymrl.export.numpy_policy import NumpyPolicy
from asymrl.worlds.stepped_world import SteppedWorld

TOLERANCE = 1e-5


def largest_difference(agent: ActorPolicy, exported: NumpyPolicy, *, episodes: int = 3, seed: int = 0) -> float:
    """The largest difference between the agent and its exported twin, in episodes of the agent.

    Compared are the probabilities of actions, or where actions are vectors, their means and spreads, and what the
    environment is given. Actions are sampled, so that the episodes lead to many places.
    """
    env: Any = agent.env.make() if isinstance(agent.env, SteppedWorld) else Environment(agent.env)
    generator = np.random.default_rng(seed)
    largest = 0.0
    for episode in range(episodes):
        agent.reset()
        exported.reset()
        observation, _ = env.reset(seed=seed + episode)
        steps, over = 0, False
        while not over:
            shown = agent.observe(observation)
            action = draw(shown, agent.is_vector, generator)
            taken, twin = agent.to_env(action), exported.to_env(action)
            largest = max(largest, _apart(exported.observe(observation), shown), _apart(twin, taken))
            agent.previous_action = exported.previous_action = action
            observation, _, terminated, truncated, _ = env.step(taken)
            steps += 1
            over = terminated or truncated or steps == agent.env.time_limit
    env.close()
    return largest


def _apart(one: Any, other: Any) -> float:
    return float(np.max(np.abs(np.subtract(one, other))))
