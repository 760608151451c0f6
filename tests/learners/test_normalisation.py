"""Normalised observations and rewards: against NumPy, on badly scaled problems, in company, and in files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from asymrl.learners.key_purposes import STREAM_STEPS
from asymrl.learners.normalised import Statistics, scaled_rewards
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.ppo_losses import Networks, features_of
from asymrl.learners.program import Program
from asymrl.learners.rollout import roll_out
from asymrl.learners.state import keys_of
from asymrl.learners.streams import Piece, Segment, act_in_streams
from asymrl.nn.features import Parts, observation_features
from asymrl.nn.normalised import (
    LARGEST,
    Normalised,
    merged,
    moments_of,
    no_moments,
    normalised_by,
    normalised_parts,
)
from asymrl.settings import A2CSettings, DQNSettings, PPOSettings, Settings, new_settings
from asymrl.worlds.spaces import Box, Discrete, Record
from asymrl.worlds.world import Step, World
from tests.learners.small import assert_same, member

SEEDS = (0, 1)
BOTH = {"normalise_observations": True, "normalise_rewards": True}


class Scales(World):
    """Which of two actions is worth 1000 is seen in a tiny number beside a huge one; two steps, then it ends."""

    name: str = eqx.field(static=True, default="scales")
    discount: float = eqx.field(static=True, default=0.9)
    time_limit: int | None = eqx.field(static=True, default=3)

    @property
    def action_names(self) -> tuple[str, ...]:
        return ("left", "right")

    @property
    def observation_space(self) -> Record:
        return Record((("numbers", Box((2,))), ("symbol", Discrete(3))))

    @property
    def latent_space(self) -> Box:
        return Box((3,))

    def reset(self, key: Any) -> Array:
        side_key, noise_key = jax.random.split(key)
        side = jnp.where(jax.random.bernoulli(side_key), 1.0, -1.0)
        return jnp.stack([side, jax.random.normal(noise_key), jnp.float32(0)])

    def step(self, key: Any, state: Array, action: Any) -> Step:
        right = jnp.where(action == 1, 1.0, -1.0) == state[0]
        moved = state.at[2].add(1.0)
        return Step(moved, jnp.where(right, 1000.0, 0.0), moved[2] >= 2)

    def first_observation(self, key: Any, state: Array) -> dict[str, Array]:
        numbers = jnp.stack([5000.0 + 100 * state[1], 1e-3 * state[0]])
        return {"numbers": numbers, "symbol": state[2].astype(jnp.int32)}

    def observe(self, key: Any, state: Any, action: Any, next_state: Array) -> dict[str, Array]:
        return self.first_observation(key, next_state)

    def latent(self, state: Array) -> Array:
        return state * jnp.asarray([1e-3, 1e3, 1.0])

    def from_latent(self, latent: Array) -> Array:
        return latent / jnp.asarray([1e-3, 1e3, 1.0])


def small(method: str, **values: Any) -> Settings:
    shape = {"world": "scales", "method": method, "time_limit": 3, "memory_size": 8, "hidden": (8,), "log_points": 2}
    return new_settings(**(shape | {"steps": 100_000, "discount": 0.9} | values))


def test_moments_are_those_of_all_vectors_so_far():
    rng, moments, kept = np.random.default_rng(0), no_moments(3), []
    for _ in range(5):
        vectors = rng.normal([1e4, 0, -3], [1, 1e-3, 20], size=(7, 4, 3)).astype(np.float32)
        vectors[..., 2] = np.float32(-3.3)  # never changes
        valid = rng.random((7, 4)) < 0.6
        kept.append(vectors[valid])
        moments = merged(moments, moments_of(jnp.asarray(vectors), jnp.asarray(valid)))
    together = np.concatenate(kept).astype(np.float64)
    assert moments.count == len(together)
    np.testing.assert_allclose(moments.mean, together.mean(0), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(moments.variance[:2], together.var(0)[:2], rtol=1e-3)
    assert moments.variance[2] == 0
    assert moments.mean[2] == np.float32(-3.3), "so that what never changes is 0, not rounding times ten thousand"


def test_nothing_measured_changes_nothing_but_what_is_far_out():
    empty = merged(no_moments(2), moments_of(jnp.full((3, 2, 2), 7.0), jnp.zeros((3, 2), bool)))
    phi = normalised_by(Normalised((2,)), empty)
    np.testing.assert_array_equal(phi(jnp.asarray([0.3, -1e6])), np.asarray([0.3, -LARGEST], np.float32))


def test_only_numbers_are_normalised_and_clipped():
    env, settings = Scales(), small("ppo-asym-hs", normalise_observations=True)
    phi = observation_features(jax.random.key(0), env.observation_space, normalise=settings.normalise_observations)
    assert isinstance(phi, Parts)
    assert [part.shape for part in normalised_parts(phi)] == [(2,)]
    moments = moments_of(jnp.asarray([[[0.0, 10.0]], [[2.0, 14.0]]]), jnp.ones((2, 1), bool))
    phi = normalised_by(phi, moments)
    value = {"numbers": jnp.asarray([3.0, 1000.0]), "symbol": jnp.int32(1)}
    np.testing.assert_allclose(phi(value)[:2], [2.0, LARGEST], rtol=1e-6)


def test_rewards_are_divided_by_the_spread_of_discounted_returns():
    """As `VecNormalize` of Stable-Baselines3 does, but for its statistics, which are those after each single step."""
    statistics = Statistics(None, None, no_moments(1), jnp.zeros(2))
    rng, running, seen = np.random.default_rng(1), np.zeros(2), []
    for _ in range(3):
        rewards, first = rng.normal(3, 40, size=(6, 2)).astype(np.float32), rng.random((6, 2)) < 0.3
        for r, f in zip(rewards, first, strict=True):
            running = np.where(f, 0, running) * 0.9 + r
            seen.append(running.copy())
        parts = {"rewards": jnp.asarray(rewards), "first": jnp.asarray(first), "valid": jnp.ones((6, 2), bool)}
        given: Any = Segment(None, Piece(**{**dict.fromkeys(Piece._fields), **parts}))  # pyright: ignore
        statistics, batch = scaled_rewards(statistics, given, jnp.float32(0.9))
        assert isinstance(batch, Segment)
        scaled = batch.piece.rewards
        assert statistics.ongoing is not None
        wanted = np.clip(rewards / np.sqrt(np.var(seen) + 1e-8), -LARGEST, LARGEST)
        np.testing.assert_allclose(scaled, wanted, rtol=1e-4)
        np.testing.assert_allclose(statistics.ongoing, running, rtol=1e-4)


LEARNERS: dict[str, dict[str, Any]] = {
    "a2c-asym-hs": {"episodes": 4, **BOTH},
    "ppo-asym-hs": {"streams": 4, "rollout": 6, "minibatches": 2, "epochs": 2, "learning_rate": 3e-3, **BOTH},
    "adqn": {"prefill": 20, "replay_steps": 60, "normalise_observations": True},
}
PROGRAMS: dict[str, Program] = {}


def program_of(method: str) -> Program:
    if method not in PROGRAMS:
        PROGRAMS[method] = Program(small(method, **LEARNERS[method]), Scales())
    return PROGRAMS[method]


@pytest.fixture(
    params=["ppo-asym-hs", *(pytest.param(name, marks=pytest.mark.slow) for name in ("a2c-asym-hs", "adqn"))]
)
def made(request: pytest.FixtureRequest) -> Program:
    return program_of(request.param)


def trained(program: Program, updates: int, seeds: tuple[int, ...] = SEEDS) -> Any:
    numbers = stack_numbers([replace(program.settings, steps=100_000)] * len(seeds))
    return program.train(program.start(seeds), numbers, updates)


def test_a_run_has_the_moments_of_what_it_saw_and_reads_with_them(made: Program):
    """The episodes of two updates, collected again; what the second saw is normalised by what the first saw."""
    settings, one, two = made.settings, trained(made, 1), trained(made, 2)
    seen, told = zip(*(_readings(made, runs) for runs in (made.start(SEEDS), one)), strict=True)
    for i in range(len(SEEDS)):
        for parts, name in ((seen, "observations"), (told, "signal")):
            first, both = parts[0][i], np.concatenate([parts[0][i], parts[1][i]]).astype(np.float64)
            moments = getattr(two.statistics, name)
            assert moments.count[i] == len(both)
            np.testing.assert_allclose(moments.mean[i], both.mean(0), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(moments.variance[i], both.var(0), rtol=1e-3, atol=1e-8)
            np.testing.assert_allclose(getattr(one.statistics, name).mean[i], first.mean(0), rtol=1e-4, atol=1e-5)
    histories = [two.actor.history.phi_o, two.critic.history.phi_o]
    for phi in histories:
        (numbers,) = normalised_parts(phi)
        np.testing.assert_allclose(numbers.mean, two.statistics.observations.mean, rtol=1e-6)
    (state,) = normalised_parts(two.critic.phi_s)
    np.testing.assert_allclose(state.scale, two.statistics.signal.scale, rtol=1e-6)
    target = getattr(two, "target", None)
    if target is not None:
        of_target = target.privileged if settings.how.learner == "dqn" else target
        np.testing.assert_allclose(normalised_parts(of_target.phi_s)[0].mean, state.mean, rtol=1e-6)


def _readings(program: Program, runs: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What each run sees and what its critic is told in its next update."""
    env, settings, keys, everyone = program.world, program.settings, keys_of(runs), jnp.ones(len(SEEDS), bool)
    if settings.how.learner == "ppo":
        pieces = [
            act_in_streams(
                env,
                member(runs.actor, i),
                member(runs.streams, i),
                jax.random.fold_in(keys[i], STREAM_STEPS),
                settings.rollout,
            )[1]
            for i in range(len(SEEDS))
        ]
        seen = [np.asarray(piece.observations["numbers"]).reshape(-1, 2) for piece in pieces]
        return seen, [np.asarray(jax.vmap(jax.vmap(env.latent))(piece.states)).reshape(-1, 3) for piece in pieces]
    count, epsilon = settings.episodes, None
    if settings.how.learner == "dqn":
        count, epsilon = 1, jnp.ones(len(SEEDS))
    episodes = roll_out(env, runs.actor, keys, everyone, episodes=count, epsilon=epsilon)
    valid = np.arange(episodes.rewards.shape[0])[:, None, None] < np.asarray(episodes.lengths)[None]
    states = np.asarray(jax.vmap(jax.vmap(jax.vmap(env.latent)))(episodes.states))[:-1]
    numbers = np.asarray(episodes.observations["numbers"])[:-1]
    return tuple([each[:, i][valid[:, i]] for i in range(len(SEEDS))] for each in (numbers, states))  # pyright: ignore


