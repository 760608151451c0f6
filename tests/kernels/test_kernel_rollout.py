"""Whole episodes in one kernel are the episodes of the loop. Interpreted, so that any machine can try."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.kernels.attach import plain
from asymrl.kernels.episode_steps import TableSteps
from asymrl.kernels.kernel_rollout import (
    NEVER,
    kernel_world,
    roll_out_in_kernel,
    suits_kernel,
    with_product_precision,
)
from asymrl.kernels.world_rules import TransitionTable, deterministic_table
from asymrl.learners.episodes import Episodes
from asymrl.learners.program import Program
from asymrl.learners.rollout import begin_rollout, step_by_step
from asymrl.learners.state import training_world
from asymrl.nn.agent import Actor, ReadyActor
from asymrl.nn.memory import Window
from asymrl.settings import A2CSettings, DQNSettings, Settings
from asymrl.worlds import World, make
from tests.learners.small import start, tiny

EPISODES = 2
ACTIVE = jnp.asarray([True, True, False])
SMALL = {"memory_size": 32, "hidden": (32, 64), "time_limit": 14}


def settings(world: str, method: str, **others: object) -> A2CSettings:
    return tiny(world=world, method=method, **(SMALL | others))


def ready(actors: Actor) -> ReadyActor:
    return eqx.filter_vmap(Actor.prepared)(actors)


def both(
    given: Settings, episodes: int = EPISODES, interpret: bool = True, rounded: bool = False
) -> tuple[Episodes, Episodes]:
    """The episodes of three runs, of which the last is not active: step by step, and by the kernel.

    With `rounded`, the matrices of the policy have no more digits than a float16.
    """
    env = training_world(given)
    runs = start(env, given, [0, 1, 2]) if isinstance(given, A2CSettings) else Program(given).start([0, 1, 2])
    # Large weights, so that what is remembered matters for what is done.
    actors = jax.tree.map(lambda leaf: 3 * leaf if eqx.is_array(leaf) else leaf, runs.actor)
    if rounded:

        def read_at_each_step(actor: Any) -> list[Any]:
            memory = actor.history.memory
            recurrent: Any = memory.inner if isinstance(memory, Window) else memory
            return [recurrent.hidden_weight, *(layer.weight for layer in actor.head.layers[:-1])]

        few_digits = [weight.astype(jnp.float16).astype(jnp.float32) for weight in read_at_each_step(actors)]
        actors = eqx.tree_at(read_at_each_step, actors, few_digits)
    world = kernel_world(env)
    assert world is not None
    # Actions that are mostly and never left to chance.
    epsilon = jnp.asarray([0.8, 0.0, 0.0]) if isinstance(given, DQNSettings) else None

    @eqx.filter_jit
    def play(actors: Actor) -> tuple[Episodes, Episodes]:
        begun = begin_rollout(env, actors.distribution, runs.key, episodes, given.horizon, epsilon)
        at_once = roll_out_in_kernel(with_product_precision(ready(actors)), world, begun, ACTIVE, interpret=interpret)
        return plain(step_by_step)(env, ready(actors), begun, ACTIVE), at_once

    return jax.device_get(play(actors))


def assert_same(plain: Episodes, at_once: Episodes, exactness: float = 1e-5) -> None:
    np.testing.assert_array_equal(at_once.lengths, plain.lengths)
    np.testing.assert_array_equal(at_once.truncated, plain.truncated)
    assert plain.lengths[:2].max() > 4
    assert (plain.lengths[2] == 0).all()
    valid = np.arange(plain.rewards.shape[0])[:, None, None] < plain.lengths
    np.testing.assert_array_equal(at_once.actions[valid], plain.actions[valid])
    np.testing.assert_array_equal(at_once.rewards[valid], plain.rewards[valid])
    np.testing.assert_allclose(at_once.features[valid], plain.features[valid], rtol=1e-4, atol=exactness)
    # What is seen after an end belongs to the next episode, and may be left to chance.
    before_end = np.arange(plain.rewards.shape[0])[:, None, None] < plain.lengths - ~plain.truncated
    for name, matters in (("observations", before_end), ("states", valid)):
        for one, other in zip(*(jax.tree.leaves(getattr(e, name)) for e in (at_once, plain)), strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype), name
            np.testing.assert_array_equal(one[0, :2], other[0, :2])
            np.testing.assert_array_equal(one[1:][matters], other[1:][matters])


CASES = [
    ("heaven-hell-1", "a2c", 2),
    ("shopping-2", "a2c-react-2", 1),
    ("memory-four-rooms-5x5", "a2c", 2),
    ("car-flag", "a2c", 2),
    ("cleaner", "a2c", 1),
    pytest.param("car-flag", "a2c-react-4", 4, marks=pytest.mark.slow),
    pytest.param("cleaner", "a2c-react-2", 2, marks=pytest.mark.slow),
    pytest.param("t-maze-2", "a2c", 2, marks=pytest.mark.slow),
    pytest.param("memory-four-rooms-7x9", "a2c-react-4", 4, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("world", "method", "episodes"), CASES)
def test_episodes_are_the_same(world: str, method: str, episodes: int):
    assert_same(*both(settings(world, method), episodes))


@pytest.mark.parametrize("world", ["heaven-hell-1", pytest.param("cleaner", marks=pytest.mark.slow)])
def test_episodes_of_action_values_are_the_same(world: str):
    """The best action or, with probability epsilon, any: what DQN acts by."""
    given = DQNSettings(world=world, method="dqn", **SMALL)
    plain, at_once = both(given, episodes=1)
    assert_same(plain, at_once)
    assert len(np.unique(plain.actions[: plain.lengths[0].max(), 0])) > 2


@pytest.mark.parametrize("values", [(0.0, np.nan, 1.0), (np.nan,) * 3, (-2e30,) * 3, (np.inf, -np.inf, np.nan)])
def test_a_policy_that_has_broken_down_still_takes_an_action_that_exists(values: tuple[float, ...]):
    """Its network is not finite; what the kernel would read beyond its tables is anything."""
    steps = TableSteps.__new__(TableSteps)
    steps.actions = 3
    padded = jnp.asarray([*values, NEVER])  # up to a power of two
    assert int(steps.best_or_any(padded, jnp.float32(1.0))) in range(3)


def test_in_tf32_matrices_are_read_with_as_few_digits():
    """In half the memory, and as exact as the products of tf32; only what is multiplied is rounded."""
    given = settings("heaven-hell-1", "a2c")
    with jax.default_matmul_precision("tensorfloat32"):
        assert_same(*both(given, rounded=True), exactness=2**-11)
        exact, few_digits = both(given)
    np.testing.assert_array_equal(exact.actions[:2, :2], few_digits.actions[:2, :2])
    apart = np.abs(exact.features - few_digits.features)[1:3, :2]
    assert 0 < apart.max() < 2**-9


def test_windows_on_tensor_cores():
    """Four episodes with windows of four: twelve memories, more than fit into one product."""
    with jax.default_matmul_precision("tensorfloat32"):
        assert_same(*both(settings("heaven-hell-1", "a2c-react-4"), episodes=4, rounded=True), exactness=2**-11)


@pytest.mark.parametrize("length", [1, 3])
def test_windows_of_any_length(length: int):
    assert_same(*both(settings("heaven-hell-1", f"a2c-react-{length}"), episodes=2))


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs an NVIDIA GPU")
@pytest.mark.parametrize(("world", "method", "episodes"), CASES)
def test_episodes_are_the_same_on_a_gpu(world: str, method: str, episodes: int):
    """Compiled, with threads that have to wait for each other."""
    with jax.default_matmul_precision("highest"):  # else the products of the plain loop are in tf32 there
        assert_same(*both(settings(world, method), episodes, interpret=False))


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs an NVIDIA GPU")
@pytest.mark.parametrize(("method", "episodes"), [("a2c", 2), ("a2c-react-4", 2), ("a2c-react-4", 4)])
def test_episodes_on_tensor_cores_begin_alike(method: str, episodes: int):
    """Later on, another rounding may choose another action."""
    with jax.default_matmul_precision("tensorfloat32"):
        plain, at_once = both(settings("heaven-hell-1", method), episodes, rounded=True, interpret=False)
    np.testing.assert_array_equal(at_once.actions[0, :2], plain.actions[0, :2])
    np.testing.assert_allclose(at_once.features[0, :2], plain.features[0, :2], atol=2**-9)


def test_what_comes_after_the_end_is_finite():
    """The networks read it, though nothing of it counts."""
    _, at_once = both(settings("heaven-hell-1", "a2c", time_limit=6))
    assert (at_once.lengths < 6).any()
    for leaf in jax.tree.leaves(at_once):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize(
    ("others", "suits"),
    [
        ({}, True),
        ({"method": "a2c-react-4"}, True),
        ({"method": "a2c-react-9"}, False),
        ({"world": "memory-four-rooms-9x9"}, True),
        ({"memory": "lstm"}, False),
        ({"memory_size": 48}, False),
        ({"hidden": (100,)}, False),
    ],
)
def test_which_policies_suit(others: dict[str, object], suits: bool):
    given = settings(**({"world": "heaven-hell-1", "method": "a2c"} | others))  # pyright: ignore[reportArgumentType]
    env = training_world(given)
    runs, transitions = start(env, given, [0]), deterministic_table(env)
    states = jax.vmap(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), (1, EPISODES)))
    assert transitions is not None
    assert suits_kernel(ready(runs.actor), EPISODES, transitions, states) == suits
    assert not suits_kernel(ready(runs.actor), 3, transitions, states)


def test_a_world_may_be_an_argument_of_a_compiled_function():
    env = make("shopping-2")

    @eqx.filter_jit
    def table(env: World) -> TransitionTable:
        transitions = deterministic_table(env)
        assert transitions is not None
        return transitions.table(None)

    transitions = deterministic_table(env)
    assert transitions is not None
    for one, other in zip(table(env), transitions.table(None), strict=True):
        np.testing.assert_array_equal(one, other)


def test_worlds_that_are_no_tables():
    for name in ("tiger", "car-flag", "cleaner"):
        assert deterministic_table(make(name)) is None
