"""Actor and critic of each kind of world: sizes, first weights, and that shortcuts change nothing."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.signals import critic_signal
from asymrl.nn.agent import Actor, Architecture, Critic
from asymrl.nn.distributions import NO_ACTION
from asymrl.nn.features import observation_features
from asymrl.nn.grid_state import GridState
from asymrl.nn.gru import Gru
from asymrl.nn.history import History, follow_together
from asymrl.nn.layers import Embedding, Linear, Mlp
from asymrl.nn.lstm import Lstm
from asymrl.nn.memory import Feedforward
from asymrl.settings import A2CSettings
from asymrl.worlds import Indices, Record, make
from asymrl.worlds.world import World
from tests.nn.memories import inputs

T, E = 5, 2
SMALL = Architecture(memory_size=8, hidden=(8,))
KINDS = ("heaven-hell-1", "car-flag", "memory-four-rooms-7x7")

# Numbers to learn in the actor and in the critic V(h, s), in the authors' program. The memory rooms are the paper's:
# 128 features of the history instead of 64, and no features of the item, which is always the same. Their critics have
# 2 * 512 more, which multiply the zeros beside the agent.
COUNTS = {
    "heaven-hell-3": (298_756, 332_545),
    "heaven-hell-4": (299_012, 333_313),
    "shopping-5": (301_638, 373_121),
    "car-flag": (252_935, 252_929),
    "cleaner": (278_288, 707_073),
    "memory-four-rooms-7x7": (174_820, 1_837_578 + 1024),
    "memory-four-rooms-9x9": (174_820, 2_886_154 + 1024),
}


@pytest.mark.parametrize("world", COUNTS)
def test_as_many_weights_as_in_the_paper(world: str):
    env = make(world)
    spaces = (env.action_space, env.observation_space)

    def build(key: jax.Array) -> tuple[Actor, Critic]:
        paper = Architecture()
        return Actor(key, *spaces, paper), Critic(key, *spaces, env.latent_space, "hs", paper)

    models = eqx.filter_eval_shape(build, jax.random.key(0))
    assert tuple(sum(leaf.size for leaf in jax.tree.leaves(model)) for model in models) == COUNTS[world]


@pytest.mark.parametrize(("reads", "width"), [("h", 128), ("s", 64), ("hs", 192)])
def test_a_critic_is_as_wide_as_what_it_reads(reads: str, width: int):
    env = make("heaven-hell-3")
    spaces = (env.action_space, env.observation_space, env.latent_space)
    critic = eqx.filter_eval_shape(lambda key: Critic(key, *spaces, reads, Architecture()), jax.random.key(0))
    assert [layer.weight.shape for layer in critic.head.layers] == [(width, 512), (512, 256), (256, 1)]
    assert (critic.history is None) == ("h" not in reads)
    assert (critic.phi_s is None) == ("s" not in reads)


class Scene(NamedTuple):
    """A world, small networks for it, and episodes to look at."""

    env: World
    actor: Actor
    critic: Critic
    before: jax.Array
    observations: Any
    signals: Any


@pytest.fixture(scope="module", params=KINDS)
def scene(request: pytest.FixtureRequest) -> Scene:
    env = make(request.param, time_limit=T)
    rng = np.random.default_rng(0)

    @eqx.filter_jit
    def build() -> tuple[Actor, Critic, Any, Any]:
        keys = jax.random.split(jax.random.key(0), 2)
        actor = Actor(keys[0], env.action_space, env.observation_space, SMALL)
        critic = Critic(keys[1], env.action_space, env.observation_space, env.latent_space, "hs", SMALL)
        episode, seen = jax.vmap(jax.vmap(env.begin))(jax.random.split(jax.random.key(1), (T, E)))
        signals = jax.vmap(jax.vmap(env.latent))(episode.state)
        if isinstance(signals, dict) and "grid" in signals:  # it stays the same during an episode
            signals["grid"] = jnp.broadcast_to(signals["grid"][:1], signals["grid"].shape)
        return actor, critic, seen, signals

    before = rng.integers(len(env.action_names), size=(T, E)).astype(np.int32)
    before[0] = NO_ACTION
    actor, critic, seen, signals = build()
    return Scene(env, actor, critic, jnp.asarray(before), seen, signals)


def plain_inputs(history: Any, before: jax.Array, observations: Any) -> jax.Array:
    """[phi(a), phi(o)], with zeros for the action before the first."""
    taken = jnp.where((before == NO_ACTION)[..., None], 0.0, history.phi_a(jnp.maximum(before, 0)))
    return jnp.concatenate([taken, history.phi_o(observations)], axis=-1)


def test_projected_features_are_the_features_projected(scene: Scene):
    """Tables of products instead of products: the history is the same function."""

    @eqx.filter_jit
    def both(actor: Actor) -> tuple[jax.Array, jax.Array]:
        plain = inputs.sequence(actor.history.memory, plain_inputs(actor.history, scene.before, scene.observations))
        return actor.history.sequence(scene.before, scene.observations), plain

    got, plain = both(scene.actor)
    np.testing.assert_allclose(got, plain, rtol=1e-4, atol=1e-5)


def test_acting_and_learning_see_the_same_policy(scene: Scene):
    @eqx.filter_jit
    def both(actor: Actor) -> tuple[list[jax.Array], jax.Array]:
        carry, acting = actor.history.memory.initial(E), []
        for t in range(T):
            seen = jax.tree.map(lambda x, t=t: x[t], scene.observations)
            carry, _, logits = actor.step(carry, scene.before[t], seen)
            acting.append(logits)
        return acting, actor.head(actor.history.sequence(scene.before, scene.observations))

    acting, learning = both(scene.actor)
    np.testing.assert_allclose(np.stack(acting), learning, rtol=1e-4, atol=1e-5)


def test_the_critic_reads_history_and_state_side_by_side(scene: Scene):
    @eqx.filter_jit
    def both(critic: Critic) -> tuple[jax.Array, jax.Array]:
        assert critic.history is not None
        assert critic.phi_s is not None
        h = critic.history.sequence(scene.before, scene.observations)
        read = jnp.concatenate([h, critic.phi_s(scene.signals)], axis=-1)
        zeros = critic.head.layers[0].weight.shape[0] - read.shape[-1]  # beside the agent; see `aligned`
        at = SMALL.memory_size + 6
        read = jnp.concatenate([read[..., :at], jnp.zeros((*read.shape[:-1], zeros)), read[..., at:]], axis=-1)
        return critic(scene.before, scene.observations, scene.signals), critic.head(read)[..., 0]

    got, plain = both(scene.critic)
    np.testing.assert_allclose(got, plain, rtol=1e-4, atol=1e-4)


def test_a_shared_memory_is_the_actors():
    """The critic has no weights for it; given the actor's history, it is V(h, s) like any other."""
    env = make("heaven-hell-1", time_limit=T)
    shared = Architecture(memory="none", memory_size=8, hidden=(8,), shared_memory=True)
    actor = Actor(jax.random.key(0), env.action_space, env.observation_space, shared)
    spaces = (env.action_space, env.observation_space, env.latent_space)
    critic = Critic(jax.random.key(1), *spaces, "hs", shared)
    assert critic.history is None
    before, seen, signals = (jnp.ones((T, E), jnp.int32),) * 3
    expected = critic.read(actor.history.sequence(before, seen), signals, (T, E))
    np.testing.assert_allclose(critic.with_history(actor)(before, seen, signals), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="this critic reads the actor's memory"):
        critic(before, seen, signals)


