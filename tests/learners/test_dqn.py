"""Updates of the DQN family: prefill, exploration, how much is learned when, target copies, gradient steps."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners import dqn
from asymrl.learners.dqn import DQN, DQNState, LearningState
from asymrl.learners.episodes import RUN_AXIS, Episodes
from asymrl.learners.key_purposes import REPLAY_DRAWS
from asymrl.learners.numbers import numbers_of, stack_numbers
from asymrl.learners.program import Program
from asymrl.learners.q_networks import QNetworks
from asymrl.learners.state import METRICS, training_world
from asymrl.runs.arrays import SavedRuns
from asymrl.runs.checkpoint import Checkpoints
from asymrl.runs.runs import Run
from asymrl.runs.states import from_saved, key_kind, to_arrays
from asymrl.settings import DQNSettings
from asymrl.worlds.spaces import Discrete
from tests.learners.small import assert_close, assert_same, member, weights_of
from tests.oracles.networks import Episode, Network
from tests.oracles.q_learning import QLearner

LIMIT, PREFILL, PERIOD, RATIO, UPDATES = 8, 40, 30, 3.0, 24
SETTINGS = DQNSettings(
    world="heaven-hell-1",
    method="adqn-vr",
    memory_size=8,
    hidden=(8,),
    time_limit=LIMIT,
    steps=2_000,
    log_points=2_000,
    prefill=PREFILL,
    replay_steps=100,  # less than is simulated here
    target_period=PERIOD,
    train_ratio=RATIO,
    episodes=2,
    learning_rate=1e-2,
    exploration_steps=150.0,
)
SEED = 7


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(SETTINGS)


def start(program: Program, *seeds: int) -> DQNState:
    """New runs; a few compiled small numbers."""
    runs = program.start(np.asarray(seeds))
    assert isinstance(runs, DQNState)
    return runs


def train(program: Program, runs: DQNState, updates: int, *settings: DQNSettings) -> Any:
    return program.train(runs, stack_numbers(settings or [SETTINGS] * runs.updates.shape[0]), updates)


def copied(tree: Any) -> Any:
    """On the host, since training consumes what it is given."""
    arrays, static = eqx.partition(tree, eqx.is_array)
    keys = lambda leaf: jax.random.wrap_key_data(jax.random.key_data(leaf).copy())  # noqa: E731
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)  # noqa: E731
    return eqx.combine(jax.tree.map(lambda leaf: keys(leaf) if is_key(leaf) else leaf.copy(), arrays), static)


@pytest.fixture(scope="module")
def course(program: Program) -> list[DQNState]:
    """One of two runs before its first update and after each of the next."""
    runs = start(program, 1, SEED)
    states = [copied(member(runs, 1))]
    for _ in range(UPDATES):
        runs = train(program, runs, 1)
        states.append(copied(member(runs, 1)))
    return states


def is_learning(run: DQNState) -> bool:
    """Whether the next update of a run learns."""
    return int(run.timesteps) >= PREFILL


def test_the_prefill_changes_the_replay_only(course: list[DQNState]):
    prefilled = next(i for i, run in enumerate(course) if is_learning(run))
    assert 2 < prefilled < UPDATES - 5
    first, filled = course[0], course[prefilled]
    assert_same((first.actor, first.critic, first.target), (filled.actor, filled.critic, filled.target))
    assert int(filled.actor_adam.count) == 0
    assert int(filled.replay.rows) == int(filled.timesteps)
    assert int(filled.replay.episodes) == int(filled.episodes) == prefilled
    assert int(course[-1].actor_adam.count) > 0


def test_the_replay_holds_the_last_episodes(course: list[DQNState]):
    run, lengths = course[-1], np.asarray(course[-1].recent_lengths)[: int(course[-1].episodes)]
    newest_first = np.cumsum(lengths[::-1])
    assert newest_first[-1] > SETTINGS.replay_steps
    kept = int((newest_first <= SETTINGS.replay_steps).sum())
    assert int(run.replay.episodes) == kept
    assert int(run.replay.rows) == newest_first[kept - 1]


def test_steps_are_learned_from_until_there_are_enough_for_those_that_were_simulated(course: list[DQNState]):
    layout = DQN(training_world(SETTINGS), SETTINGS).layout

    @jax.jit
    def lengths(key: Any, replay: Any) -> Any:
        return jax.vmap(
            lambda i: layout.draw(jax.random.fold_in(jax.random.fold_in(key, REPLAY_DRAWS), i), replay, 2).lengths
        )(jnp.arange(40))

    trained, steps = 0, 0
    for before, after in itertools.pairwise(course):
        quota = RATIO * (int(after.timesteps) - PREFILL)
        if is_learning(before):
            key = jax.random.fold_in(before.key, before.updates)
            drawn = np.asarray(lengths(key, after.replay)).sum(axis=1)
            while trained < quota:
                trained += int(drawn[steps - int(before.actor_adam.count)])
                steps += 1
        assert after.critic_adam is not None
        assert int(after.actor_adam.count) == int(after.critic_adam.count) == steps
        assert float(after.owed) == max(quota, 0.0) - trained
    assert trained > RATIO * 50


def test_targets_are_copies_from_when_they_were_due(course: list[DQNState]):
    expected, due = 0, None
    for before, after in itertools.pairwise(course):
        if is_learning(before) and int(after.timesteps) >= expected:
            expected, due = int(after.timesteps) + PERIOD, before  # before this update's gradient steps
        assert int(after.next_target) == expected
        if due is not None:
            assert_same(after.target, due.networks)
    assert expected > PREFILL + 2 * PERIOD


def test_exploration_falls_linearly_after_the_prefill():
    settings = DQNSettings()  # the authors' numbers
    steps = [0, 49_999, 50_000, 500_000, 999_999, 1_000_000, 1_999_999]
    numbers = numbers_of(settings)
    explore = jax.vmap(lambda t: DQN(ENV, settings).exploration(eqx.tree_at(lambda r: r.timesteps, run, t), numbers))
    run = DQN(ENV, replace(SETTINGS, method="dqn")).init(0)
    found = explore(jnp.asarray(steps))
    # The schedule counts the steps of the prefill: the first episode after it explores with 0.955.
    expected = [1.0, 1.0, 1 - 0.9 * 50_000 / 999_999, 1 - 0.9 * 500_000 / 999_999, 0.1, 0.1, 0.1]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_episodes_explore_as_much_as_the_schedule_says(program: Program):
    settings = replace(SETTINGS, prefill=0, exploration_start=0.0, exploration_end=0.0, train_ratio=1e-6)
    runs = train(program, start(program, SEED), 12, settings)
    # Always the same greedy policy: in heaven-hell-1 all that differs is the hidden side.
    kept = np.asarray(runs.replay.actions[0])[: int(runs.replay.rows[0])]
    assert set(np.asarray(runs.recent_lengths[0])[:12]) == {float(LIMIT)}
    assert len(set(map(tuple, kept.reshape(-1, LIMIT).tolist()))) <= 2


def test_points_of_the_curve(course: list[DQNState]):
    curve = dict(zip(METRICS, np.asarray(course[-1].curve)[:UPDATES].T, strict=True))
    np.testing.assert_array_equal(curve["timestep"], [int(run.timesteps) for run in course[:-1]])
    np.testing.assert_array_equal(curve["update"], np.arange(1, UPDATES + 1))
    learned = np.array([int(b.actor_adam.count) > int(a.actor_adam.count) for a, b in itertools.pairwise(course)])
    for name in ("critic_loss", "policy_loss", "critic_gradient_norm", "actor_gradient_norm"):
        np.testing.assert_array_equal(np.isfinite(curve[name]), learned)
        assert (curve[name][learned] > 0).all()
    for name in ("negentropy_loss", "negentropy_weight"):
        assert np.isnan(curve[name]).all()


def test_a_run_goes_on_bit_for_bit(program: Program, course: list[DQNState]):
    runs = start(program, 1, SEED)
    for updates in (5, UPDATES - 5):
        runs = train(program, runs, updates)
    assert_same(member(runs, 1), course[-1])


def test_a_checkpoint_holds_everything(program: Program, course: list[DQNState], tmp_path: Path):
    """The replay, too: a run that is read back goes on as if nothing had happened."""
    runs = train(program, start(program, 1, SEED), 10)
    made = (Run(SETTINGS, 1), Run(SETTINGS, SEED))
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(SavedRuns(made, to_arrays(runs), key_kind(runs), (0.0, 0.0)), "pool")
    (saved,) = checkpoints.load(made, print)
    runs = train(program, cast(DQNState, from_saved(program, saved)), UPDATES - 10)
    assert_same(member(runs, 1), course[-1])


def test_a_run_depends_on_nothing_but_itself(program: Program, course: list[DQNState]):
    """Alone, beside one that learns more, and beside one that is over soon."""
    alone = train(program, start(program, SEED), UPDATES)
    more, short = replace(SETTINGS, train_ratio=9.0, prefill=0), replace(SETTINGS, steps=60)
    beside = [train(program, start(program, 2, SEED), UPDATES, other, SETTINGS) for other in (more, short)]
    for run in (member(alone, 0), member(beside[0], 1), member(beside[1], 1)):
        for name in ("updates", "timesteps", "episodes", "recent_lengths", "recent_returns", "next_target", "owed"):
            np.testing.assert_array_equal(getattr(run, name), getattr(course[-1], name), err_msg=name)
        assert_same(run.replay, course[-1].replay)
        assert_close(run.networks, course[-1].networks, rtol=1e-3, atol=1e-4)


def test_nobody_waits_for_a_run_that_has_more_to_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of six runs the slower ones finish their update while the others begin the next; all end as they do alone.

    They are saved and read back in the middle of an update.
    """
    monkeypatch.setattr(dqn, "STEPS_PER_CALL", 2)
    usual = replace(SETTINGS, steps=150, log_points=5)  # updates that write a point are waited for
    program, given, seeds = Program(usual), [replace(usual, train_ratio=12.0), *[usual] * 5], range(20, 26)
    runs, late, checkpoints = start(program, *seeds), 0, Checkpoints(tmp_path)
    for _ in range(4 * UPDATES):
        runs = train(program, runs, 1, *given)
        late += int(np.sum(runs.is_unfinished))
        if late and not any(tmp_path.iterdir()):
            made = tuple(map(Run, given, seeds))
            checkpoints.save(SavedRuns(made, to_arrays(runs), key_kind(runs), (0.0,) * 6), "pool")
            (saved,) = checkpoints.load(made, print)
            runs = cast(DQNState, from_saved(program, saved))
            assert runs.is_unfinished.any()
    assert late > 5
    assert not runs.is_unfinished.any()
    assert (runs.timesteps >= 150).all()
    for lane, (seed, own) in enumerate(zip(seeds, given, strict=True)):
        alone = member(train(program, start(program, seed), 4 * UPDATES, own), 0)
        run = member(runs, lane)
        for name in ("updates", "timesteps", "episodes", "logged", "recent_lengths", "recent_returns", "owed", "drawn"):
            np.testing.assert_array_equal(getattr(run, name), getattr(alone, name), err_msg=name)
        assert int(run.actor_adam.count) == int(alone.actor_adam.count)
        np.testing.assert_allclose(run.curve, alone.curve, rtol=1e-3, atol=1e-4)
        assert_close(run.networks, alone.networks, rtol=1e-3, atol=1e-4)


