"""The fast path of acting: episodes that a kernel plays whole, in worlds that are a table or a little arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from asymrl.kernels.episode_kernel import EpisodeTape, PolicyArrays, episode_kernel
from asymrl.kernels.network_kernels import suits_recurrence
from asymrl.kernels.policy_products import power_of_two
from asymrl.kernels.tensor_cores import in_tf32
from asymrl.kernels.world_rules import DeterministicTable, ScalarRules, deterministic_table, scalar_rules
from asymrl.learners.episodes import RUN_AXIS, Episodes, RolloutStart, tape_length
from asymrl.nn.agent import ReadyActor
from asymrl.nn.distributions import Categorical, Greedy
from asymrl.nn.features import Flat
from asymrl.nn.gru import Gru
from asymrl.nn.layers import Product
from asymrl.nn.memory import Memory, Window
from asymrl.worlds.world import World

LONGEST_WINDOW = 8  # its memories are carried from step to step; longer windows were not tried on a GPU
MOST_SIGHTS = 1024  # the policy's features of each are computed before the first step
WIDTHS = (32, 64, 128, 256, 512)  # of hidden layers
NEVER = -1e30  # logit of the actions that only pad to a power of two


def play_episodes(
    plain: Callable[..., Episodes],
    env: World,
    actors: ReadyActor,
    start: RolloutStart,
    active: Bool[Array, "run"],
    *,
    greedy: bool = False,
) -> Episodes:
    """The fast path of `rollout.step_by_step`, on NVIDIA GPUs."""
    read, world = with_product_precision(actors), kernel_world(env)
    if world is not None and not greedy and suits_kernel(actors, start.chance.shape[2], world, start.episode.state):
        on_gpu = lambda: roll_out_in_kernel(read, world, start, active)  # noqa: E731
    elif read is actors:
        return plain(env, actors, start, active, greedy=greedy)
    else:
        on_gpu = lambda: plain(env, read, start, active, greedy=greedy)  # noqa: E731
    return jax.lax.platform_dependent(cuda=on_gpu, default=lambda: plain(env, actors, start, active, greedy=greedy))


def with_product_precision(actors: ReadyActor) -> ReadyActor:
    """The actors, with the matrices that each step reads in the precision of products.

    A product in tf32 uses ten bits of each factor. A float16 has them in half the memory, and reading memory limits
    acting.
    """
    if not in_tf32():
        return actors

    def matrices(actors: ReadyActor) -> list[Array]:
        parts = jax.tree.leaves(actors.history.memory, is_leaf=lambda part: isinstance(part, Gru))
        of_memory = [part.hidden_weight for part in parts if isinstance(part, Gru)]
        return [*of_memory, *(layer.weight for layer in actors.head.layers[:-1])]

    return eqx.tree_at(matrices, actors, [weight.astype(jnp.float16) for weight in matrices(actors)])


def kernel_world(env: World) -> DeterministicTable | ScalarRules | None:
    """The form of a world that the kernel can play, or None if there is none."""
    return deterministic_table(env) or scalar_rules(env)


def suits_kernel(actor: ReadyActor, episodes: int, world: DeterministicTable | ScalarRules, states: Any) -> bool:
    """Whether the kernel supports this policy, and its episodes have few enough sights.

    Reads only the shapes of the actor, with or without an axis of runs, and of the states `[run, episode, ...]`.
    """
    memory = _recurrent(actor)
    if isinstance(world, ScalarRules):
        # A sight is a weighted sum of rows, so its features must be linear: a product.
        sees = actor.history.phi_o
        few_sights = isinstance(sees, Product) and isinstance(sees.features, Flat)
    else:
        sights = jax.eval_shape(world.sights, jax.tree.map(lambda leaf: leaf[0, 0], states))
        few_sights = jax.tree.leaves(sights)[0].shape[0] <= MOST_SIGHTS
    return (
        isinstance(actor.distribution, (Categorical, Greedy))
        and isinstance(memory, Gru)
        and suits_recurrence(episodes, memory.size)
        and _window(actor) <= LONGEST_WINDOW
        and all(layer.bias.shape[-1] in WIDTHS for layer in actor.head.layers[:-1])
        and few_sights
    )


def _recurrent(actor: ReadyActor) -> Memory:
    memory = actor.history.memory
    return memory.inner if isinstance(memory, Window) else memory


def _window(actor: ReadyActor) -> int:
    """The length of the window; 1 without one."""
    memory = actor.history.memory
    return memory.length if isinstance(memory, Window) else 1


def policy_of(actor: ReadyActor, sights: Any) -> PolicyArrays:
    """The numbers that the kernel reads, from one run's actor and everything that its episodes may see."""
    history, memory = actor.history, _recurrent(actor)
    assert isinstance(memory, Gru)
    assert isinstance(actor.distribution, (Categorical, Greedy))
    *layers, last = actor.head.layers
    missing = power_of_two(last.bias.shape[0]) - last.bias.shape[0]
    return PolicyArrays(
        taken=history.phi_a(jnp.arange(actor.distribution.n)),
        seen=history.phi_o(sights),
        bias=history.bias,
        hidden_weight=memory.hidden_weight,
        hidden_bias=memory.hidden_bias,
        layers=tuple((layer.weight, layer.bias) for layer in layers),
        last=jnp.pad(last.weight.T, ((0, missing), (0, 0))),
        last_bias=jnp.pad(last.bias, (0, missing), constant_values=NEVER),
    )