@pytest.mark.parametrize("critic_memory", ["gru", "none"])
def test_two_histories_are_followed_together(critic_memory: str):
    """In one pass, or one after the other if their memories have different forms: the same features and gradients."""
    env = make("heaven-hell-1", time_limit=T)
    spaces, shape = (env.action_space, env.observation_space), Architecture(memory_size=8)
    histories = tuple(History(jax.random.key(i), *spaces, shape, kind) for i, kind in enumerate(["gru", critic_memory]))
    first = jnp.zeros((T, E), bool).at[2, 1].set(True)
    before, seen = jnp.ones((T, E), jnp.int32), jnp.arange(T * E, dtype=jnp.int32).reshape(T, E) % 8
    carries = tuple(jax.tree.map(lambda leaf: leaf + 0.5, h.memory.begin_streams(E)) for h in histories)

    def each(histories: Any) -> Any:
        pairs = zip(histories, carries, strict=True)
        return tuple(history.follow_from(carry, first, before, seen)[1] for history, carry in pairs)

    def total(histories: Any, follow: Any) -> Any:
        one, other = follow(histories)
        return jnp.sum(one) - 2 * jnp.sum(other**2)

    together = functools.partial(follow_together, carries=carries, first=first, before=before, observations=seen)
    both = eqx.filter_jit(lambda h: [eqx.filter_value_and_grad(total)(h, follow) for follow in (together, each)])
    for one, other in zip(*map(jax.tree.leaves, both(histories)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_actor_and_critic_may_remember_in_different_ways():
    env = make("heaven-hell-1", time_limit=T)
    shape = Architecture(memory_size=8, hidden=(8,), actor_memory="none", critic_memory="lstm")
    spaces = (env.action_space, env.observation_space)
    actor = eqx.filter_eval_shape(lambda key: Actor(key, *spaces, shape), jax.random.key(0))
    critic = eqx.filter_eval_shape(lambda key: Critic(key, *spaces, env.latent_space, "h", shape), jax.random.key(0))
    assert isinstance(actor.history.memory, Feedforward)
    assert isinstance(critic.history.memory, Lstm)  # pyright: ignore[reportOptionalMemberAccess]


def test_a_blank_symbol_is_zero_and_never_learns():
    embedding = Embedding.new(jax.random.key(0), 4, 3, blank=True)
    np.testing.assert_array_equal(embedding(jnp.asarray(3)), np.zeros(3))
    index = jnp.asarray([0, 3, 3])
    gradient = jax.grad(lambda e: e(index).sum() + e.project(index, jnp.ones((3, 2))).sum())(embedding).table
    np.testing.assert_array_equal(gradient[3], np.zeros(3))
    np.testing.assert_array_equal(gradient[1:3], np.zeros((2, 3)))
    assert (gradient[0] != 0).all()
    # Not even if its row were not zero.
    marked = Embedding(embedding.table.at[3].set(7.0), blank=True)
    np.testing.assert_array_equal(marked(jnp.asarray(3)), np.zeros(3))
    np.testing.assert_array_equal(marked.prepared(jnp.ones((3, 2)))(jnp.asarray(3)), np.zeros(2))


def test_few_values_of_a_large_vocabulary():
    """The two ways to project embeddings, by single vectors and by a table of products, agree."""
    embedding = Embedding.new(jax.random.key(0), 10, 3)
    weight = jax.random.normal(jax.random.key(1), (3, 2))
    for index in (jnp.arange(3), jnp.arange(30) % 10):
        np.testing.assert_allclose(embedding.project(index, weight), embedding(index) @ weight, rtol=1e-5, atol=1e-6)


def test_first_weights_are_xavier_normal_without_bias():
    layer = Linear(jax.random.key(0), 300, 200, gain=2.0**0.5)
    np.testing.assert_allclose(np.std(layer.weight), (2 * 2 / 500) ** 0.5, rtol=0.02)
    np.testing.assert_array_equal(layer.bias, np.zeros(200))
    mlp = Mlp(jax.random.key(0), 300, (200, 100), 50)
    spreads = [float(np.std(layer.weight)) for layer in mlp.layers]
    np.testing.assert_allclose(spreads, [(4 / 500) ** 0.5, (4 / 300) ** 0.5, (2 / 150) ** 0.5], rtol=0.05)


def test_first_weights_of_the_gru_are_uniform():
    gru = Gru(jax.random.key(0), 100, 64)
    for weight in (gru.input_weight, gru.hidden_weight, gru.input_bias, gru.hidden_bias):
        assert np.abs(weight).max() <= 64**-0.5
        np.testing.assert_allclose(np.std(weight), 64**-0.5 / 3**0.5, rtol=0.1)


def test_the_grid_of_a_state():
    """The agent's six numbers first, then the three convolutions over the embedded grid and the agent's cell."""
    env = make("memory-four-rooms-7x7")
    phi = GridState(jax.random.key(0), env.latent_space)  # pyright: ignore[reportArgumentType]
    assert phi.size == 7 * 7 * 64 + 6
    latent = env.latent(env.reset(jax.random.key(1)))
    features = eqx.filter_jit(phi)(latent)
    assert features.shape == (phi.size,)
    np.testing.assert_array_equal(features[:6], latent["agent"])
    assert (features[6:] >= 0).all()
    moved = latent | {"agent_id_grid": jnp.roll(latent["agent_id_grid"], 1, axis=0)}
    assert not np.array_equal(eqx.filter_jit(phi)(moved)[6:], features[6:])


@pytest.mark.parametrize(("sees", "size", "zeros"), [("state", 8, 2), ("state", 6, 0), ("state+time", 8, 0)])
def test_zeros_beside_the_agent_change_nothing(sees: str, size: int, zeros: int):
    """The random weights are those of a head without these inputs, so runs of a seed are what they were without."""
    env, key, shape = make("memory-four-rooms-7x7", time_limit=T), jax.random.key(3), replace(SMALL, memory_size=size)
    signal = critic_signal(env, A2CSettings(world="memory-four-rooms-7x7", time_limit=T, critic_sees=sees)).space

    @eqx.filter_jit
    def build() -> tuple[Critic, Mlp]:
        critic = Critic(key, env.action_space, env.observation_space, signal, "hs", shape)
        assert critic.phi_s is not None
        return critic, Mlp(jax.random.split(key, 3)[2], size + critic.phi_s.size, (8,), 1)

    critic, plain = build()
    first, at = np.asarray(critic.head.layers[0].weight), size + 6
    assert len(first) == len(plain.layers[0].weight) + zeros
    np.testing.assert_array_equal(first[at : at + zeros], np.zeros((zeros, 8)))
    np.testing.assert_array_equal(np.delete(first, range(at, at + zeros), axis=0), plain.layers[0].weight)
    np.testing.assert_array_equal(critic.head.layers[1].weight, plain.layers[1].weight)


def test_nothing_that_is_seen_is_left_out():
    """Only a Gridverse observation has an item without content; other records with a grid are read whole."""
    grid, more = Indices(5, (2, 2)), Indices(3, (1,))
    phi = observation_features(jax.random.key(0), Record((("grid", grid), ("compass", more))))
    assert phi.size == 8 * (4 + 1)
    one, other = ({"grid": jnp.zeros((2, 2), jnp.uint8), "compass": jnp.full(1, i, jnp.uint8)} for i in range(2))
    assert not np.array_equal(phi(one), phi(other))
    assert observation_features(jax.random.key(0), make("memory-four-rooms-7x7").observation_space).size == 8 * 18


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"memory": "elman"}, "memory 'elman' is not one of gru, lstm, none"),
        ({"window": 0}, "window 0: remember at least 1 pair"),
        ({"critic_memory": "gru:hopfield"}, "critic_memory 'gru:hopfield' is not one of"),
        (
            {"actor_memory": "none", "shared_memory": True},
            "actor_memory 'none' and critic_memory 'gru' cannot be shared",
        ),
        ({"memory_size": 0}, "memory_size 0: at least 1 feature is needed"),
    ],
)
def test_impossible_architectures_are_refused(wrong: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Architecture(**wrong)
