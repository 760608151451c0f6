"""Whole episodes in one kernel, for NVIDIA GPUs and worlds that leave nothing to chance after their start.

Acting step by step launches a dozen kernels at each time, each of which waits for the one before. Where a world is
only a table, or arithmetic on a few numbers, one program per run can play whole episodes: at each step it reads the
weights of the policy once for all episodes, and it stops when the episodes of its run have ended.
`rollout.step_by_step` is the plain version that it must agree with.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from asymrl.kernels.episode_steps import RuleSteps, TableSteps
from asymrl.kernels.network_kernels import triton_call
from asymrl.kernels.world_rules import ScalarRules, TransitionTable

WARPS = 8  # 4 take half as long again; 16 are about as fast, but leave no room for another program


class PolicyArrays(NamedTuple):
    """The numbers of a recurrent policy. Gates are in the order reset, update, new.

    The matrices, which are read at every step, may be float16.
    """

    taken: Float[Array, "actions gates"]  # the memory's input from the previous action, by action
    seen: Float[Array, "*episode sights gates"]  # its input from each sight, or from each row of `ScalarRules.basis`
    bias: Float[Array, "gates"]
    hidden_weight: Float[Array, "size gates"]
    hidden_bias: Float[Array, "gates"]
    layers: tuple[tuple[Float[Array, "inputs outputs"], Float[Array, "outputs"]], ...]
    last: Float[Array, "logits inputs"]
    last_bias: Float[Array, "logits"]


class EpisodeTape(NamedTuple):
    """The record of the episodes of a run, and room for the vectors that layers of the policy pass on."""

    sights: Int[Array, "time+1 episode"] | None  # None: they follow from the places
    places: Int[Array, "time+1 episode"] | tuple[Num[Array, "time+1 episode"], ...]
    actions: Int[Array, "time episode"]
    rewards: Float[Array, "time episode"]
    features: Float[Array, "time episode size"]
    lengths: Int[Array, "episode"]
    truncated: Int[Array, "episode"]
    memory: Float[Array, "episode size"]
    hidden: tuple[Float[Array, "episode outputs"], ...]


def episode_kernel(
    policy: PolicyArrays,
    world: TransitionTable | ScalarRules,
    places: Int[Array, "episode"] | tuple[Num[Array, "episode"], ...],
    sights: Int[Array, "episode"] | None,
    chance: Float[Array, "time episode"],
    active: Bool[Array, ""],
    *,
    rows: int,
    window: int | None,
    greedy: bool = False,
    interpret: bool = False,
) -> EpisodeTape:
    """Plays the episodes of one run until the last has ended, for at most as many steps as `chance` has.

    Args:
        policy: of the run.
        world: the results of its actions: a table, with a leading axis one per episode, or rules.
        places: where episodes start; for rules, the numbers of each episode.
        sights: what is seen there; None for rules.
        chance: a number for every action, as the policy's distribution draws it.
        active: whether to act at all.
        rows: of the tape, at least as many as `chance` has steps.
        window: how many of the last inputs the memory knows, or None for all.
        greedy: whether the policy gives action values; the best is taken unless `chance` is below 1.
        interpret: run without a GPU, slowly.
    """
    horizon, E = chance.shape
    H = policy.hidden_weight.shape[0]
    ints, floats = (lambda *shape: jnp.zeros(shape, jnp.int32)), (lambda *shape: jnp.zeros(shape, jnp.float32))
    first = lambda start: jnp.zeros((rows + 1, E), start.dtype).at[0].set(start)  # noqa: E731
    empty = EpisodeTape(
        sights=jax.tree.map(first, sights),
        places=jax.tree.map(first, places),
        actions=ints(rows, E),
        rewards=floats(rows, E),
        features=floats(rows, E, H),
        lengths=ints(E),
        truncated=ints(E),
        memory=floats(E, H),
        hidden=tuple(floats(E, bias.shape[0]) for _, bias in policy.layers),
    )
    tables = world.tables if isinstance(world, ScalarRules) else world

    def kernel(empty: Any, policy: Any, tables: Any, active: Any, chance: Any, *tape: Any) -> None:
        del empty  # the tape begins as a copy of it
        shared = policy, chance, EpisodeTape(*tape), window, greedy, horizon, interpret
        steps = RuleSteps(world, tables, *shared) if isinstance(world, ScalarRules) else TableSteps(tables, *shared)
        steps.play(active[0])

    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), empty)
    count = len(jax.tree.leaves(empty))
    return triton_call(
        kernel, shapes, warps=WARPS, interpret=interpret, input_output_aliases={i: i for i in range(count)}
    )(empty, policy, tables, active.astype(jnp.int32)[None], chance)
