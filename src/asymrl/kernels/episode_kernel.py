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

from asymrl.kernels.episode_steps import EpisodeSteps
from asymrl.kernels.network_kernels import triton_call
from asymrl.worlds.deterministic import TransitionTable

WARPS = 8  # with 4 it takes half as long again; with 16 little less or more, and nothing else fits beside it


class PolicyArrays(NamedTuple):
    """The numbers of a recurrent policy. Gates are in the order reset, update, new.

    The matrices, which are read at every step, may be of float16.
    """

    taken: Float[Array, "actions gates"]  # by the action before: what the memory takes in of it
    seen: Float[Array, "*episode sights gates"]  # by what is seen
    bias: Float[Array, "gates"]
    hidden_weight: Float[Array, "size gates"]
    hidden_bias: Float[Array, "gates"]
    layers: tuple[tuple[Float[Array, "inputs outputs"], Float[Array, "outputs"]], ...]
    last: Float[Array, "logits inputs"]
    last_bias: Float[Array, "logits"]


class EpisodeTape(NamedTuple):
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


def episode_kernel(
    policy: PolicyArrays,
    table: TransitionTable,
    places: Int[Array, "episode"],
    sights: Int[Array, "episode"],
    chance: Float[Array, "time episode"],
    active: Bool[Array, ""],
    *,
    rows: int,
    window: int | None,
    interpret: bool = False,
) -> EpisodeTape:
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
    empty = EpisodeTape(
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
        EpisodeSteps(policy, table, chance, EpisodeTape(*tape), window, horizon, interpret).go(active[0])

    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), empty)
    count = len(jax.tree.leaves(empty))
    return triton_call(
        kernel, shapes, warps=WARPS, interpret=interpret, input_output_aliases={i: i for i in range(count)}
    )(empty, policy, table, active.astype(jnp.int32)[None], chance)