def test_a_run_does_not_depend_on_interruptions(made: Program):
    numbers = stack_numbers([replace(made.settings, steps=100_000)] * 2)
    resumed = made.train(made.train(made.start(SEEDS), numbers, 2), numbers, 4)
    assert_same(resumed, trained(made, 6))


@pytest.mark.slow
def test_a_run_does_not_depend_on_its_company(made: Program):
    together, alone = trained(made, 6), trained(made, 6, (1,))
    np.testing.assert_allclose(
        member(together.statistics.observations, 1).mean, member(alone.statistics.observations, 0).mean, rtol=1e-4
    )


def test_ratios_are_one_before_the_first_gradient_step():
    """After some updates, what the actor says about the next steps now is what it said when it took them."""
    made = program_of("ppo-asym-hs")
    runs = trained(made, 3)
    run, key = member(runs, 0), keys_of(runs)[0]
    _, piece = act_in_streams(made.world, run.actor, run.streams, jax.random.fold_in(key, STREAM_STEPS), 6)
    of_actor, _ = features_of(Networks(run.actor, run.critic), run.streams.carries, piece, together=False)
    now = run.actor.distribution.log_probability(run.actor.policy(of_actor), piece.actions)
    np.testing.assert_allclose(np.exp(now - piece.log_chosen), 1.0, rtol=1e-5)
    moved = normalised_by(run.actor.history.phi_o, no_moments(2))
    other = eqx.tree_at(lambda a: a.history.phi_o, run.actor, moved)
    of_other, _ = features_of(Networks(other, run.critic), run.streams.carries, piece, together=False)
    then = run.actor.distribution.log_probability(run.actor.policy(of_other), piece.actions)
    assert np.abs(np.exp(then - piece.log_chosen) - 1).max() > 1e-3, "with other statistics they are not"