def test_a_run_whose_loss_is_not_finite_stands_still(program: Program):
    broken = replace(SETTINGS, learning_rate=1e38)
    runs = train(program, start(program, 1, SEED), UPDATES, SETTINGS, broken)
    assert runs.failed.tolist() == [False, True]
    assert runs.updates[1] < UPDATES


ENV = training_world(SETTINGS)
assert isinstance(ENV.observation_space, Discrete)
assert isinstance(ENV.latent_space, Discrete)
SYMBOLS, STATES = ENV.observation_space.n, ENV.latent_space.n  # the last symbol stands before the first action


def episodes_of_reference(rng: np.random.Generator) -> list[Episode]:
    return [
        Episode(
            np.array([SYMBOLS - 1, *rng.integers(SYMBOLS - 1, size=T)]),
            rng.integers(STATES, size=T + 1),
            rng.integers(4, size=T),
            rng.integers(-1, 2, size=T).astype(np.float64),
            T == LIMIT,
        )
        for T in (LIMIT, 3)
    ]


def episodes_of_program(given: list[Episode]) -> Episodes:
    def rows(part: str, length: int, dtype: type) -> Any:
        columns = [np.asarray(getattr(episode, part))[:length] for episode in given]
        padded = [np.pad(column, (0, length - len(column))).astype(dtype) for column in columns]
        return jnp.asarray(np.stack(padded, axis=1)[:, None])

    lengths = jnp.asarray([[len(episode.actions) for episode in given]], jnp.int32)
    return Episodes(
        rows("observations", LIMIT + 1, np.int32),
        rows("signals", LIMIT + 1, np.int32),
        rows("actions", LIMIT, np.int32),
        rows("rewards", LIMIT, np.float32),
        jnp.zeros((LIMIT, 1, 2, 0)),
        lengths,
        lengths == LIMIT,
    )


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
def test_gradient_steps_are_those_of_the_reference(shared: bool):
    settings = replace(SETTINGS, method="adqn-short", shared_memory=shared, clip_norm=0.4, adam_eps=1e-3)
    program = Program(settings)
    run = program.start([3])
    given = [episodes_of_reference(np.random.default_rng(i)) for i in range(3)]

    step = gradient_steps(program, settings, run)
    networks_before = networks = run.networks
    one = member(networks, 0)
    weights = weights_of(one.history), weights_of(one.privileged)
    network = Network("h", None, 4, SYMBOLS - 1 if shared else None)
    reference = QLearner("adqn-short", shared, network, *weights, dict(weights[0]), dict(weights[1]))
    adams = (run.actor_adam, run.critic_adam)
    for episodes in given:
        networks, adams, losses, failed = step(networks, networks_before, adams, episodes_of_program(episodes))
        expected = reference.update(episodes, 0.99, (1e-2, 1e-2), 1e-3, clip_norm=0.4)
        np.testing.assert_allclose([losses.policy_loss[0], losses.critic_loss[0]], expected, rtol=2e-4)
        assert not failed[0]
        one = member(networks, 0)
        for model, expected in ((one.history, reference.history), (one.privileged, reference.privileged)):
            for part, value in weights_of(model).items():
                np.testing.assert_allclose(value, expected[part], atol=2e-4, err_msg=part)


