"""Replays of falls: updates are those of training, a replay repeats a run bit for bit, changes do what they say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import polars as pl
import pytest

from asymrl.learners.numbers import stack_numbers
from asymrl.settings import A2CSettings
from asymrl.studies.fall_replays import VARIANTS, Change, Replayer, ReplayVariant
from asymrl.studies.fall_replays.changed_updates import with_key
from asymrl.studies.fall_replays.replay_figure import relative_to_before
from asymrl.studies.fall_replays.replay_tables import fall_table, hunt_table, replay_findings, share_table
from asymrl.studies.fall_replays.replaying import (
    APPROACH,
    HORIZON,
    STAY,
    changed_from,
    divided,
    onset_of,
    outcome,
    replay,
    with_entropy_weight,
)

SETTINGS = A2CSettings(
    memory_size=8, hidden=(8,), time_limit=10, log_points=2, entropy_schedule="constant", steps=100_000
)


@pytest.fixture(scope="module")
def replayer() -> Replayer:
    return Replayer(SETTINGS)


def numbers_in(tree: Any) -> np.ndarray:
    return np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))])


def same(first: Any, second: Any) -> bool:
    return np.array_equal(numbers_in(first), numbers_in(second))


def test_without_changes_an_update_is_that_of_training(replayer: Replayer):
    runs, _ = replayer.train(replayer.start(3), 30, entropy_weight=0.1)
    program = replayer.program
    trained = program.train(program.start([3]), stack_numbers([SETTINGS]), 30)
    assert int(runs.timesteps[0]) == int(trained.timesteps[0])
    for name in ("actor", "critic", "target", "actor_adam", "critic_adam"):
        got, expected = numbers_in(getattr(runs, name)), numbers_in(getattr(trained, name))
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6, err_msg=name)
    assert same(runs.recent_returns, trained.recent_returns)


def test_a_run_in_pieces_is_the_same_run_bit_for_bit(replayer: Replayer):
    whole, record = replayer.train(replayer.start(1), 12)
    first, early = replayer.train(replayer.start(1), 5)
    again, late = replayer.train(first, 7)
    for name in ("actor", "critic", "target", "actor_adam", "critic_adam"):
        assert same(getattr(whole, name), getattr(again, name))
    for name, values in record.items():
        assert np.array_equal(values, np.concatenate([early[name], late[name]])), name
    assert not same(replayer.train(with_key(first, 1), 7)[0].actor, again.actor)
    assert same(replayer.train(with_key(first, 0), 7)[0].actor, again.actor)


def test_a_network_that_waits_stays_and_a_skipped_update_leaves_adam_too(replayer: Replayer):
    start, _ = replayer.train(replayer.start(2), 5)
    waited, _ = replayer.train(start, 3, Change(critic_speed=0.0))
    assert same(waited.critic, start.critic)
    assert not same(waited.actor, start.actor)
    assert not same(waited.critic_adam, start.critic_adam)
    skipped, rows = replayer.train(start, 3, Change(skip_below=10.0))
    assert same(skipped.critic_adam, start.critic_adam)
    assert same(skipped.actor, start.actor)
    assert int(skipped.timesteps[0]) == int(start.timesteps[0]) + rows["steps"].sum()


@pytest.mark.parametrize("who", ["actor", "critic"])
def test_a_change_of_one_network_shortens_its_own_step(replayer: Replayer, who: str):
    start, _ = replayer.train(replayer.start(2), 40)
    usual = replayer.train(start, 30)[1]
    for change in ({f"{who}_clip": 1e-3}, {f"{who}_eps": 1.0}, {f"{who}_speed": 0.5}):
        found = replayer.train(start, 30, Change(**change))[1]
        # Adam's mean of the gradients so far has to fade first, if only new ones are clipped.
        assert found[f"{who}_step_norm"][-1] < 0.8 * usual[f"{who}_step_norm"][-1], change
    # The critic learns first; the actor is told what it learned.
    assert replayer.train(start, 1, Change(actor_eps=1.0))[1]["critic_step_norm"] == usual["critic_step_norm"][:1]


def test_advantages_are_clipped_or_normalised_for_the_actor_only(replayer: Replayer):
    start, _ = replayer.train(replayer.start(2), 40)
    usual = replayer.train(start, 1, entropy_weight=0.0)[1]
    clipped = replayer.train(start, 1, Change(advantage_limit=1e-6), entropy_weight=0.0)[1]
    normalised = replayer.train(start, 1, Change(normalise=True), entropy_weight=0.0)[1]
    assert clipped["actor_gradient_norm"][0] < 1e-3 * usual["actor_gradient_norm"][0]
    factor = normalised["actor_gradient_norm"][0] / usual["actor_gradient_norm"][0]
    assert factor == pytest.approx(1 / usual["advantage_root"][0], rel=1e-3)
    assert clipped["critic_step_norm"][0] == usual["critic_step_norm"][0]


def test_squares_that_never_shrink(replayer: Replayer):
    start, _ = replayer.train(replayer.start(2), 10)
    kept, _ = replayer.train(start, 5, Change(keep_largest=True))
    usual, _ = replayer.train(start, 5)
    old, new = numbers_in(start.critic_adam.nu), numbers_in(kept.critic_adam.nu)
    assert (new >= old).all()
    assert (numbers_in(usual.critic_adam.nu) < old).any()


def test_the_target_is_copied_when_a_variant_says_so(replayer: Replayer):
    start, _ = replayer.train(replayer.start(2), 5)

    def copies(name: str) -> int:
        _, rows = replay(replayer, start, start, VARIANTS[name], usual=Change(), weight=0.1, key=1)
        return sum(int(row["copied"].sum()) for row in rows)

    assert copies("target never copied") == 0
    assert copies("target always copied") > 1


def test_a_replay_that_changes_nothing_repeats_the_run_up_to_the_new_random_numbers(replayer: Replayer):
    start, _ = replayer.train(replayer.start(4), 5)
    _, record = replayer.train(start, 40)

    def repeated(variant: ReplayVariant, key: int) -> int:
        """How many updates are those of the record."""
        _, rows = replay(replayer, start, start, variant, usual=Change(), weight=0.1, key=key)
        losses = np.concatenate([row["critic_loss"] for row in rows])[:40]
        return int((np.cumprod(losses == record["critic_loss"][: len(losses)])).sum())

    # Runs that never solved anything are lost as soon as their returns are those of the mean of 100 episodes.
    assert repeated(ReplayVariant(), 0) >= 25
    assert repeated(ReplayVariant(), 1) == 1
    assert repeated(ReplayVariant(starts=10), 1) == 11
    assert repeated(ReplayVariant(starts=-1), 1) == 0
    assert repeated(ReplayVariant({"skip_below": 10.0}), 0) == 1


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("critic_first", 100, "critic_first is 100, which replays ignore; leave it at 0$"),
        ("normalise_observations", True, "normalise_observations is True"),
        ("normalise_rewards", True, "normalise_rewards is True"),
        ("evaluation_episodes", 3, "evaluation_episodes is 3"),
        ("stop_return", 0.9, "stop_return is 0.9"),
        ("start_from", "zoo:heaven-hell-3", "start_from is zoo:heaven-hell-3"),
        ("target_period", 500, "target_period is 500, .* leave it at 10000 and change target_period$"),
        ("clip_norm", 1.0, "clip_norm is 1.0, .* leave it at None and change actor_clip and critic_clip$"),
        ("adam_eps", 1e-5, "adam_eps is 1e-05, .* change actor_eps and critic_eps$"),
        ("adam_beta2", 0.99, "adam_beta2 is 0.99, .* change actor_new_square and critic_new_square$"),
        ("critic_sees", "sampled-state", "critic_sees is sampled-state; replays cannot draw it"),
    ],
)
def test_settings_that_a_replay_would_ignore_are_refused(setting: str, value: Any, message: str):
    with pytest.raises(ValueError, match=message):
        Replayer(replace(SETTINGS, **{setting: value}))


def test_changes_begin_with_the_default_settings():
    """Otherwise a replay without changes would not repeat a run with the default settings."""
    usual = A2CSettings()
    assert (Change().target_period, Change().actor_eps, Change().critic_eps) == (
        usual.target_period,
        *[usual.adam_eps] * 2,
    )
    assert (Change().actor_new_square, Change().critic_new_square) == pytest.approx((1 - usual.adam_beta2,) * 2)


def test_with_a_schedule_the_weight_of_the_entropy_has_to_be_given():
    scheduled = Replayer(replace(SETTINGS, entropy_schedule="linear"))
    with pytest.raises(ValueError, match="entropy_schedule is linear, which replays ignore; pass entropy_weight"):
        scheduled.train(scheduled.start(0), 1)
    runs, _ = scheduled.train(scheduled.start(0), 1, entropy_weight=0.1)
    assert int(runs.updates[0]) == 1


def test_phases_are_divided_where_random_numbers_change():
    phases = [(1, {"a": 1}), (20, {"b": 2}), (30, {})]
    assert divided(phases, 11) == [(1, {"a": 1}), (10, {"b": 2}), (10, {"b": 2}), (30, {})]
    assert divided(phases, 1) == divided(phases, 0) == phases
    usual = Change(actor_speed=3.0)
    assert changed_from(usual, {"actor_speed": 0.5, "critic_clip": 1.0}) == Change(actor_speed=1.5, critic_clip=1.0)
    assert HORIZON > 200


def test_a_fall_begins_with_the_first_failure_of_its_last_cluster():
    returns = np.ones(300)
    returns[[20, 100, 130, 160, 161, 162]] = [-1, 0, -1, 0, 0, 0]
    assert onset_of(returns) == 100  # the 80 updates since 20 had no failure
    returns[60] = 0
    assert onset_of(returns) == 20


def test_an_outcome_counts_from_a_solved_task():
    def rows(*returns: float) -> list[dict[str, np.ndarray]]:
        return [{"mean_return": np.asarray(returns), "lowest_return": np.asarray(returns)}]

    assert outcome(rows(*[1.0] * 60)) == (False, None, 1.0, 0)
    # 26 of the last 50 updates have to fail.
    assert outcome(rows(*[0.0] * 30)).after == 26
    assert outcome(rows(*[0.0] * 25)) == (False, None, pytest.approx(0.5), 25)


def test_shares_and_rates_of_few_numbers():
    kinds = [("nothing", True)] * 3 + [("nothing", False)] + [("critic clip 1", False)] * 4
    bases = ["agent-7", "seed1-2", "seed1-2", "seed1-3"] * 2
    replays = [
        {"fall": base, "later": 0, "variant": name, "fell": fell}
        for base, (name, fell) in zip(bases, kinds, strict=True)
    ]
    table = share_table(pl.DataFrame(replays))
    assert table.select("from_agent", "from_seed1").rows() == [("1 of 1", "2 of 3"), ("0 of 1", "0 of 3")]
    assert table.select("variant", "replays", "fell", "share").rows() == [
        ("nothing", 4, 3, 0.75),
        ("critic clip 1", 4, 0, 0.0),
    ]
    # Of 4 of each kind: how likely are all three falls in the same one?
    assert table["p"].to_list() == pytest.approx([1.0, 2 * 4 / 56])
    runs = [("nothing", 2, True), ("nothing", 1, True), ("both clip 1", 3, False)]
    hunts = pl.DataFrame(
        [{"base": "agent", "arm": arm, "steps": 10**6 * n, "fell": fell, "hell": 1} for arm, n, fell in runs]
    ).with_columns(lost_before=False)
    usual, clipped = hunt_table(hunts).rows(named=True)
    assert (usual["falls"], usual["millions"], usual["hell"]) == (2, 3.0, 2)
    assert usual["falls_per_million"] == pytest.approx(2 / 3)
    assert (clipped["falls"], clipped["p"]) == (0, pytest.approx(0.5))


def test_other_entropy_weights_are_compared_with_the_usual_one_approached_as_slowly():
    runs = [("nothing", False), *[("floor x 1", True)] * 2, ("floor x 3", False)]
    hunts = pl.DataFrame([{"base": "agent", "arm": arm, "steps": 10**6, "fell": fell, "hell": 0} for arm, fell in runs])
    hunts = hunts.with_columns(lost_before=False)
    lost = hunts.filter(arm="floor x 3").with_columns(lost_before=True, steps=pl.lit(0, pl.Int64))
    rows = {row["arm"]: row for row in hunt_table(pl.concat([*[hunts] * 4, lost])).rows(named=True)}
    # Eight falls, all with the usual weight, in two thirds of these steps. With equal rates, 6 or more of 8 with the
    # other weight would be as unlikely.
    expected = sum(math.comb(8, k) * (1 / 3) ** k * (2 / 3) ** (8 - k) for k in (0, 6, 7, 8))
    assert rows["floor x 3"]["p"] == pytest.approx(expected)
    assert rows["nothing"]["p"] == 1.0
    assert [(row["runs"], row["lost_before"]) for row in rows.values()] == [(4, 0), (8, 0), (4, 1)]


def test_the_weight_of_the_entropy_changes_by_equal_factors():
    weights: list[float] = []

    class Weights:
        def train(self, arrays: Any, updates: int, change: Change, entropy_weight: float) -> tuple[Any, dict[str, Any]]:
            assert change == Change()
            weights.extend([entropy_weight] * updates)
            return arrays, {}

    with_entropy_weight(Weights(), None, 0.01, 0.03)  # pyright: ignore[reportArgumentType]
    assert len(weights) == APPROACH + STAY
    different = np.asarray(sorted(set(weights)))
    np.testing.assert_allclose(different[1:] / different[:-1], 3 ** (1 / len(different)))
    assert weights == sorted(weights)
    assert weights[-STAY - 1 :] == pytest.approx([0.03] * (STAY + 1))


def test_how_a_fall_begins():
    after = np.arange(-100, 20)
    record = pl.DataFrame({"after": after}).with_columns(
        fall=pl.lit("agent-7"),
        lowest_return=pl.when(pl.col("after").is_in([0, 9])).then(-1.0).otherwise(1.0),
        critic_step_norm=pl.when(pl.col("after") >= 1).then(6.0).otherwise(0.5),
        actor_step_norm=pl.lit(2.0),
        steps=pl.lit(50),
        timestep=10_000 + 50 * pl.col("after"),
        copied=pl.col("after").is_in([-90, -30, 15]),
    )
    hunts = pl.DataFrame([{"base": "agent", "arm": "nothing", "key": 7, "steps": 123}])
    (row,) = fall_table(record, hunts).rows(named=True)
    assert row == {
        "fall": "agent-7",
        "first_return": -1.0,
        "critic_kick": 12.0,
        "actor_kick": 1.0,
        "sudden": True,
        "next_failure": 9,
        "episode_length": 25.0,  # two episodes in each update
        "steps_since_copy": 1500,
        "steps": 123,
    }
    updates, ratios = relative_to_before(record, "critic_step_norm")
    assert dict(zip(updates.tolist(), ratios.tolist(), strict=True))[5] == 12.0


def test_a_folder_without_replays_adds_nothing(tmp_path: Path):
    assert replay_findings(tmp_path) == ({}, {})
