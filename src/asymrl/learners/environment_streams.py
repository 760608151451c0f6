"""Streams in worlds that run in Python: `streams.act_in_streams` for environments that are stepped on the host.

The state of such an environment cannot be saved. Instead, a run keeps the seed of each current episode and the
actions so far; environments that are not in that episode, such as those of a new process, play it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, PRNGKeyArray

from asymrl.learners.streams import Piece, Script, Streams
from asymrl.nn.agent import Actor
from asymrl.worlds.stepped_world import Stepper, chosen_rows

if TYPE_CHECKING:
    from asymrl.learners.collector import Collector


class EnvironmentSnapshot(NamedTuple):
    """The episodes that environments are in, with their observations and states. Environments are the first axis."""

    seed: np.ndarray
    actions: np.ndarray  # [env, time, ...]
    t: np.ndarray
    observations: Any
    states: Any
    alive: np.ndarray  # which environments are in their episode

    def matches(self, seed: np.ndarray, actions: np.ndarray, t: np.ndarray, alive: np.ndarray) -> bool:
        """Whether the environments that are alive have played exactly these episodes so far."""
        if not (np.array_equal(self.seed, seed) and np.array_equal(self.t, t) and self.alive[alive].all()):
            return False
        past = np.arange(actions.shape[1])[None] < t[:, None]
        return np.array_equal(self.actions[past], actions[past])


def act_in_environments(
    collector: Collector,
    actors: Actor,
    streams: Streams,
    keys: PRNGKeyArray,
    active: Bool[np.ndarray, "run"],
    rollout: int,
    steps: int | None = None,
) -> tuple[Streams, Piece]:
    """`rollout` steps of each stream of the active runs, or only the first `steps` of them."""
    compiled = collector.compiled_actor
    (runs, count), horizon, policy = streams.returns.shape, compiled.horizon, compiled.policy
    ready, chance, seeds = compiled.begin_streams(eqx.filter(actors, eqx.is_array), keys, rollout, count)
    stepper, alive = collector.stepper(runs * count, "streams"), np.repeat(np.asarray(active), count)
    seeds = np.asarray(seeds).reshape(rollout, -1)
    # Copies, which are modified below, with all environments of all runs along one axis.
    script, previous_actions, returns = jax.tree.map(_flattened, (streams.episode, streams.before, streams.returns))
    seed, actions, t = script
    none, memory, rows = np.asarray(policy.none(runs * count)), streams.carries.actor, np.arange(runs * count)
    observations, states = restore_environments(collector, stepper, seed, actions, t, alive)

    def by_run(leaf: np.ndarray) -> np.ndarray:
        return leaf.reshape(runs, count, *leaf.shape[1:])

    tape: Any = None
    for k in range(rollout if steps is None else steps):
        first = t == 0
        inputs = jax.tree.map(by_run, (first, previous_actions, observations))
        memory, action, log_chosen, to_world = compiled.act_in_streams(ready, memory, *inputs, chance, k)
        action = np.asarray(action).reshape(previous_actions.shape)
        next_observations, next_states, rewards, terminated, truncated = stepper.step(
            jax.tree.map(np.asarray, to_world), alive
        )
        returns, times = returns + rewards, t
        actions[rows, t], t = action, (t + alive).astype(np.int32)
        truncated = ~terminated & (truncated | (t >= horizon))
        record: dict[str, Any] = {
            "first": first,
            "times": times,
            "before": previous_actions,
            "observations": observations,
            "states": states,
            "actions": action,
            "log_chosen": np.asarray(log_chosen).ravel(),
            "rewards": rewards,
            "terminated": terminated,
            "truncated": truncated,
            "next_observations": next_observations,
            "next_states": next_states,
            "returns": returns,
            "valid": np.ones_like(first),
        }
        tape = _write_record(tape, record, k, rollout)
        previous_actions, observations, states = action, next_observations, next_states
        if (done := (terminated | truncated) & alive).any():
            seed, t = np.where(done, seeds[k], seed), np.where(done, 0, t).astype(np.int32)
            returns = np.where(done, np.float32(0), returns)
            fresh = stepper.reset(seed.tolist(), done)
            previous_actions, observations, states = chosen_rows(
                done, (none, *fresh), (previous_actions, observations, states)
            )
    collector.snapshots[runs * count] = EnvironmentSnapshot(seed, actions.copy(), t, observations, states, alive)
    script, previous_actions, returns = jax.tree.map(by_run, (Script(seed, actions, t), previous_actions, returns))  # pyright: ignore[reportArgumentType]
    piece = jax.tree.map(lambda leaf: leaf.reshape(rollout, runs, count, *leaf.shape[2:]), tape)
    return Streams(script, None, previous_actions, returns, streams.carries._replace(actor=memory)), Piece(**piece)


def restore_environments(
    collector: Collector, stepper: Stepper, seed: np.ndarray, actions: np.ndarray, t: np.ndarray, alive: np.ndarray
) -> tuple[Any, Any]:
    """The current observations and states of the episodes, replayed unless the environments are in them."""
    snapshot = collector.snapshots.get(len(t))
    if snapshot is not None and snapshot.matches(seed, actions, t, alive):
        return snapshot.observations, snapshot.states
    taken = jax.tree.map(np.asarray, collector.compiled_actor.policy.to_world(jnp.asarray(actions)))
    return replay_episodes(stepper, seed, taken, t, alive)


def replay_episodes(
    stepper: Stepper, seed: np.ndarray, actions: Any, t: np.ndarray, alive: np.ndarray
) -> tuple[Any, Any]:
    """Brings every environment that is alive to time `t` of its episode; returns its observations and states."""
    longest, observations, states = int(t[alive].max(initial=0)), None, None
    for k in range(longest + 1):
        begins = alive & (t == longest - k)
        if begins.any() or observations is None:
            fresh = stepper.reset(seed.tolist(), begins)
            observations, states = fresh if observations is None else chosen_rows(begins, fresh, (observations, states))
        if k < longest:
            times = np.maximum(k - (longest - t), 0)
            at = np.arange(len(t)), times
            taken = jax.tree.map(lambda leaf, at=at: leaf[at], actions)
            observations, states, *_ = stepper.step(taken, alive & (t >= longest - k))
    return observations, states


def _write_record(tape: Any, record: dict[str, Any], k: int, length: int) -> Any:
    """The tape, a new one of this length if there is none, with the record at time k."""
    if tape is None:
        tape = jax.tree.map(lambda leaf: np.zeros((length, *leaf.shape), leaf.dtype), record)
    jax.tree.map(lambda room, leaf: room.__setitem__(k, leaf), tape, record)
    return tape


def _flattened(leaf: Any) -> np.ndarray:
    """A copy with runs and streams along one axis."""
    host = np.array(leaf)
    return host.reshape(-1, *host.shape[2:])
