"""Streams in worlds that run in Python: `streams.act_in_streams` for environments that are stepped on the host.

What such an environment holds cannot be saved. A run keeps the seed of each current episode and the actions so far
instead; environments that do not hold that episode, such as those of a new process, play it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, PRNGKeyArray

from asymrl.collection.streams import Piece, Script, Streams
from asymrl.models.agent import Actor
from asymrl.worlds.stepped_world import Stepper, chosen_rows

if TYPE_CHECKING:
    from asymrl.collection.collector import Collector


class Held(NamedTuple):
    """The episodes that environments are in, and what there is to see and to know. The environments come first."""

    seed: np.ndarray
    actions: np.ndarray  # [env, time, ...]
    t: np.ndarray
    seen: Any
    truth: Any
    alive: np.ndarray  # which of them are there

    def is_at(self, seed: np.ndarray, actions: np.ndarray, t: np.ndarray, alive: np.ndarray) -> bool:
        """Whether the environments that are alive are where these episodes are."""
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
    (runs, count), horizon, policy = streams.returns.shape, collector.acting.horizon, collector.acting.policy
    ready, chance, seeds = collector.acting.begin_streams(eqx.filter(actors, eqx.is_array), keys, rollout, count)
    stepper, alive = collector.stepper(runs * count, "streams"), np.repeat(np.asarray(active), count)
    seeds = np.asarray(seeds).reshape(rollout, -1)
    # Copies, which are changed along the way; all environments of all runs in a row.
    script, before, returns = jax.tree.map(_in_a_row, (streams.episode, streams.before, streams.returns))
    seed, actions, t = script
    none, memory, rows = np.asarray(policy.none(runs * count)), streams.carries.actor, np.arange(runs * count)
    seen, truth = brought_to(collector, stepper, seed, actions, t, alive)

    def by_run(leaf: np.ndarray) -> np.ndarray:
        return leaf.reshape(runs, count, *leaf.shape[1:])

    tape: Any = None
    for k in range(rollout if steps is None else steps):
        first = t == 0
        given = jax.tree.map(by_run, (first, before, seen))
        memory, action, log_chosen, to_world = collector.acting.act_in_streams(ready, memory, *given, chance, k)
        action = np.asarray(action).reshape(before.shape)
        seen_after, truth_after, rewards, terminated, truncated = stepper.step(
            jax.tree.map(np.asarray, to_world), alive
        )
        returns, times = returns + rewards, t
        actions[rows, t], t = action, (t + alive).astype(np.int32)
        truncated = ~terminated & (truncated | (t >= horizon))
        moment: dict[str, Any] = {
            "first": first,
            "times": times,
            "before": before,
            "observations": seen,
            "states": truth,
            "actions": action,
            "log_chosen": np.asarray(log_chosen).ravel(),
            "rewards": rewards,
            "terminated": terminated,
            "truncated": truncated,
            "next_observations": seen_after,
            "next_states": truth_after,
            "returns": returns,
            "valid": np.ones_like(first),
        }
        tape = _written(tape, moment, k, rollout)
        before, seen, truth = action, seen_after, truth_after
        if (done := (terminated | truncated) & alive).any():
            seed, t = np.where(done, seeds[k], seed), np.where(done, 0, t).astype(np.int32)
            returns = np.where(done, np.float32(0), returns)
            fresh = stepper.reset(seed.tolist(), done)
            before, seen, truth = chosen_rows(done, (none, *fresh), (before, seen, truth))
    collector.held[runs * count] = Held(seed, actions.copy(), t, seen, truth, alive)
    script, before, returns = jax.tree.map(by_run, (Script(seed, actions, t), before, returns))  # pyright: ignore[reportArgumentType]
    piece = jax.tree.map(lambda leaf: leaf.reshape(rollout, runs, count, *leaf.shape[2:]), tape)
    return Streams(script, None, before, returns, streams.carries._replace(actor=memory)), Piece(**piece)


def brought_to(
    collector: Collector, stepper: Stepper, seed: np.ndarray, actions: np.ndarray, t: np.ndarray, alive: np.ndarray
) -> tuple[Any, Any]:
    """What is seen and true where the episodes stand, in environments that are there afterwards if not before."""
    held = collector.held.get(len(t))
    if held is not None and held.is_at(seed, actions, t, alive):
        return held.seen, held.truth
    taken = jax.tree.map(np.asarray, collector.acting.policy.to_world(jnp.asarray(actions)))
    return replay(stepper, seed, taken, t, alive)


def replay(stepper: Stepper, seed: np.ndarray, actions: Any, t: np.ndarray, alive: np.ndarray) -> tuple[Any, Any]:
    """Brings every environment that is alive to time `t` of its episode; returns what is seen and true there."""
    longest, seen, truth = int(t[alive].max(initial=0)), None, None
    for k in range(longest + 1):
        begins = alive & (t == longest - k)
        if begins.any() or seen is None:
            fresh = stepper.reset(seed.tolist(), begins)
            seen, truth = fresh if seen is None else chosen_rows(begins, fresh, (seen, truth))
        if k < longest:
            times = np.maximum(k - (longest - t), 0)
            at = np.arange(len(t)), times
            taken = jax.tree.map(lambda leaf, at=at: leaf[at], actions)
            seen, truth, *_ = stepper.step(taken, alive & (t >= longest - k))
    return seen, truth


def _written(tape: Any, moment: dict[str, Any], k: int, length: int) -> Any:
    """The tape, a new one of this length if there is none, with the moment at time k."""
    if tape is None:
        tape = jax.tree.map(lambda leaf: np.zeros((length, *leaf.shape), leaf.dtype), moment)
    jax.tree.map(lambda room, leaf: room.__setitem__(k, leaf), tape, moment)
    return tape


def _in_a_row(leaf: Any) -> np.ndarray:
    """A copy with runs and streams along one axis."""
    host = np.array(leaf)
    return host.reshape(-1, *host.shape[2:])
