"""Study 1: lambda 0 and 1 are TD(0) and Monte-Carlo in training, and the exact table is what listing gives."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from agents import half_expert
from asymrl import theory
from asymrl.learners.a2c import values_and_estimates
from asymrl.learners.episodes import TrainingBatch
from asymrl.learners.numbers import numbers_of
from asymrl.settings import A2CSettings
from asymrl.theory.exact.gradients import estimator_variance
from bootstrap import LAMBDAS, STUDY, estimate_worths, exact, label

TIME, LENGTHS = 6, np.array([6, 4, 3], np.int32)


def ended_and_truncated_episodes(bootstrap: bool) -> tuple[Any, TrainingBatch]:
    """Three episodes, the first and the last one cut off, and a critic that says fixed numbers about them."""
    rng = np.random.default_rng(0)
    seen, valid = TIME + bootstrap, np.arange(TIME)[:, None] < LENGTHS
    says = jnp.asarray(rng.normal(size=(seen, 3)), jnp.float32)
    batch = TrainingBatch(
        before=jnp.zeros((seen, 3), jnp.int32),
        observations=jnp.zeros((seen, 3), jnp.int32),
        signal=jnp.zeros((seen, 3), jnp.int32),
        actions=jnp.zeros((TIME, 3), jnp.int32),
        rewards=jnp.asarray(np.where(valid, rng.normal(size=(TIME, 3)), 0.0), jnp.float32),
        features=jnp.zeros((TIME, 3, 0)),
        valid=jnp.asarray(valid),
        lengths=jnp.asarray(LENGTHS),
        truncated=jnp.asarray([True, False, True]),
    )
    return lambda *inputs: says, batch


@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize(("lambda_", "name"), [(0.0, "td0"), (1.0, "mc")])
def test_lambda_0_is_td0_and_lambda_1_is_monte_carlo(lambda_: float, name: str, bootstrap: bool) -> None:
    """Targets and advantages alike, for episodes that ended and that were cut off, as in the paper and bootstrapped."""
    critic, batch = ended_and_truncated_episodes(bootstrap)
    by_lambda, by_name = (
        values_and_estimates(critic, batch, settings, numbers_of(settings))
        for settings in (
            A2CSettings(estimator="td-lambda", td_lambda=lambda_, bootstrap_truncated=bootstrap),
            A2CSettings(estimator=name, bootstrap_truncated=bootstrap),  # pyright: ignore[reportArgumentType]
        )
    )
    for one, other in zip(by_lambda, by_name, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert np.ptp(by_name[1]) > 1


def test_all_runs_of_a_critic_and_world_can_be_trained_together() -> None:
    runs = STUDY.search_runs() + STUDY.final_runs(
        {(each.setup.name, each.arm.label): {} for each in STUDY.search_runs()}
    )
    shapes = {each.run.settings.shape() for each in runs}
    assert len(shapes) == 9
    assert {each.run.settings.td_lambda for each in runs} == set(LAMBDAS)


@functools.cache
def heaven_hell_3() -> dict[str, dict[str, Any]]:
    return {row["arm"]: row for row in exact("heaven-hell-3").iter_rows(named=True)}


def test_the_exact_table_has_the_published_numbers() -> None:
    """Heaven-Hell-3: V(s) turns the gradient around for an agent that is good once it has asked."""
    rows = heaven_hell_3()
    assert {arm.label for arm in STUDY.arms_in(STUDY.setups[0])} <= set(rows)
    cosines = [rows[label("s", lambda_)]["half: cosine"] for lambda_ in LAMBDAS]
    assert cosines == pytest.approx([-0.617, -0.473, 0.730, 0.992, 1], abs=6e-4)
    for critic in ("h", "hs"):
        assert all(rows[label(critic, lambda_)]["half: error"] == 0 for lambda_ in LAMBDAS)
    variances = [rows[label(critic, 1.0)]["half: variance"] for critic in ("h", "s", "hs")]
    assert variances == pytest.approx([6.817, 6.588, 6.372], abs=1e-3)
    # A critic that has learned nothing gives no gradient with TD(0): only the last action of an episode has a reward,
    # and it does not matter which one it is.
    unlearned = [rows[label("0", lambda_)]["half: alignment"] for lambda_ in LAMBDAS]
    assert unlearned == pytest.approx([0, 0.0001, 0.0202, 0.1252, 0.1286], abs=1e-4)


def test_simulated_variances_agree_with_exact_ones() -> None:
    """Shopping-2 is small enough for both; V(h) is then that of beliefs, which purchases in vain change."""
    policy = half_expert("shopping-2", 0.0, 0.9)
    by_memory = theory.analyse("shopping-2", policy, horizon=12, merge="memory")
    by_belief = theory.analyse("shopping-2", policy, horizon=12, merge="belief")
    simulated, counted = estimate_worths(by_memory, 20_000), estimate_worths(by_belief)
    for cell, worth in counted.items():
        other = simulated[cell]
        assert (worth.variance_error, worth.cosine) == (0, pytest.approx(other.cosine, abs=1e-9, nan_ok=True))
        assert abs(other.variance - worth.variance) < 4 * other.variance_error
        assert other.variance_error < 0.05 * worth.variance
    plain = estimator_variance(by_memory.values, by_memory.values.V_h[by_memory.graph.node], lambda_=0.0, shared=True)
    assert plain != pytest.approx(counted["h", 0.0].variance, rel=1e-3)  # V(z) of the memory is not V(h)
