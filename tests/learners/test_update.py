"""Whole updates against the NumPy reference: counters, target, critic step, actor step."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.a2c import A2CState
from asymrl.learners.curve import Losses
from asymrl.learners.episodes import Episodes
from asymrl.learners.numbers import Numbers, stack_numbers
from asymrl.learners.returns import ESTIMATORS
from asymrl.learners.state import training_world
from asymrl.nn.agent import Actor
from asymrl.nn.distributions import NO_ACTION
from asymrl.settings import A2CSettings
from asymrl.settings.methods import PAPER_METHODS
from asymrl.worlds.spaces import Discrete
from asymrl.worlds.world import World
from tests.learners.small import learn, learner_of, member, rules_of, start, tiny, weights_of
from tests.oracles.networks import Episode
from tests.oracles.update import Learner

TIME_LIMIT = 6

# Two runs of one program. The first is the paper's, with a target that is copied at every other update; the second
# differs in every number, with gradients that are clipped and an entropy weight that has reached its end.
NUMBERS: tuple[dict[str, Any], ...] = (
    {"target_period": 15, "entropy_steps": 100.0},
    {
        "actor_rate": 3e-3,
        "critic_rate": 1e-4,
        "adam_eps": 1e-3,
        "adam_beta2": 0.9,
        "clip_norm": 0.5,
        "entropy_weight": 0.7,
        "entropy_end": 0.3,
        "entropy_steps": 12.0,
        "discount": 0.8,
        "td_lambda": 0.4,
        "target_period": 1,
        "polyak": 0.25,
    },
)
LENGTHS = ((6, 4), (3, 6))  # of the two episodes of each run; those of 6 steps ran out of time

# Every method, estimator, schedule and target at least once, also with a value for the end of an episode that was cut
# off, and in a world without embeddings.
CASES: tuple[dict[str, Any], ...] = (
    {"method": "a2c"},
    {"method": "a2c-asym-s", "estimator": "td-lambda", "bootstrap_truncated": True, "hidden": (8, 5)},
    {"method": "a2c-asym-hs", "entropy_schedule": "exponential"},
    {"method": "a2c-react-2", "estimator": "mc", "entropy_schedule": "constant"},
    {"method": "a2c-react-4", "estimator": "td-n", "bootstrap_truncated": True},
    {"method": "a2c-asym-hs", "estimator": "td-n", "td_n": 9, "world": "car-flag", "target": "polyak"},
)
ALL_CASES = tuple(
    {"method": method, "estimator": estimator, "bootstrap_truncated": bootstrap}
    for method, estimator, bootstrap in itertools.product(PAPER_METHODS, ESTIMATORS, (False, True))
) + tuple({"method": method, "world": "car-flag"} for method in PAPER_METHODS)


def name_of(case: dict[str, Any]) -> str:
    return " ".join(str(value) if isinstance(value, str) else f"{key}={value}" for key, value in case.items())


def some_episodes(env: World, seed: int, lengths: tuple[int, ...]) -> list[Episode]:
    """Episodes with random contents. To learn from them, they need not be possible."""
    rng = np.random.default_rng(seed)

    def draw(space: Any, count: int) -> np.ndarray:
        if isinstance(space, Discrete):
            return rng.integers(space.n, size=count)
        return rng.normal(size=(count, *space.shape)).astype(np.float32)

    episodes = []
    for length in lengths:
        observations = draw(env.observation_space, length + 1)
        if isinstance(env.observation_space, Discrete) and env.observation_space.blank:
            observations[0] = env.observation_space.n - 1
        rewards = rng.normal(size=length).astype(np.float32)
        signals, actions = draw(env.latent_space, length + 1), draw(env.action_space, length)
        episodes.append(Episode(observations, signals, actions, rewards, truncated=length == TIME_LIMIT))
    return episodes


def as_recorded(episodes: list[list[Episode]]) -> Episodes:
    """The episodes of each run as a roll-out records them, but for the features.

    After the end of an episode rewards are zero, and all else is rubbish that must not matter.
    """

    def record(pick: Callable[[Episode], np.ndarray], steps: int, after_the_end: int = 3) -> jax.Array:
        example = pick(episodes[0][0])
        shape = (steps, len(episodes), len(episodes[0]), *example.shape[1:])
        buffer = np.full(shape, after_the_end, example.dtype)
        for run, of_run in enumerate(episodes):
            for i, episode in enumerate(of_run):
                buffer[: len(pick(episode)), run, i] = pick(episode)
        return jnp.asarray(buffer, jnp.int32 if buffer.dtype.kind == "i" else jnp.float32)

    return Episodes(
        observations=record(lambda e: e.observations, TIME_LIMIT + 1),
        states=record(lambda e: e.signals, TIME_LIMIT + 1),
        actions=record(lambda e: e.actions, TIME_LIMIT),
        rewards=record(lambda e: e.rewards, TIME_LIMIT, after_the_end=0),
        features=jnp.zeros(()),
        lengths=jnp.asarray([[len(e.actions) for e in of_run] for of_run in episodes], jnp.int32),
        truncated=jnp.asarray([[e.truncated for e in of_run] for of_run in episodes]),
    )


@functools.cache
def compiled(shape: A2CSettings) -> tuple[World, Callable[[Numbers, A2CState, Episodes], tuple[A2CState, Losses]]]:
    """The world, and one update of a batch of runs with this shape."""
    env = training_world(shape)

    def features(actor: Actor, actions: jax.Array, observations: jax.Array) -> jax.Array:
        before = jnp.concatenate([jnp.full_like(actions[:1], NO_ACTION), actions[:-1]])
        return actor.history.sequence(before, observations)

    def update(numbers: Numbers, runs: A2CState, episodes: Episodes) -> tuple[A2CState, Losses]:
        over_runs = eqx.filter_vmap(features, in_axes=(eqx.if_array(0), 1, 1), out_axes=1)
        acted = over_runs(runs.actor, episodes.actions, episodes.observations[:TIME_LIMIT])
        return learn(env, shape, numbers, runs, episodes._replace(features=acted))

    return env, eqx.filter_jit(update)


def shaken(runs: A2CState, seed: int) -> A2CState:
    """Runs with biases that are not zero, and targets unlike their critics."""
    rng = np.random.default_rng(seed)

    def shake(leaf: Any) -> Any:
        return leaf + 0.1 * rng.normal(size=leaf.shape).astype(np.float32) if eqx.is_array(leaf) else leaf

    models = jax.tree.map(shake, (runs.actor, runs.critic, runs.target))
    return eqx.tree_at(lambda r: (r.actor, r.critic, r.target), runs, models)


def assert_agrees(run: A2CState, losses: Losses, reference: Learner, expected: dict[str, float]) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(losses, name), value, rtol=2e-5, atol=2e-6, err_msg=name)
    for which in ("actor", "critic", "target"):
        for name, got in weights_of(getattr(run, which)).items():
            # One step moves a weight by up to the learning rate. Where the gradient is about as small as Adam's
            # epsilon, its rounding errors show.
            want = getattr(reference, which)[name]
            np.testing.assert_allclose(got, want, rtol=0, atol=5e-6, err_msg=f"{which} {name}")
    assert int(run.timesteps) == reference.timesteps
    assert int(run.next_target) == reference.next_target


def compare_with_reference(case: dict[str, Any]) -> None:
    settings = [tiny(time_limit=TIME_LIMIT, **(case | of_run)) for of_run in NUMBERS]
    env, update = compiled(settings[0].shape())
    runs = shaken(start(env, settings[0], [1, 2]), seed=2)
    references = [learner_of(member(runs, i), env, each) for i, each in enumerate(settings)]
    for i in range(3):
        episodes = [some_episodes(env, 2 * i + run, LENGTHS[run]) for run in range(2)]
        runs, losses = update(stack_numbers(settings), runs, as_recorded(episodes))
        for run, reference in enumerate(references):
            expected = reference.update(episodes[run], rules_of(settings[run]))
            assert_agrees(member(runs, run), member(losses, run), reference, expected)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_updates_are_those_of_the_reference(case: dict[str, Any]):
    compare_with_reference(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL_CASES, ids=name_of)
def test_updates_are_those_of_the_reference_in_every_combination(case: dict[str, Any]):
    compare_with_reference(case)
