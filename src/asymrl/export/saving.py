"""A trained agent as a file, checked before it is handed out: it plays whole episodes, and every number is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from asymrl.envs.gymnasium_out import Environment
from asymrl.export.numpy_policy import NumpyPolicy
from asymrl.export.onnx_policy import OnnxPolicy
from asymrl.export.policy_files import PolicyFacts, save_npz, save_onnx
from asymrl.export.policy_graph import build_graph
from asymrl.runs.policy import ActorPolicy
from asymrl.runs.trained import TrainedRun
from asymrl.worlds.stepped_world import SteppedWorld

TOLERANCE = 1e-5


def export_run(trained: TrainedRun, path: Path) -> float:
    """Writes the policy of a run, with its memory: an .onnx model of one step, or .npz arrays for `NumpyPolicy`.

    Returns the largest difference between the file's and the agent's probabilities over whole episodes.

    Raises:
        ValueError: if a part of the policy cannot be exported, or the file has another ending.
        OSError: if the file cannot be written.
        RuntimeError: if the file differs from the agent; then it is removed.
    """
    kinds = {".onnx": (save_onnx, OnnxPolicy), ".npz": (save_npz, NumpyPolicy)}
    if path.suffix.lower() not in kinds:
        raise ValueError(f"{path}: unknown file ending {path.suffix!r}; use {' or '.join(kinds)}")
    save, read = kinds[path.suffix.lower()]
    actor = trained.state.actor
    facts = PolicyFacts.of(trained.world, trained.settings, trained.seed)
    save(path, build_graph(actor, trained.world.observation_space), facts)
    difference = largest_difference(ActorPolicy(trained.world, actor), read(path))
    if not difference <= TOLERANCE:
        path.unlink()
        raise RuntimeError(f"the exported policy differs from the agent by {difference:.1e}, so it was removed")
    return difference


def largest_difference(agent: ActorPolicy, exported: NumpyPolicy, *, episodes: int = 3, seed: int = 0) -> float:
    """The largest difference between the agent and the exported policy, in episodes of the agent.

    It compares what the policies show (probabilities, means and spreads, or action values, relative to the largest if
    that exceeds 1) and the actions that the environment receives. Actions are sampled, so that the episodes visit many
    states.
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
            action = agent.draw(shown, generator)
            taken = agent.to_env(action)
            ours, theirs = (jax.tree.leaves(each) for each in (exported.to_env(action), taken))
            pairs = ((exported.observe(observation), shown), *zip(ours, theirs, strict=True))
            largest = max(largest, *(_difference(*pair) for pair in pairs))
            agent.previous_action = exported.previous_action = action
            observation, _, terminated, truncated, _ = env.step(taken)
            steps += 1
            over = terminated or truncated or steps == agent.env.time_limit
    env.close()
    return largest


def _difference(one: Any, other: Any) -> float:
    one, other = np.asarray(one, float), np.asarray(other, float)
    return float(np.max(np.abs(one - other)) / max(1.0, np.max(np.abs(other))))