@pytest.mark.slow
def test_badly_scaled_numbers_are_learned_with_normalisation_and_not_without():
    """All is worth 2000; whoever cannot tell the sides apart gets 1000."""
    made = program_of("ppo-asym-hs")
    off = LEARNERS["ppo-asym-hs"] | {"normalise_observations": False, "normalise_rewards": False}
    plain = Program(small("ppo-asym-hs", **off), Scales())
    returns = {name: trained(program, 300).recent_returns.mean(1) for name, program in (("on", made), ("off", plain))}
    assert returns["on"].min() > 1600
    assert returns["off"].max() < 1300


def test_values_are_told_in_the_units_of_the_rewards():
    """The best policy of the probe is worth 1000 + 0.9 * 1000, whatever the critic was trained in."""
    made = program_of("ppo-asym-hs")
    run = member(trained(made, 300), 0)
    env, key = made.world, jax.random.key(5)
    state = env.reset(key)
    seen = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None, None], env.first_observation(key, state))
    before = run.actor.distribution.none(1)[None]
    value = run.critic(before, seen, env.latent(state)[None, None])
    assert abs(float(value[0, 0])) < 50
    assert float(run.critic.in_rewards(value)[0, 0]) == pytest.approx(1900, rel=0.1)


@pytest.mark.parametrize("kind", [A2CSettings, PPOSettings, DQNSettings])
def test_without_normalisation_a_run_has_nothing_more(kind: type[Settings]):
    """So its program and its checkpoints are what they were."""
    settings = replace(kind(), world="scales", time_limit=3, memory_size=8, hidden=(8,))
    if isinstance(settings, DQNSettings):
        settings = replace(settings, replay_steps=60)
    run = Program(settings, Scales()).template()
    assert run.statistics is None
    assert not normalised_parts(run.actor)
    assert run.critic.unit is None


def test_rewards_of_dqn_are_not_normalised():
    with pytest.raises(ValueError, match="normalise_rewards is a setting of a2c and ppo"):
        new_settings(method="adqn", normalise_rewards=True)
