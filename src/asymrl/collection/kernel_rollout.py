"""Episodes by the kernel that plays them whole, where a world is no more than a table. See `kernels.episode_kernel`."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from asymrl.collection.episodes import RUN_AXIS, Episodes, Start, tape_length
from asymrl.kernels.episode_kernel import PolicyArrays, episode_kernel
from asymrl.kernels.episode_steps import power_of_two
from asymrl.kernels.network_kernels import suits_recurrence
from asymrl.models.agent import ReadyActor
from asymrl.models.compound import Window
from asymrl.models.distributions import Categorical
from asymrl.models.memory import Gru, Memory
from asymrl.worlds.deterministic import DeterministicTable

MOST_SIGHTS = 1024  # what the policy makes of each is found before the first step
WIDTHS = (32, 64, 128, 256, 512)  # of hidden layers
NEVER = -1e30  # logit of the actions that only fill up a power of two


def suits_kernel(actor: ReadyActor, episodes: int, table: DeterministicTable, states: Any) -> bool:
    """Whether the kernel knows such policies, and their episodes have few enough sights.

    Of the actor, with or without an axis of runs, and the states `[run, episode, ...]` only shapes are looked at.
    """
    memory = _recurrent(actor)
    sights = jax.eval_shape(table.sights, jax.tree.map(lambda leaf: leaf[0, 0], states))
    return (
        isinstance(actor.distribution, Categorical)
        and isinstance(memory, Gru)
        and suits_recurrence(episodes, memory.size)
        and all(layer.bias.shape[-1] in WIDTHS for layer in actor.head.layers[:-1])
        and jax.tree.leaves(sights)[0].shape[0] <= MOST_SIGHTS
    )


def _recurrent(actor: ReadyActor) -> Memory:
    memory = actor.history.memory
    return memory.inner if isinstance(memory, Window) else memory


def policy_of(actor: ReadyActor, sights: Any) -> PolicyArrays:
    """The numbers that the kernel reads, from one run's actor and all that its episodes may see."""
    history, memory = actor.history, _recurrent(actor)
    assert isinstance(memory, Gru)
    assert isinstance(actor.distribution, Categorical)
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


def in_one_kernel(
    actors: ReadyActor, table: DeterministicTable, start: Start, active: Bool[Array, "run"], *, interpret: bool = False
) -> Episodes:
    """The same where an episode is a walk on a table: each run in a program of its own."""
    memory, rows = actors.history.memory, tape_length(start.chance.shape[0])
    window = memory.length if isinstance(memory, Window) else None

    def one(actor: ReadyActor, states: Any, seen: Any, chance: Array, active: Array) -> Episodes:
        if table.shared:
            any_state = jax.tree.map(lambda leaf: leaf[0], states)
            transitions, sights = table.table(any_state), table.sights(any_state)
        else:
            transitions, sights = jax.vmap(table.table)(states), jax.vmap(table.sights)(states)
        first = jax.vmap(table.first)(states, seen)
        policy = policy_of(actor, sights)
        tape = episode_kernel(
            policy, transitions, *first, chance, active, rows=rows, window=window, interpret=interpret
        )

        def look_up(sights: Any, index: Array) -> Any:
            return jax.tree.map(lambda leaf: leaf[index], sights)

        over_time = jax.vmap(table.at, (None, 0))
        return Episodes(
            observations=jax.vmap(look_up, (None if table.shared else 0, 1), 1)(sights, tape.sights),
            states=jax.vmap(over_time, (0, 1), 1)(states, tape.places),
            actions=tape.actions,
            rewards=tape.rewards,
            features=tape.features,
            lengths=tape.lengths,
            truncated=tape.truncated > 0,
        )

    arrays, static = eqx.partition(actors, eqx.is_array)
    return jax.vmap(lambda arrays, *given: one(eqx.combine(arrays, static), *given), (0, 0, 0, 1, 0), RUN_AXIS)(
        arrays, start.episode.state, start.seen, start.chance, active
    )
