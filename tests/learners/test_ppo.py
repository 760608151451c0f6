"""PPO: a whole update against NumPy, its gradient against that of A2C, and runs that are interrupted or in company."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners import a2c, ppo
from asymrl.learners.episodes import training_batch
from asymrl.learners.key_purposes import MINIBATCHES, STREAM_STEPS
from asymrl.learners.numbers import numbers_of, stack_numbers
from asymrl.learners.ppo_losses import Networks, gradient_of, prepare
from asymrl.learners.program import Program
from asymrl.learners.returns import gae, td_lambda
from asymrl.learners.signals import critic_signal
from asymrl.learners.state import METRICS, keys_of, training_world
from asymrl.learners.streams import act_in_streams, empty_carries, whole_episodes
from tests.learners.small import arrays, assert_same, member, start, tiny, tiny_ppo, weights_of
from tests.learners.test_gradients import T, shaken, some_episodes
from tests.oracles.ppo import PPOLearner, PPORules, Steps
from tests.oracles.update import Adam

# Short episodes, so that some end in the middle of a piece, some are cut off, and some go on in the next one.
MINE = tiny_ppo(
    world="heaven-hell-1",
    method="ppo-asym-hs",
    time_limit=5,
    rollout=8,
    epochs=2,
    minibatches=2,
    learning_rate=1e-2,
    adam_eps=1e-3,
    clip_ratio=0.05,  # small enough to matter
    entropy_weight=0.1,
    steps=960,
    log_points=960,
)
PER_UPDATE = MINE.streams * MINE.rollout


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(MINE)


@pytest.fixture(scope="module")
def trio(program: Program) -> Any:
    """Three runs after 6 updates."""
    return train(program, [3, 4, 5], 6)


def train(program: Program, seeds: list[int], *updates: int) -> Any:
    runs = program.start(seeds)
    for count in updates:
        runs = program.train(runs, stack_numbers([MINE] * len(seeds)), count)
    return runs


def test_one_update_is_that_of_the_reference(program: Program, trio: Any):
    """Collection, values, advantages, two passes of two gradient steps each; from the middle of episodes."""
    run, env = member(trio, 1), program.world
    one = jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, run)
    numbers, key = stack_numbers([MINE]), keys_of(one)[0]
    _, piece = eqx.filter_jit(act_in_streams)(
        env, run.actor, run.streams, jax.random.fold_in(key, STREAM_STEPS), MINE.rollout
    )
    piece: Any = jax.tree.map(np.asarray, piece)
    assert piece.terminated.any()
    assert piece.truncated.any()
    assert not piece.first[0].all()

    learner = PPOLearner(
        weights_of(run.actor),
        weights_of(run.critic),
        Adam(int(run.adam.count), *(both(moments) for moments in (run.adam.mu, run.adam.nu))),
        "hs",
        env.observation_space.n - 1 if env.observation_space.blank else None,  # pyright: ignore
    )
    streams = [
        Steps(
            first=piece.first[:, n],
            before=piece.before[:, n],
            observations=piece.observations[:, n],
            signals=piece.states[:, n],
            actions=piece.actions[:, n],
            rewards=piece.rewards[:, n].astype(float),
            terminated=piece.terminated[:, n],
            truncated=piece.truncated[:, n],
            observations_after=piece.next_observations[:, n],
            signals_after=piece.next_states[:, n],
        )
        for n in range(MINE.streams)
    ]
    carries = jax.tree.map(
        lambda leaf: np.asarray(leaf, float), (run.streams.carries.actor, run.streams.carries.critic)
    )
    memories = [(carries[0][n], carries[1][n]) for n in range(MINE.streams)]
    orders = np.asarray(ppo.minibatches(jax.random.fold_in(key, MINIBATCHES), MINE.streams, MINE))
    names = ("adam_eps", "clip_norm", "clip_ratio", "discount", "gae_lambda", "value_weight", "entropy_weight")
    rate = MINE.learning_rate * (1 - float(run.timesteps) / (MINE.steps - 1))
    found = learner.update(
        streams, memories, orders, PPORules(rate, **{n: float(np.float32(getattr(MINE, n))) for n in names})
    )

    learned = member(program.train(one, numbers, 1), 0)
    for name, expected in found.items():
        got = learned.curve[int(learned.logged) - 1, METRICS.index(name)]
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6, err_msg=name)
    for model, expected in ((learned.actor, learner.actor), (learned.critic, learner.critic)):
        for name, weight in weights_of(model).items():
            np.testing.assert_allclose(weight, expected[name], rtol=1e-4, atol=2e-6, err_msg=name)


def both(networks: Networks) -> dict[str, np.ndarray]:
    named = enumerate((networks.actor, networks.critic))
    return {f"{i}.{name}": x for i, model in named for name, x in weights_of(model).items()}


def exact(settings: Any) -> Any:
    return jax.tree.map(np.float64, numbers_of(settings))


@pytest.mark.parametrize("bootstrap", [False, True])
def test_its_gradient_is_that_of_a2c(bootstrap: bool):
    """With whole episodes, one pass, no clipping, weights gamma^t and twice the value weight."""
    common: dict[str, Any] = {"world": "heaven-hell-1", "time_limit": T, "memory_size": 4, "hidden": (5,)}
    common |= {"discount": 0.9, "entropy_weight": 0.3, "bootstrap_truncated": bootstrap}
    settings = tiny(method="a2c-asym-hs", estimator="td-lambda", td_lambda=0.7, **common)
    mine = tiny_ppo(
        method="ppo-asym-hs",
        whole_episodes=2,
        epochs=1,
        minibatches=1,
        clip_ratio=None,
        clip_values=False,
        normalise_advantages=False,
        discount_steps=True,
        gae_lambda=0.7,
        value_weight=2.0,
        **common,
    )
    env, rng = training_world(settings), np.random.default_rng(0)
    with jax.enable_x64(True):
        run = member(start(env, settings, [0]), 0)
        actor, critic = shaken(run.actor, rng), shaken(run.critic, rng)

        @eqx.filter_jit
        def gradients(actor: Any, critic: Any) -> Any:
            episodes = some_episodes(rng)
            before = episodes.before(actor.distribution)[:T]
            episodes = episodes._replace(features=actor.history.sequence(before, episodes.observations[:T]))
            weight, numbers = jnp.float64(0.3), exact(settings)
            data = training_batch(env, settings, episodes, T)
            losses, of_actor = a2c.actor_gradient(actor, critic, data, weight, settings, numbers)
            value_loss, of_critic = a2c.critic_gradient(critic, critic, data, settings, numbers)

            networks, numbers = Networks(actor, critic), exact(mine)
            signal = critic_signal(env, mine)
            carries, piece = empty_carries(actor, critic, signal, 2), whole_episodes(actor, episodes, T)
            _, data = prepare(networks, carries, piece, signal, jax.random.key(0), mine, numbers)
            mine_losses, gradient = gradient_of(networks, data, carries, weight, mine, numbers)
            return (of_actor, of_critic, losses, value_loss), (gradient.actor, gradient.critic, mine_losses)

        theirs, ours = jax.device_get(gradients(actor, critic))
    for expected, got in zip(theirs[:2], ours[:2], strict=True):
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours[2][1], theirs[2][1], rtol=1e-6)
    np.testing.assert_allclose(2 * ours[2][2], theirs[3], rtol=1e-6)


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(program: Program, trio: Any):
    assert_same(train(program, [3, 4, 5], 2, 1, 3), trio)


def test_a_run_does_not_depend_on_its_company(program: Program, trio: Any):
    alone = member(train(program, [4], 6), 0)
    for name in ("timesteps", "episodes", "recent_returns", "recent_lengths", "updates"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(member(trio, 1), name), err_msg=name)
    for a, b in zip(arrays(alone), arrays(member(trio, 1)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert not np.array_equal(member(trio, 0).recent_lengths, member(trio, 1).recent_lengths)


def test_steps_and_episodes_are_counted(trio: Any):
    assert (np.asarray(trio.timesteps) == 6 * PER_UPDATE).all()
    running = np.asarray(trio.streams.episode.t).sum(axis=1)
    for i in range(3):
        # 192 steps in episodes of at most 5 steps: fewer than 100 have ended, and the others are under way.
        count = int(trio.episodes[i])
        assert np.asarray(trio.recent_lengths[i])[:count].sum() + running[i] == 6 * PER_UPDATE


def test_a_run_that_is_over_stands_still(program: Program):
    runs = train(program, [3], 40)
    assert int(runs.timesteps[0]) == MINE.steps
    assert_same(program.train(jax.tree.map(jnp.copy, runs), stack_numbers([MINE]), 3), runs)


def test_advantages_in_an_episode_are_those_of_td_lambda():
    rng = np.random.default_rng(0)
    rewards, values = (jnp.asarray(rng.normal(size=(6, 2)), jnp.float32) for _ in range(2))
    after = jnp.concatenate([values[1:], jnp.zeros((1, 2))])
    ended = jnp.zeros((6, 2), bool).at[-1].set(True)
    expected = td_lambda(rewards, values, 0.9, 0.7) - values
    np.testing.assert_allclose(gae(rewards, values, after, ended, 0.9, 0.7), expected, rtol=1e-5, atol=1e-6)


def test_every_pass_uses_each_stream_once():
    settings = tiny_ppo(streams=12, minibatches=3, epochs=5)
    orders = np.asarray(ppo.minibatches(jax.random.key(0), 12, settings)).reshape(5, 12)
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(12), (5, 1)))
    assert len({tuple(order) for order in orders}) == 5