def test_runs_that_want_no_step_stand_still():
    settings = replace(SETTINGS, method="dqn")
    program = Program(settings)
    runs = program.start([1, 2])
    episodes = jax.tree.map(
        lambda leaf, axis: jnp.concatenate([leaf, leaf], axis=axis),
        episodes_of_program(episodes_of_reference(np.random.default_rng(0))),
        RUN_AXIS,
    )
    adams, step = (runs.actor_adam, runs.critic_adam), gradient_steps(program, settings, runs, [True, False])
    networks, after, losses, failed = step(runs.networks, runs.target, adams, episodes)
    assert not failed.any()
    assert_same(member(networks, 1), member(runs.networks, 1))
    assert_same(member(after, 1), member(adams, 1))
    assert after[0].count.tolist() == [1, 0]
    assert np.isnan(losses.critic_loss).all()
    assert not np.array_equal(networks.history.head.layers[0].weight[0], runs.actor.head.layers[0].weight[0])


def gradient_steps(program: Program, settings: DQNSettings, runs: Any, on: list[bool] | None = None) -> Any:
    """A compiled gradient step of each run that is `on`, from given networks, optimisers and episodes."""
    learner, mask = DQN(program.world, settings.shape()), jnp.asarray(on or [True] * runs.updates.shape[0])

    @eqx.filter_jit
    def step(networks: QNetworks, target: QNetworks, adams: Any, episodes: Episodes) -> Any:
        def one(run: Any, networks: Any, target: Any, adams: Any, episodes: Episodes, numbers: Any, on: Any) -> Any:
            state = LearningState(run.drawn, networks, adams, run.owed, run.failed, None)  # pyright: ignore
            learned = learner.gradient_step(run.key, target, state, episodes, numbers, on)
            return learned.networks, learned.adams, learned.losses, learned.failed

        each = eqx.if_array(0)
        over_runs = eqx.filter_vmap(one, in_axes=(each, each, each, each, RUN_AXIS, 0, 0))
        numbers = stack_numbers([settings] * mask.shape[0])
        return over_runs(runs, networks, target, adams, episodes, numbers, mask)

    return step
