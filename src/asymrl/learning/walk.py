"""Whole episodes in one kernel, for NVIDIA GPUs and worlds that leave nothing to chance after their start.

Step by step, acting is a dozen kernels for each time, all of them waiting for each other. Where a world is no more
than a table, one program per run can do it all: it reads the weights of the policy at each step, once for all episodes,
and stops when the episodes of its run have ended. `rollout.step_by_step` is the plain version that it must agree with.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asymrl.learning.walk_kernel import Walk, power_of_two
from asymrl.models.agent import ReadyActor
from asymrl.models.distributions import Categorical
from asymrl.models.kernels import suits_recurrence, triton_call
from asymrl.models.memory import Gru, Memory, Window
from asymrl.worlds.certain import Certain, Table

WARPS = 8  # with 4 it takes half as long again; with 16 little less or more, and nothing else fits beside it
WIDTHS = (32, 64, 128, 256, 512)  # of hidden layers
MOST_SIGHTS = 1024  # what the policy makes of each is found before the first step
NEVER = -1e30  # logit of the actions that only fill up a power of two


class Policy(NamedTuple):
    """The numbers of a recurrent policy. Gates are in the order reset, update, new."""

    taken: Float[Array, "actions gates"]  # by the action before: what the memory takes in of it
    seen: Float[Array, "*episode sights gates"]  # by what is seen
    bias: Float[Array, "gates"]
    hidden_weight: Float[Array, "size gates"]
    hidden_bias: Float[Array, "gates"]
    layers: tuple[tuple[Float[Array, "inputs outputs"], Float[Array, "outputs"]], ...]
    last: Float[Array, "logits inputs"]
    last_bias: Float[Array, "logits"]


class Tape(NamedTuple):
    """What is kept of the episodes of a run, and room for what the layers of the policy tell each other."""

    sights: Int[Array, "time+1 episode"]
    places: Int[Array, "time+1 episode"]
    actions: Int[Array, "time episode"]
    rewards: Float[Array, "time episode"]
    features: Float[Array, "time episode size"]
    lengths: Int[Array, "episode"]
    truncated: Int[Array, "episode"]
    memory: Float[Array, "episode size"]
    hidden: tuple[Float[Array, "episode outputs"], ...]


def suits_walk(actor: ReadyActor, episodes: int, certain: Certain, states: Any) -> bool:
    """Whether the kernel knows such policies, and their episodes have few enough sights.

    Of the actor, with or without an axis of runs, and the states `[run, episode, ...]` only shapes are looked at.
    """
    memory = _recurrent(actor)
    sights = jax.eval_shape(certain.sights, jax.tree.map(lambda leaf: leaf[0, 0], states))
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


def policy_of(actor: ReadyActor, sights: Any) -> Policy:
    """The numbers that the kernel reads, from one run's actor and all that its episodes may see."""
    history, memory = actor.history, _recurrent(actor)
    assert isinstance(memory, Gru)
    assert isinstance(actor.distribution, Categorical)
    *layers, last = actor.head.layers
    missing = power_of_two(last.bias.shape[0]) - last.bias.shape[0]
    return Policy(
        taken=history.phi_a(jnp.arange(actor.distribution.n)),
        seen=history.phi_o(sights),
        bias=history.bias,
        hidden_weight=memory.hidden_weight,
        hidden_bias=memory.hidden_bias,
        layers=tuple((layer.weight, layer.bias) for layer in layers),
        last=jnp.pad(last.weight.T, ((0, missing), (0, 0))),
        last_bias=jnp.pad(last.bias, (0, missing), constant_values=NEVER),
    )


def walk(
    policy: Policy,
    table: Table,
    places: Int[Array, "episode"],
    sights: Int[Array, "episode"],
    chance: Float[Array, "time episode"],
    active: Bool[Array, ""],
    *,
    rows: int,
    window: int | None,
    interpret: bool = False,
) -> Tape:
    """The episodes of one run, until the last has ended or as many steps as `chance` has.

    Args:
        policy: of the run.
        table: what comes of its actions; with an axis in front, one for each episode.
        places: to start from.
        sights: the first.
        chance: a uniform number for every action.
        active: whether to act at all.
        rows: of the tape, at least as many as there may be steps.
        window: how many last inputs the memory knows, or None for all.
        interpret: run without a GPU, slowly.
    """
    horizon, E = chance.shape
    H = policy.hidden_weight.shape[0]
    ints, floats = (lambda *shape: jnp.zeros(shape, jnp.int32)), (lambda *shape: jnp.zeros(shape, jnp.float32))
    empty = Tape(
        sights=ints(rows + 1, E).at[0].set(sights),
        places=ints(rows + 1, E).at[0].set(places),
        actions=ints(rows, E),
        rewards=floats(rows, E),
        features=floats(rows, E, H),
        lengths=ints(E),
        truncated=ints(E),
        memory=floats(E, H),
        hidden=tuple(floats(E, bias.shape[0]) for _, bias in policy.layers),
    )

    def kernel(empty: Any, policy: Any, table: Any, active: Any, chance: Any, *tape: Any) -> None:
        del empty  # the tape begins as a copy of it
        Walk(policy, table, chance, Tape(*tape), window, horizon, interpret).go(active[0])

    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), empty)
    count = len(jax.tree.leaves(empty))
    return triton_call(
        kernel, shapes, warps=WARPS, interpret=interpret, input_output_aliases={i: i for i in range(count)}
    )(empty, policy, table, active.astype(jnp.int32)[None], chance)