def roll_out_in_kernel(
    actors: ReadyActor,
    world: DeterministicTable | ScalarRules,
    start: RolloutStart,
    active: Bool[Array, "run"],
    *,
    interpret: bool = False,
) -> Episodes:
    """`rollout.step_by_step` where an episode is a walk on a table, or arithmetic: one kernel program per run."""
    memory, rows = actors.history.memory, tape_length(start.chance.shape[0])
    window = memory.length if isinstance(memory, Window) else None
    greedy = isinstance(actors.distribution, Greedy)
    play = partial(episode_kernel, rows=rows, window=window, greedy=greedy, interpret=interpret)
    one = partial(_roll_out_by_rules if isinstance(world, ScalarRules) else _roll_out_on_table, world, play)
    arrays, static = eqx.partition(actors, eqx.is_array)
    return jax.vmap(lambda arrays, *inputs: one(eqx.combine(arrays, static), *inputs), (0, 0, 0, 1, 0), RUN_AXIS)(
        arrays, start.episode.state, start.observation, start.chance, active
    )


def _roll_out_on_table(
    world: DeterministicTable,
    play: Callable[..., EpisodeTape],
    actor: ReadyActor,
    states: Any,
    first_observations: Any,
    chance: Array,
    active: Array,
) -> Episodes:
    """The episodes of one run that are walks on a table."""
    if world.shared:
        any_state = jax.tree.map(lambda leaf: leaf[0], states)
        transitions, sights = world.table(any_state), world.sights(any_state)
    else:
        transitions, sights = jax.vmap(world.table)(states), jax.vmap(world.sights)(states)
    places, first_sights = jax.vmap(world.first)(states, first_observations)
    tape = play(policy_of(actor, sights), transitions, places, first_sights, chance, active)

    def look_up(sights: Any, index: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[index], sights)

    observations = jax.vmap(look_up, (None if world.shared else 0, 1), 1)(sights, tape.sights)
    over_time = jax.vmap(world.at, (None, 0))
    return _episodes(tape, observations, jax.vmap(over_time, (0, 1), 1)(states, tape.places))


def _roll_out_by_rules(
    world: ScalarRules,
    play: Callable[..., EpisodeTape],
    actor: ReadyActor,
    states: Any,
    first_observations: Any,
    chance: Array,
    active: Array,
) -> Episodes:
    """The episodes of one run that are arithmetic on a few numbers."""
    del first_observations  # it follows from the states
    numbers = jax.vmap(world.numbers)(states)
    tape = play(policy_of(actor, jnp.asarray(world.basis)), world, numbers, None, chance, active)
    everywhere = lambda function: jax.vmap(jax.vmap(function))(tape.places)  # noqa: E731
    return _episodes(tape, everywhere(world.observation), everywhere(world.state))


def _episodes(tape: EpisodeTape, observations: Any, states: Any) -> Episodes:
    return Episodes(
        observations=observations,
        states=states,
        actions=tape.actions,
        rewards=tape.rewards,
        features=tape.features,
        lengths=tape.lengths,
        truncated=tape.truncated > 0,
    )
