"""What the actor sees and what the critic sees of an observation with named parts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.learners.collector import play
from asymrl.learners.learner import new_run
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
from asymrl.learners.signals import critic_names, critic_signal, needs_state
from asymrl.learners.state import training_world
from asymrl.nn.agent import Actor
from asymrl.runs.policy import ActorPolicy
from asymrl.settings import Settings, new_settings
from asymrl.worlds.stepped_world import SteppedWorld
from tests.envs.gym.foreign_envs import Guess, Walker
from tests.export.twins import exported

SMALL: dict[str, Any] = {"world": "walker", "time_limit": 4, "memory_size": 4, "hidden": (4,), "steps": 10_000}


def chosen(method: str = "a2c-asym-hs", sees: str | None = "proprioception", **more: Any) -> Settings:
    return new_settings(**(SMALL | {"method": method, "actor_sees": sees} | more))


@pytest.fixture(scope="module")
def walker() -> SteppedWorld:
    return from_gymnasium(Walker, time_limit=4)


def actor_of(env: SteppedWorld, settings: Settings) -> Actor:
    return new_run(env, settings, 0).actor


def played(env: SteppedWorld, actor: Actor, greedy: bool = False) -> Any:
    one = jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, actor)
    return play(env, one, jax.random.key(0)[None], jnp.ones(1, bool), episodes=3, greedy=greedy)


@pytest.mark.parametrize("method", ["a2c-asym-hs", pytest.param("ppo-asym-hs", marks=pytest.mark.slow), "adqn"])
def test_what_the_actor_does_not_see_changes_nothing(walker: SteppedWorld, method: str):
    """Actions, their probabilities and the gradient of the actor stay the same, bit by bit."""
    actor = actor_of(walker, chosen(method, replay_steps=100) if method == "adqn" else chosen(method))
    other = from_gymnasium(partial(Walker, unseen=-5.0), time_limit=4, name="walker")
    one, two = (played(env, actor, greedy=method == "adqn") for env in (walker, other))
    assert not np.array_equal(one.observations["heights"], two.observations["heights"])
    np.testing.assert_array_equal(one.actions, two.actions)
    np.testing.assert_array_equal(one.features, two.features)

    def log_probability(actor: Actor, observations: Any) -> Any:
        before, actions = one.actions[:3, 0], jnp.asarray(one.actions[1:4, 0])
        parameters = actor.policy(actor.history.sequence(jnp.asarray(before), observations))
        if method == "adqn":
            return jnp.sum(jnp.take_along_axis(parameters, actions[..., None], axis=-1))
        return jnp.sum(actor.distribution.log_probability(parameters, actions))

    both = [jax.tree.map(lambda leaf: jnp.asarray(leaf[1:4, 0]), each.observations) for each in (one, two)]
    values, gradients = zip(*[eqx.filter_value_and_grad(log_probability)(actor, seen) for seen in both], strict=True)
    assert values[0] == values[1]
    assert all(map(np.array_equal, *map(jax.tree.leaves, gradients)))
    numbers = {name: part.astype(jnp.float32) for name, part in both[0].items() if name != "friction"}
    slopes = jax.grad(lambda seen: log_probability(actor, both[0] | seen))(numbers)
    assert not np.any(slopes["heights"])
    assert np.any(slopes["proprioception"])


@pytest.mark.parametrize("ending", [".npz", ".onnx"])
def test_a_policy_needs_only_what_its_actor_sees(walker: SteppedWorld, tmp_path: Path, ending: str):
    actor = actor_of(walker, chosen())
    twin, agent = exported(walker, actor, tmp_path / f"policy{ending}"), ActorPolicy(walker, actor)
    own = {"proprioception": np.array([0.3, -2.0], np.float32)}
    np.testing.assert_allclose(twin.observe(own), agent.observe(own), rtol=1e-5)
    assert [part[0] for part in twin.about["observation"]] == ["observation/proprioception"]
    with pytest.raises(ValueError, match="has the keys \\[\\], expected \\['proprioception'\\]"):
        agent.observe({"heights": np.zeros(3)})


def test_the_critic_sees_the_groups_that_are_named(walker: SteppedWorld):
    settings = chosen(critic_sees="heights, friction")
    assert settings.critic_sees == "heights+friction"  # commas and + are one spelling
    assert settings == chosen(critic_sees="heights+friction")
    signal = critic_signal(walker, settings)
    seen = {"heights": jnp.ones((2, 1, 3)), "friction": jnp.zeros((2, 1), jnp.int32)}
    nothing: Any = None
    episodes = nothing, nothing, seen | {"proprioception": 0}, nothing, nothing
    _, told = signal.follow(None, signal.initial(1), *episodes)
    assert set(told) == {"heights", "friction"}
    np.testing.assert_array_equal(told["heights"], seen["heights"])
    assert not needs_state(walker, settings)


def test_without_a_state_the_critic_sees_all_groups(walker: SteppedWorld):
    """And with one, the state."""
    assert critic_names(walker, chosen()) == ("friction", "heights", "proprioception")  # Gymnasium sorts them
    assert training_world(chosen(), walker) is walker
    with pytest.raises(ValueError, match="needs a latent state"):
        training_world(chosen(sees=None), walker)
    guess = from_gymnasium(Guess, time_limit=4)
    assert critic_names(guess, chosen(sees="coin")) == ("state",)


def test_unknown_groups_are_named_with_the_known_ones(walker: SteppedWorld):
    with pytest.raises(ValueError, match="there is no 'hights'; Walker shows friction, heights, proprioception"):
        training_world(chosen(sees="hights"), walker)
    with pytest.raises(ValueError, match="Walker can tell its critic state, time, friction, heights, proprioception"):
        training_world(chosen(critic_sees="heights,slope"), walker)
    with pytest.raises(ValueError, match="names heights twice"):
        training_world(chosen(sees="heights,heights"), walker)
    settings = chosen(sees="grid", world="heaven-hell-3", time_limit=100)
    with pytest.raises(ValueError, match="heaven-hell-3 has no named parts"):
        training_world(settings)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["a2c-asym-hs", "ppo-asym-s", "adqn-vr"])
def test_it_is_trained_with_groups(walker: SteppedWorld, method: str):
    more: dict[str, Any] = {"replay_steps": 100, "prefill": 8} if method == "adqn-vr" else {}
    settings = chosen(method, critic_sees="heights,friction,proprioception", **more)
    program = Program(settings, walker)
    runs = program.train(program.start([0]), stack_numbers([settings]), 5)
    assert int(runs.updates[0]) == 5
    assert not bool(runs.failed[0])
