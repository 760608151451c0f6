"""Compiled training of runs: roll out, learn, count, log, again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learning.a2c import actor_gradient, critic_gradient, lesson, negentropy_weight
from asymrl.learning.counting import RUN_AXIS, Losses, count, means, write_point
from asymrl.learning.numbers import Numbers, numbers_of
from asymrl.learning.optimiser import descend
from asymrl.learning.program import ProgramBase, bytes_of, compiler_options, placed, precision
from asymrl.learning.rollout import Episodes, roll_out
from asymrl.learning.settings import Settings
from asymrl.learning.state import RunState
from asymrl.worlds.world import World

SHORTEST = 16  # steps of the least length that the learning pass is compiled for
RATIO = 2.5  # of each such length to the next: each adds a fifth to the time of compilation


def update(env: World, settings: Settings, numbers: Numbers, runs: RunState) -> RunState:
    """One update of each run that is still active; the others stay exactly as they are."""
    active, keys = is_active(runs, numbers), keys_of(runs)
    episodes = roll_out(env, runs.actor, keys, active, episodes=settings.episodes)
    evaluated = evaluate_if_due(env, settings, runs, keys, is_due(runs, numbers))
    return absorb(env, settings, numbers, runs, episodes, evaluated)


def absorb(
    env: World,
    settings: Settings,
    numbers: Numbers,
    runs: RunState,
    episodes: Episodes,
    evaluated: Float[Array, "run 2"],
) -> RunState:
    """What an update does once the episodes have been seen: learn from them, and log."""
    active, due = is_active(runs, numbers), is_due(runs, numbers)
    learned, losses = learn(env, settings, numbers, runs, episodes, active)
    return write_point(learned, runs.timesteps, losses, evaluated, due, numbers)


def keys_of(runs: RunState) -> PRNGKeyArray:
    """What is random in the next update of each run, `[run]`."""
    return jax.vmap(jax.random.fold_in)(runs.key, runs.updates)


def is_due(runs: RunState, numbers: Numbers) -> Bool[Array, "run"]:
    """Which runs have a point of their curve to write at the next update."""
    return is_active(runs, numbers) & (runs.timesteps >= runs.next_log)


def is_active(runs: RunState, numbers: Numbers) -> Bool[Array, "run"]:
    """Which runs still train."""
    return (runs.timesteps < numbers.steps) & ~runs.solved & ~runs.failed


def learn(
    env: World, settings: Settings, numbers: Numbers, runs: RunState, episodes: Episodes, active: Bool[Array, "run"]
) -> tuple[RunState, Losses]:
    """Counts the episodes, moves the target, then the critic, then, with the new critic's advantages, the actor."""
    runs = _follow_critic(count(runs, episodes, active), settings, numbers, active)
    weights = jax.vmap(lambda t, n: negentropy_weight(t, settings, n))(runs.timesteps, numbers)

    def towards_target(length: int, critic: Any, target: Any, episodes: Episodes, numbers: Numbers) -> Any:
        data = lesson(env, settings, episodes, length)
        return critic_gradient(critic, target, data, settings, numbers)

    critic_loss, gradient = _over_runs(
        towards_target, settings, episodes, active, (runs.critic, runs.target), (numbers,)
    )
    sound = active & jnp.isfinite(critic_loss)
    critic, critic_adam, critic_norm, sound = eqx.filter_vmap(descend)(
        runs.critic, gradient, runs.critic_adam, numbers.critic_rate, sound, numbers
    )

    def along_policy(length: int, actor: Any, critic: Any, episodes: Episodes, numbers: Numbers, weight: Any) -> Any:
        data = lesson(env, settings, episodes, length)
        return actor_gradient(actor, critic, data, weight, settings, numbers)

    (policy_loss, negentropy), gradient = _over_runs(
        along_policy, settings, episodes, active, (runs.actor, critic), (numbers, weights)
    )
    sound = sound & jnp.isfinite(policy_loss + negentropy)
    actor, actor_adam, actor_norm, sound = eqx.filter_vmap(descend)(
        runs.actor, gradient, runs.actor_adam, numbers.actor_rate, sound, numbers
    )
    runs = eqx.tree_at(
        lambda r: (r.actor, r.critic, r.actor_adam, r.critic_adam, r.updates, r.failed),
        runs,
        (actor, critic, actor_adam, critic_adam, runs.updates + active, runs.failed | (active & ~sound)),
    )
    return runs, Losses(critic_loss, policy_loss, negentropy, weights, critic_norm, actor_norm)


def _over_runs(
    one: Callable[..., Any],
    settings: Settings,
    episodes: Episodes,
    active: Bool[Array, "run"],
    models: tuple[Any, ...],
    others: tuple[Any, ...],
) -> Any:
    """`one(length, *models, episodes, *others)` for every run, with the shortest compiled length that fits them all.

    The choice stands outside the vmap: inside it, all lengths would be computed.
    """
    lengths = lengths_compiled(settings.time_limit)
    longest = jnp.max(jnp.where(active[:, None], episodes.lengths, 0))
    arrays, static = eqx.partition(models, eqx.is_array)

    def at_length(length: int) -> Callable[..., Any]:
        def run(arrays: Any, episodes: Episodes, *others: Any) -> Any:
            return eqx.filter(one(length, *eqx.combine(arrays, static), episodes, *others), eqx.is_array)

        return jax.vmap(run, (0, RUN_AXIS, *[0] * len(others)))

    choice = which_fits(longest, lengths)
    return jax.lax.switch(choice, [at_length(length) for length in lengths], arrays, episodes, *others)


