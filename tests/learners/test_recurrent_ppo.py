"""One update of PPO is that of RecurrentPPO of Stable-Baselines3: all epochs, from the same weights and steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.recurrent_ppo import our_settings

from asymrl.learners import ppo
from asymrl.learners.numbers import numbers_of
from asymrl.learners.state import training_world
from asymrl.learners.streams import Piece, Segment
from asymrl.nn.distributions import NO_ACTION
from asymrl.settings import PPOSettings
from tests.learners.record_recurrent_ppo import RECORD, REMAINING, TASK, recorded_update

NETWORKS = ("actor", "critic")


def parts_of(network: Any) -> list[Any]:
    """The parameters in the order of the record."""
    memory = network.history.memory
    own = [memory.input_weight, memory.hidden_weight, memory.bias]
    return [*own, *(part for layer in network.head.layers for part in (layer.weight, layer.bias))]


def piece_of(record: Mapping[str, np.ndarray]) -> Piece:
    ended, cut, took = record["ended"], record["truncated"], record["observations"][..., :2]
    nothing, state = jnp.zeros(ended.shape), jnp.zeros((*ended.shape, 4))
    return Piece(
        first=jnp.asarray(record["first"]),
        times=nothing.astype(jnp.int32),
        before=jnp.asarray(np.where(took.any(-1), took.argmax(-1), NO_ACTION), jnp.int32),
        observations=jnp.asarray(record["observations"][..., 2:]),
        states=state,
        actions=jnp.asarray(record["actions"]),
        log_chosen=jnp.asarray(record["log_chosen"]),
        rewards=nothing + 1,
        terminated=jnp.asarray(ended & ~cut),
        truncated=jnp.asarray(cut),
        next_observations=jnp.asarray(record["next_observations"][..., 2:]),
        next_states=state,
        returns=nothing,
        valid=nothing == 0,
    )


def updated(record: Mapping[str, np.ndarray]) -> ppo.PPOState:
    """Our update, from the weights, memories and steps of the record."""
    same = {"normalise_advantages": False, "anneal": False, "learning_rate": REMAINING * TASK.rate}
    settings = PPOSettings(world="cart-pole", method="ppo", **{**our_settings(TASK), **same})
    env = training_world(settings)
    learner = ppo.PPO(env, settings)
    run = learner.init(0)
    for name in NETWORKS:
        weights = [jnp.asarray(record[f"before.{name}.{i}"]) for i in range(len(parts_of(getattr(run, name))))]
        run = eqx.tree_at(lambda run, name=name: parts_of(getattr(run, name)), run, weights)
    assert run.streams is not None
    memories = {name: tuple(jnp.asarray(record[f"memory.{name}.{part}"]) for part in "hc") for name in NETWORKS}
    run = eqx.tree_at(lambda run: run.streams.carries, run, run.streams.carries._replace(**memories))

    @eqx.filter_jit
    def learn(run: ppo.PPOState, piece: Piece) -> ppo.PPOState:
        batch, on = Segment(run.streams.carries, piece), jnp.bool_(True)  # pyright: ignore[reportOptionalMemberAccess]
        return learner.update(jax.random.key(0), run, numbers_of(settings), run.timesteps, batch, on)[0]

    return learn(run, piece_of(record))


def assert_same(record: Mapping[str, np.ndarray]) -> None:
    learned = updated(record)
    for name in NETWORKS:
        for i, ours in enumerate(parts_of(getattr(learned, name))):
            before, after = (record[f"{when}.{name}.{i}"] for when in ("before", "after"))
            assert np.abs(after - before).max() > 1e-4
            np.testing.assert_allclose(ours, after, rtol=0, atol=2e-6, err_msg=f"{name}, part {i}")


def test_an_update_is_the_recorded_one():
    with np.load(RECORD) as record:
        # The rollout begins inside episodes; some end by themselves, others are cut off and bootstrapped.
        assert not record["first"][0].all()
        assert record["truncated"].any()
        assert (record["ended"] & ~record["truncated"]).any()
        assert_same(record)


@pytest.mark.slow
def test_an_update_is_a_new_one():
    pytest.importorskip("sb3_contrib")
    assert_same(recorded_update())
