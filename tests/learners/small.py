"""Small runs, and their networks as the NumPy reference has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from asymrl.learners.a2c import A2CState
from asymrl.learners.curve import Losses, count
from asymrl.learners.episodes import RUN_AXIS, Episodes
from asymrl.learners.learner import learner, new_run
from asymrl.learners.numbers import Numbers, stack_numbers
from asymrl.nn.agent import Actor, Critic
from asymrl.nn.gru import Gru
from asymrl.nn.memory import Window
from asymrl.settings import A2CSettings, PPOSettings, Settings
from asymrl.worlds.spaces import Discrete
from asymrl.worlds.world import World
from tests.oracles.networks import Network, Weights
from tests.oracles.update import Learner, Rules

TINY = {"memory_size": 8, "hidden": (8,), "time_limit": 8, "steps": 10_000, "log_points": 10}


def tiny(**settings: Any) -> A2CSettings:
    """A2CSettings with small networks and short episodes."""
    return A2CSettings(**(TINY | settings))


def tiny_ppo(**settings: Any) -> PPOSettings:
    """The same of PPO."""
    return PPOSettings(**(TINY | settings))


def start(env: World, settings: Settings, seeds: Sequence[int]) -> A2CState:
    """New runs with weights drawn by NumPy: for tests as good as the real ones, and there is nothing to compile."""
    shapes = eqx.filter_eval_shape(lambda: new_run(env, settings, 0))
    arrays, static = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    zeros = jax.tree.map(lambda leaf: np.zeros((len(seeds), *leaf.shape), leaf.dtype), _with_key(arrays, None))
    rngs = [np.random.default_rng(seed) for seed in seeds]
    actor, critic = (jax.tree.map(lambda leaf: _draw(rngs, leaf.shape), m) for m in (arrays.actor, arrays.critic))
    runs = eqx.tree_at(lambda r: (r.actor, r.critic, r.target), zeros, (actor, critic, critic))
    runs = eqx.tree_at(lambda r: r.curve, runs, np.full_like(runs.curve, np.nan))
    keys = jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))
    return eqx.combine(_with_key(jax.tree.map(jnp.array, runs), keys), static)


def _with_key(runs: Any, keys: Any) -> Any:
    return eqx.tree_at(lambda r: r.key, runs, keys, is_leaf=lambda leaf: leaf is None)


def _draw(rngs: Sequence[np.random.Generator], shape: tuple[int, ...]) -> np.ndarray:
    """Small numbers, the smaller the more of them are added up."""
    spread = (2 / sum(shape)) ** 0.5
    return np.stack([spread * rng.normal(size=shape) for rng in rngs]).astype(np.float32)


def learn(env: World, settings: Settings, numbers: Numbers, runs: Any, episodes: Episodes) -> tuple[Any, Losses]:
    """One update of each run from these episodes, and its losses."""
    own = learner(env, settings.shape())

    def one(run: Any, numbers: Numbers, episodes: Episodes) -> tuple[Any, Losses]:
        on, key = jnp.bool_(True), jax.random.fold_in(run.key, run.updates)
        return own.update(key, count(run, episodes, on), numbers, run.timesteps, episodes, on)

    return eqx.filter_vmap(one, in_axes=(eqx.if_array(0), 0, RUN_AXIS))(runs, numbers, episodes)


def member(runs: Any, i: int) -> Any:
    """One run, or a part of one, of a batch."""
    return jax.tree.map(lambda leaf: leaf[i] if eqx.is_array(leaf) else leaf, runs)


def numbers(settings: Settings, count: int) -> Any:
    return stack_numbers([settings] * count)


def arrays(tree: Any) -> list[np.ndarray]:
    """All numbers of a run on the host, random keys included."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    keys = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    return [np.asarray(jax.random.key_data(leaf) if k else leaf) for leaf, k in zip(leaves, keys, strict=True)]


def assert_same(one: Any, other: Any) -> None:
    """Bit by bit, with NaN equal to itself."""
    for a, b in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_array_equal(a, b)


def assert_close(one: Any, other: Any, *, rtol: float, atol: float) -> None:
    for a, b in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def weights_of(model: Actor | Critic) -> Weights:
    """The weights of a model with a GRU under the names of the NumPy reference."""
    weights: dict[str, Any] = {}
    if model.history is not None:
        memory = model.history.memory
        unit = memory.inner if isinstance(memory, Window) else memory
        assert isinstance(unit, Gru)
        for name in ("input_weight", "hidden_weight", "input_bias", "hidden_bias"):
            weights[f"gru.{name}"] = getattr(unit, name)
        weights |= _table("phi_a", model.history.phi_a) | _table("phi_o", model.history.phi_o)
    if isinstance(model, Critic) and model.phi_s is not None:
        weights |= _table("phi_s", model.phi_s)
    for i, layer in enumerate(model.head.layers):
        weights |= {f"head.{i}.weight": layer.weight, f"head.{i}.bias": layer.bias}
    return {name: np.asarray(value, np.float64) for name, value in weights.items()}


def _table(name: str, features: Any) -> dict[str, Any]:
    return {name: features.table} if hasattr(features, "table") else {}


def learner_of(run: A2CState, env: World, settings: A2CSettings) -> Learner:
    """The NumPy reference of a run that is to learn next."""
    window = settings.architecture.window
    seen = env.observation_space
    blank = seen.n - 1 if isinstance(seen, Discrete) and seen.blank else None
    return Learner(
        policy=Network("h", window, len(env.action_names), blank),
        value=Network(settings.how.reads, window, len(env.action_names), blank),
        actor=weights_of(run.actor),
        critic=weights_of(run.critic),
        target=weights_of(run.target),
        timesteps=int(run.timesteps),
        next_target=int(run.next_target),
    )


def rules_of(settings: A2CSettings) -> Rules:
    """The rules with the numbers that the program computes with: those of float32."""
    names = Rules.__dataclass_fields__
    values = {name: getattr(settings, name) for name in names}
    if values["clip_norm"] is None:
        values["clip_norm"] = np.inf
    if values["entropy_end"] is None:
        values["entropy_end"] = settings.entropy_weight / 10
    rounded: dict[str, Any] = {name: float(np.float32(v)) for name, v in values.items() if isinstance(v, float)}
    rounded["adam_beta2"] = settings.adam_beta2  # the program has 1 - beta2, which is not the rounded beta2's
    return Rules(**(values | rounded))
