"""A run and its curve depend on its own seed and settings only, whichever runs share its batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.bucket import bucket_lengths, first_that_fits
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
from asymrl.learners.rollout import roll_out
from asymrl.learners.state import METRICS, RECENT, RunState, is_active
from asymrl.settings import A2CSettings
from tests.learners.small import assert_close, assert_same, member, rules_of, start, tiny
from tests.oracles.update import negentropy_weight

UPDATES = 50
# Every update writes a point of the curve: the period of the points is a single step.
MINE = tiny(world="heaven-hell-1", steps=2_000, log_points=2_000, entropy_weight=0.01, target_period=100)
OTHER = replace(MINE, actor_rate=1e-2, critic_rate=3e-3, discount=0.9, entropy_weight=0.5, clip_norm=1.0)
SEED = 7


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(MINE)


def train(program: Program, seeds: Sequence[int], settings: Sequence[A2CSettings], *updates: int) -> RunState:
    runs = start(program.world, MINE, seeds)
    for count in updates:
        runs = program.train(runs, stack_numbers(settings), count)
    return runs


@pytest.fixture(scope="module")
def trio(program: Program) -> RunState:
    """Three runs after 50 updates. The second also trains in other company; the third has other settings."""
    return train(program, [1, SEED, 2], [MINE, MINE, OTHER], UPDATES)


def assert_same_course(one: RunState, other: RunState) -> None:
    """The same episodes all along, and networks that differ by rounding alone."""
    # The last 100 episodes of 50 updates are all episodes, so that equal lengths and returns leave little room.
    assert UPDATES * MINE.episodes == RECENT
    for name in ("updates", "timesteps", "episodes", "logged", "recent_lengths", "recent_returns", "next_target"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_allclose(one.curve, other.curve, rtol=1e-3, atol=1e-4)
    assert_close((one.actor, one.critic), (other.actor, other.critic), rtol=1e-3, atol=1e-4)


def test_alone_and_among_three(program: Program, trio: RunState):
    alone = train(program, [SEED], [MINE], UPDATES)
    assert_same_course(member(alone, 0), member(trio, 1))


def test_among_twenty(program: Program, trio: RunState):
    seeds = [seed for seed in range(20) if seed != SEED] + [SEED]
    twenty = train(program, seeds, [MINE] * 19 + [MINE], UPDATES)
    assert_same_course(member(twenty, 19), member(trio, 1))


def test_settings_of_their_own(program: Program, trio: RunState):
    alone = train(program, [2], [OTHER], UPDATES)
    assert_same_course(member(alone, 0), member(trio, 2))
    with_mine = train(program, [2], [MINE], UPDATES)
    assert not np.array_equal(with_mine.actor.head.layers[0].weight, alone.actor.head.layers[0].weight)


def test_seeds_make_a_difference(trio: RunState):
    assert not np.array_equal(member(trio, 0).recent_lengths, member(trio, 1).recent_lengths)


def test_new_runs_come_from_their_seeds(program: Program):
    together, alone = program.start([1, SEED]), program.start([SEED])
    assert_same(member(together, 1), member(alone, 0))
    assert not np.array_equal(together.actor.head.layers[0].weight[0], together.actor.head.layers[0].weight[1])
    assert_same(alone.target, alone.critic)


def curve_of(runs: RunState, i: int) -> dict[str, np.ndarray]:
    """The curve of a run, by metric, without the points that it did not reach."""
    curve, reached = np.asarray(runs.curve[i]), int(runs.logged[i])
    assert np.isnan(curve[reached:]).all()
    return dict(zip(METRICS, curve[:reached].T, strict=True))


@pytest.mark.parametrize(("i", "settings"), [(0, MINE), (2, OTHER)])
def test_curves(trio: RunState, i: int, settings: A2CSettings):
    curve = curve_of(trio, i)
    np.testing.assert_array_equal(curve["update"], np.arange(1, UPDATES + 1))
    np.testing.assert_array_equal(curve["episode"], settings.episodes * curve["update"])
    # Points are named by the time before their update; lengths are means over all episodes so far.
    time = np.append(curve["timestep"], trio.timesteps[i])
    assert time[0] == 0
    np.testing.assert_allclose(curve["length"], time[1:] / curve["episode"], rtol=1e-5)
    np.testing.assert_allclose(curve["length"][-1], trio.recent_lengths[i].mean(), rtol=1e-5)
    np.testing.assert_allclose(curve["return"][-1], trio.recent_returns[i].mean(), rtol=1e-5, atol=1e-6)
    assert set(np.unique(trio.recent_returns[i])) <= {-1.0, 0.0, 1.0}
    # The weight of the entropy is that of the time after the episodes of the update.
    expected = [negentropy_weight(int(step), rules_of(settings)) for step in time[1:]]
    np.testing.assert_allclose(curve["negentropy_weight"], expected, rtol=1e-5)
    losses = [values for name, values in curve.items() if not name.startswith("evaluation")]
    assert np.isfinite(losses).all()
    assert np.isnan(curve["evaluation_return"]).all()


def test_points_of_a_curve_are_a_period_apart(program: Program):
    longer = replace(MINE, steps=20 * MINE.steps)
    assert longer.log_period == 20
    runs = train(program, [1, SEED, 2], [longer] * 3, 100)
    for i in range(3):
        gaps = np.diff(curve_of(runs, i)["timestep"])
        assert len(gaps) > 10
        assert (gaps >= longer.log_period).all()
        assert (gaps < longer.log_period + longer.episodes * longer.time_limit).all()


def test_the_same_batch_twice_is_the_same_bit_by_bit(program: Program, trio: RunState):
    assert_same(train(program, [1, SEED, 2], [MINE, MINE, OTHER], UPDATES), trio)


def test_training_in_parts_is_the_same_bit_by_bit(program: Program, trio: RunState):
    assert_same(train(program, [1, SEED, 2], [MINE, MINE, OTHER], 20, 30), trio)


def test_a_complete_run_stands_still_while_others_go_on(program: Program):
    short = replace(MINE, steps=60)
    settings = [MINE, short, MINE]
    runs = train(program, [1, SEED, 2], settings, 30)
    assert not is_active(runs, stack_numbers(settings))[1]
    complete = jax.device_get(eqx.filter(member(runs, 1), eqx.is_array))
    runs = program.train(runs, stack_numbers(settings), 20)
    assert_same(member(runs, 1), complete)
    assert int(runs.updates[0]) == int(runs.updates[2]) == 50
    assert 60 <= int(runs.timesteps[1]) < 60 + MINE.episodes * MINE.time_limit


def test_a_run_that_is_good_enough_stands_still_while_others_go_on(program: Program):
    """After 100 episodes at the earliest; every return in this world is at least -1."""
    settings = [MINE, replace(MINE, stop_return=-1.0), replace(MINE, stop_return=1.5)]
    runs = train(program, [1, SEED, 2], settings, UPDATES - 1)
    assert is_active(runs, stack_numbers(settings)).tolist() == [True, True, True]
    runs = program.train(runs, stack_numbers(settings), 10)
    assert is_active(runs, stack_numbers(settings)).tolist() == [True, False, True]
    assert runs.updates.tolist() == [UPDATES + 9, RECENT // MINE.episodes, UPDATES + 9]


def poisoned(runs: RunState, i: int) -> RunState:
    """One run with a weight that is not a number."""
    where = lambda r: r.critic.head.layers[0].weight  # noqa: E731
    return eqx.tree_at(where, runs, where(runs).at[i, 0, 0].set(jnp.nan))


def test_a_broken_run_stops_and_leaves_the_others_alone(program: Program, trio: RunState):
    settings = [MINE, MINE, OTHER]
    runs = poisoned(start(program.world, MINE, [1, SEED, 2]), 1)
    models = jax.device_get(eqx.filter(member((runs.actor, runs.actor_adam), 1), eqx.is_array))
    runs = program.train(runs, stack_numbers(settings), UPDATES)
    assert runs.failed.tolist() == [False, True, False]
    assert runs.updates.tolist() == [UPDATES, 1, UPDATES]
    assert_same(member((runs.actor, runs.actor_adam), 1), models)
    for i in (0, 2):
        assert_same(member(runs, i), member(trio, i))


def test_a_rate_that_is_far_too_high_breaks_a_run(program: Program, trio: RunState):
    settings = [MINE, replace(MINE, critic_rate=1e38), OTHER]
    runs = train(program, [1, SEED, 2], settings, UPDATES)
    assert runs.failed.tolist() == [False, True, False]
    assert int(runs.updates[1]) < UPDATES
    assert_same(member(runs, 0), member(trio, 0))


@pytest.mark.slow
@pytest.mark.parametrize("world", ["tiger", "car-flag", "memory-four-rooms-7x7"])
def test_every_action_is_the_same_in_any_company(world: str):
    compare_every_action(world)


@pytest.mark.slow
@pytest.mark.usefixtures("as_users_compile")
def test_every_action_is_the_same_in_any_company_when_optimised():
    compare_every_action("heaven-hell-3")


def compare_every_action(world: str) -> None:
    """Over 50 updates, alone, among 3 and among 20, with episodes that need learning passes of two lengths."""
    settings = replace(MINE, world=world, time_limit=20)
    program = Program(settings)

    @jax.jit
    def actions(arrays: Any, keys: Any) -> Any:
        runs = eqx.combine(arrays, static)
        now = jax.vmap(jax.random.fold_in)(keys, runs.updates)
        played = roll_out(program.world, runs.actor, now, jnp.ones(keys.shape, bool), episodes=settings.episodes)
        # What is recorded after the end of an episode depends on how long the others go on.
        over = jnp.arange(played.actions.shape[0])[:, None, None] >= played.lengths[None]
        return jnp.where(over, -1, played.actions)

    batches = {size: start(program.world, settings, [*range(100, 99 + size), SEED]) for size in (1, 3, 20)}
    static = eqx.partition(batches[1], eqx.is_array)[1]
    for update in range(UPDATES):
        taken = {size: np.asarray(actions(eqx.filter(r, eqx.is_array), r.key)) for size, r in batches.items()}
        for size in (3, 20):
            np.testing.assert_array_equal(taken[size][:, -1], taken[1][:, -1], err_msg=f"update {update}")
        batches = {size: program.train(r, stack_numbers([settings] * size), 1) for size, r in batches.items()}
    for size in (3, 20):
        assert_same_course(member(batches[size], size - 1), member(batches[1], 0))


@pytest.mark.parametrize("limit", [10, 16, 50, 64, 100])
def test_the_shortest_length_that_fits_is_chosen(limit: int):
    lengths = bucket_lengths(limit)
    for longest in range(1, limit + 1):
        assert first_that_fits(jnp.int32(longest), lengths) == np.searchsorted(lengths, longest)