def which_fits(longest: Int[Array, ""], lengths: Sequence[int]) -> Int[Array, ""]:
    """Which of the lengths, in order, is the first that is long enough. A search would be a loop on the device."""
    return sum(((longest > length).astype(jnp.int32) for length in lengths[:-1]), jnp.int32(0))


def lengths_compiled(time_limit: int) -> tuple[int, ...]:
    """The episode lengths that the learning pass is compiled for. Short episodes need not pay for long ones."""
    lengths = [time_limit]
    while (shorter := math.ceil(lengths[0] / RATIO)) >= SHORTEST:
        lengths.insert(0, shorter)
    return tuple(lengths)


def _follow_critic(runs: RunState, settings: Settings, numbers: Numbers, active: Bool[Array, "run"]) -> RunState:
    """Moves the target critics: a copy when one is due, or a little at each update."""
    critic = eqx.filter(runs.critic, eqx.is_array)
    target, static = eqx.partition(runs.target, eqx.is_array)

    def move(shares: Float[Array, "run"]) -> Any:
        def leaf(new: Array, old: Array) -> Array:
            share = shares.reshape(-1, *[1] * (new.ndim - 1))
            # A full copy must be exact, and an unmoved target untouched.
            return jnp.where(share == 1, new, jnp.where(share == 0, old, share * new + (1 - share) * old))

        return jax.tree.map(leaf, critic, target)

    if settings.target == "polyak":
        target, next_target = move(jnp.where(active, numbers.polyak, 0.0)), runs.next_target
    else:
        due = active & (runs.timesteps >= runs.next_target)
        next_target = jnp.where(due, runs.timesteps + numbers.target_period, runs.next_target)
        # Not under a condition, which rarely holds: on a GPU both of its sides copy the critic as a whole.
        target = move(due.astype(jnp.float32))
    return eqx.tree_at(lambda r: (r.target, r.next_target), runs, (eqx.combine(target, static), next_target))


def evaluate_if_due(
    env: World, settings: Settings, runs: RunState, keys: PRNGKeyArray, due: Bool[Array, "run"]
) -> Float[Array, "run 2"]:
    """Mean return and length of episodes apart from training, for the runs where a point is due; NaN elsewhere."""
    nothing = jnp.full((due.shape[0], 2), np.nan)
    if not settings.evaluation_episodes:
        return nothing

    def evaluate() -> Float[Array, "run 2"]:
        episodes = roll_out(
            env,
            runs.actor,
            apart(keys),
            due,
            episodes=settings.evaluation_episodes,
            greedy=settings.evaluation_greedy,
        )
        return means(episodes)

    return jax.lax.cond(jnp.any(due), evaluate, lambda: nothing)


def apart(keys: PRNGKeyArray) -> PRNGKeyArray:
    """Keys for evaluation. The training episodes of an update use small numbers to tell their keys apart."""
    return jax.vmap(lambda key: jax.random.fold_in(key, 1_000_000))(keys)


class CompiledProgram(ProgramBase):
    """Training for all runs whose settings have one shape, in a world that is compiled."""

    def open(self, lanes: int, device: Any) -> CompiledTrainer:
        """A trainer of so many lanes on a device. Trainers of as many lanes there share what is compiled."""
        return CompiledTrainer(self.once(lanes, device, lambda: self._compile(lanes, device)), self.static, device)

    def train(self, states: RunState, numbers: Numbers, updates: int) -> RunState:
        """`Trainer.train` on the default device."""
        return self.open(states.updates.shape[0], jax.local_devices()[0]).train(states, numbers, updates)

    def _compile(self, lanes: int, device: Any) -> Any:
        train = jax.jit(self.train_lanes, donate_argnums=0, compiler_options=compiler_options(device.platform))
        arrays, numbers, updates = self.shapes, jax.eval_shape(lambda: numbers_of(self.settings)), jnp.int32(0)
        return train.lower(*placed((arrays, numbers), lanes, device), updates).compile()

    def train_lanes(self, arrays: RunState, numbers: Numbers, updates: Int[Array, ""]) -> RunState:
        """`Trainer.train` as it is compiled, for the arrays of the runs alone."""

        def go_on(loop: tuple[Array, RunState]) -> Bool[Array, ""]:
            done, arrays = loop
            return (done < updates) & jnp.any(is_active(arrays, numbers))

        def once(loop: tuple[Array, RunState]) -> tuple[Array, RunState]:
            done, arrays = loop
            runs = update(self.world, self.settings, numbers, eqx.combine(arrays, self.static))
            return done + 1, eqx.filter(runs, eqx.is_array)

        with precision(self.settings):
            return jax.lax.while_loop(go_on, once, (jnp.int32(0), arrays))[1]


class CompiledTrainer:
    """Lanes of a compiled program on one device; see `Trainer`."""

    def __init__(self, executable: Any, static: RunState, device: Any):
        self._executable, self._static, self._device = executable, static, device

    def train(self, states: RunState, numbers: Numbers, updates: int) -> RunState:
        """At most so many further updates of each run `[lane, ...]`; none where a run is over. Consumes `states`."""
        given = jax.device_put((eqx.filter(states, eqx.is_array), numbers, np.int32(updates)), self._device)
        return eqx.combine(self._executable(*given), self._static)

    def bytes_needed(self) -> int | None:
        """Memory of the runs and of what training them needs besides, or None if the compiler does not say."""
        return bytes_of(self._executable)

    def close(self) -> None:
        """Nothing is held that others do not share."""
