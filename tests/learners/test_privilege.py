"""The agent never receives what the critic is told: neither while acting nor, but for the critic, while learning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int

from asymrl.learners.a2c import A2CState, values_and_estimates
from asymrl.learners.episodes import RUN_AXIS, Episodes, training_batch
from asymrl.learners.learner import learner, new_run
from asymrl.learners.numbers import Numbers, numbers_of, stack_numbers
from asymrl.learners.program import Program, train_once
from asymrl.learners.rollout import roll_out
from asymrl.learners.state import training_world
from asymrl.settings import A2CSettings
from asymrl.settings.methods import PAPER_METHODS
from asymrl.worlds import make
from asymrl.worlds.builtin.heaven_hell import HeavenHell
from asymrl.worlds.critic_inputs import signal_meanings
from asymrl.worlds.registry import WORLDS
from tests.learners.small import assert_same, start, tiny

SETTINGS = tiny(world="heaven-hell-1", time_limit=8, critic_rate=1e-2, actor_rate=1e-2)
STATES = 12


class Relabelled(HeavenHell):
    """Heaven-Hell with another name for each state. What happens and what is seen is the same."""

    labels: Int[Array, "S"]

    def __init__(self, labels: Int[Array, "S"], time_limit: int):
        self.labels = labels
        super().__init__(1, time_limit=time_limit)

    def latent(self, state: Int[Array, ""]) -> Int[Array, ""]:
        return self.labels[state]


SAME = np.arange(STATES)
OTHERS = {
    "permuted": np.random.default_rng(0).permutation(STATES),
    "constant": np.zeros(STATES, int),
}


def trainer(method: str) -> Callable[..., A2CState]:
    """Trains one run in a world whose labels are an input of the compiled program."""
    shape = replace(SETTINGS, method=method).shape()
    new = start(Relabelled(jnp.asarray(SAME), 8), shape, [3])
    static = eqx.partition(new, eqx.is_array)[1]

    @jax.jit
    def once(labels: Array, numbers: Numbers, arrays: Any) -> Any:
        env = Relabelled(labels, shape.time_limit)
        return eqx.filter(train_once(learner(env, shape), eqx.combine(arrays, static), numbers), eqx.is_array)

    def train(labels: np.ndarray, updates: int, *, settings: A2CSettings = SETTINGS, runs: A2CState = new) -> A2CState:
        arrays, numbers = eqx.filter(runs, eqx.is_array), stack_numbers([settings])
        for _ in range(updates):
            arrays = once(jnp.asarray(labels, jnp.int32), numbers, arrays)
        return eqx.combine(arrays, static)

    return train


def test_without_privilege_the_state_has_no_influence_at_all():
    train = trainer("a2c")
    with_state = train(SAME, 20)
    for labels in OTHERS.values():
        assert_same(train(labels, 20), with_state)


def test_with_privilege_the_state_acts_through_the_critic_alone():
    train = trainer("a2c-asym-hs")
    before, after = train(SAME, 0), train(SAME, 1)
    for labels in OTHERS.values():
        other = train(labels, 1)
        # The first episodes are the same; then the critic learns something else, and the actor from the critic.
        assert_same((other.recent_returns, other.recent_lengths), (after.recent_returns, after.recent_lengths))
        assert not np.array_equal(other.critic.head.layers[0].weight, after.critic.head.layers[0].weight)
        assert not np.array_equal(other.actor.head.layers[0].weight, after.actor.head.layers[0].weight)

    # A critic that ignores the state, and does not learn better, passes nothing on although it is told as much.
    still = replace(SETTINGS, critic_rate=1e-30)
    blind = train(SAME, 1, settings=still, runs=without_sight(before))
    for labels in OTHERS.values():
        other = train(labels, 1, settings=still, runs=without_sight(before))
        assert_same((other.actor, other.actor_adam), (blind.actor, blind.actor_adam))


def without_sight(runs: A2CState) -> A2CState:
    """The same runs with critics that give the state no weight."""
    size = runs.actor.history.memory.size

    def blind(critic: Any) -> Any:
        where = lambda c: c.head.layers[0].weight  # noqa: E731
        return eqx.tree_at(where, critic, where(critic).at[:, size:].set(0.0))

    return eqx.tree_at(lambda r: (r.critic, r.target), runs, (blind(runs.critic), blind(runs.target)))


class Guarded(HeavenHell):
    """Heaven-Hell that nobody may ask for its state."""

    def __init__(self, time_limit: int):
        super().__init__(1, time_limit=time_limit)

    def latent(self, state: Any) -> Any:
        raise PermissionError("the state is private")


@pytest.mark.parametrize(
    ("method", "sees"), [*((method, "state") for method in PAPER_METHODS), ("a2c-asym-hs", "belief+sampled-state+time")]
)
def test_only_critics_that_are_told_the_state_ask_for_it(method: str, sees: str):
    env, settings = Guarded(time_limit=8), replace(SETTINGS, method=method, critic_sees=sees)
    runs = eqx.filter_eval_shape(eqx.filter_vmap(lambda seed: new_run(env, settings, seed)), jnp.arange(2))

    def act(runs: A2CState) -> Episodes:
        return roll_out(env, runs.actor, runs.key, jnp.ones(2, bool), episodes=2)

    def told(runs: A2CState) -> Any:
        one = lambda episodes, key: training_batch(env, settings, episodes, 8, key)  # noqa: E731
        return jax.vmap(one, (RUN_AXIS, 0))(act(runs), runs.key)

    assert eqx.filter_eval_shape(act, runs).actions.shape == (8, 2, 2)
    if settings.reads_state:
        with pytest.raises(PermissionError, match="private"):
            eqx.filter_eval_shape(told, runs)
    else:
        assert eqx.filter_eval_shape(told, runs).actions.shape == (2, 8, 2)


SIGNALS = [(world, signal) for world in WORLDS for signal in (*signal_meanings(make(world)), "state+time")]


@pytest.mark.parametrize(("world", "signal"), SIGNALS)
def test_every_signal_of_every_world_can_be_told_to_a_critic(world: str, signal: str):
    settings = tiny(world=world, method="a2c-asym-hs", critic_sees=signal, time_limit=4)
    env = training_world(settings)

    def values(seed: Array) -> Array:
        run = new_run(env, settings, seed)
        episode, seen = jax.vmap(jax.vmap(env.begin))(jax.random.split(run.key, (5, 2)))
        nothing = jnp.zeros((4, 2))
        episodes = Episodes(
            observations=seen,
            states=episode.state,
            actions=nothing.astype(jnp.int32),
            rewards=nothing,
            features=nothing[..., None],
            lengths=jnp.full(2, 4, jnp.int32),
            truncated=jnp.ones(2, bool),
        )
        data = training_batch(env, settings, episodes, 4, run.key)
        return values_and_estimates(run.critic, data, settings, numbers_of(settings))[0]

    assert eqx.filter_eval_shape(values, jnp.uint32(0)).shape == (4, 2)


def test_an_unknown_signal_names_those_that_there_are():
    message = "critic_sees 'weather': heaven-hell-3 can tell its critic state, heaven-side, position, at-priest"
    for build in (training_world, Program):
        with pytest.raises(ValueError, match=message):
            build(tiny(world="heaven-hell-3", critic_sees="weather"))
    with pytest.raises(ValueError, match=message.replace("heaven-hell-3", "heaven-hell-1")):
        Program(tiny(critic_sees="weather"), HeavenHell(1, time_limit=8))


def test_a_world_of_ones_own_needs_the_time_limit_of_the_settings():
    with pytest.raises(ValueError, match="heaven-hell-1 has time_limit 9, the settings have 8; give both the same"):
        Program(tiny(), HeavenHell(1, time_limit=9))
