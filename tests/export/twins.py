"""Small agents and their exported twins."""

from __future__ import annotations

from pathlib import Path

import jax

from asymrl.export.numpy_policy import NumpyPolicy
from asymrl.export.onnx_policy import OnnxPolicy
from asymrl.export.policy_files import PolicyFacts, actions_of, reading_of, save_npz, save_onnx
from asymrl.export.policy_graph import build_graph
from asymrl.nn.agent import Actor, Architecture
from asymrl.worlds import World

TIME_LIMIT = 12


def small_actor(env: World, memory: str = "gru", window: int | None = None, seed: int = 0) -> Actor:
    shape = Architecture(memory, memory_size=8, window=window, hidden=(8, 6))
    return Actor(jax.random.key(seed), env.action_space, env.observation_space, shape)


def about(env: World) -> PolicyFacts:
    settings = {"world": env.name, "hidden": (8, 6)}
    return PolicyFacts(env.name, "a2c", env.action_names, settings, 3, actions_of(env), reading_of(env))


def exported(env: World, actor: Actor, path: Path) -> NumpyPolicy:
    """The actor, written to a file and read back; the ending decides how."""
    if path.suffix == ".npz":
        save_npz(path, build_graph(actor, env.observation_space), about(env))
        return NumpyPolicy(path)
    save_onnx(path, build_graph(actor, env.observation_space), about(env))
    return OnnxPolicy(path)
