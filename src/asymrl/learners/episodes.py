"""Episodes as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num, PRNGKeyArray

from asymrl.learners.key_purposes import EPISODE_STARTS
from asymrl.learners.signals import critic_signal
from asymrl.nn.distributions import Distribution, distribution_over
from asymrl.worlds.world import World

if TYPE_CHECKING:
    from asymrl.settings import Settings

# Asking the device whether all episodes have ended costs about as much as a step, so several steps share a question.
STEPS_PER_QUESTION = 4


class WholeEpisodes(NamedTuple):
    """An update learns from this many whole episodes: its batch is `Episodes`."""

    episodes: int


class Segments(NamedTuple):
    """An update learns from some steps of parallel streams, which go on where they stopped: its batch is a `Piece`."""

    streams: int
    steps: int


class Episodes(NamedTuple):
    """Whole episodes. Each array has `time` first; a batch of runs adds an axis `run` behind it."""

    observations: Any  # [time + 1, episode, ...]: the last one is what was seen after the last action
    states: Any  # [time + 1, episode, ...]
    actions: Num[Array, "time *run_episode_action"]
    rewards: Float[Array, "time *run episode"]
    features: Float[Array, "time *run episode size"]  # of the history, as the actor computed them
    lengths: Int[Array, "*run episode"]
    truncated: Bool[Array, "*run episode"]

    def valid(self) -> Bool[Array, "time episode"]:
        """Which entries of the arrays `[time, episode]` belong to the episodes."""
        return jnp.arange(self.rewards.shape[0])[:, None] < self.lengths[None]

    def before(self, policy: Distribution) -> Num[Array, "time+1 episode *action"]:
        """The action before each observation; before the first, the policy's `none`."""
        none = policy.none(1, self.actions.shape[1]).astype(self.actions.dtype)
        return jnp.concatenate([none, self.actions])

    def returns(self) -> Float[Array, "episode"]:
        """Undiscounted returns."""
        return jnp.sum(jnp.where(self.valid(), self.rewards, 0.0), axis=0)


# The axis of runs in the episodes of several runs.
RUN_AXIS: Any = Episodes(*[1] * 5, *[0] * 2)  # pyright: ignore[reportArgumentType]


class RolloutStart(NamedTuple):
    """What is decided before the first step."""

    episode: Any  # [run, episode, ...]
    observation: Any  # [run, episode, ...], the first observations
    chance: Array  # [time, run, episode, ...], the random numbers for all actions
    keys: PRNGKeyArray  # [run], for what happens in the world


def draw_seeds(key: PRNGKeyArray, shape: tuple[int, ...]) -> Int[Array, "..."]:
    """Seeds of environments. Gymnasium wants non-negative Python integers."""
    return (jax.random.bits(key, shape) >> 1).astype(jnp.int32)


def environment_seeds(key: PRNGKeyArray, episodes: int) -> Int[Array, "episode"]:
    """The seeds of the environments of episodes that are collected with this key."""
    return draw_seeds(jax.random.fold_in(key, EPISODE_STARTS), (episodes,))


def tape_length(horizon: int) -> int:
    """The rows of a tape: the horizon, and the steps beyond it before the last question is asked."""
    return -(-horizon // STEPS_PER_QUESTION) * STEPS_PER_QUESTION


class TrainingBatch(NamedTuple):
    """Episodes, cut to a common length and ready for the networks."""

    before: Num[Array, "time episode *action"]
    observations: Any
    signal: Any  # the critic's signal, or None if it reads the history alone
    actions: Num[Array, "time episode *action"]
    rewards: Float[Array, "time episode"]
    features: Float[Array, "time episode size"]
    valid: Bool[Array, "time episode"]
    lengths: Int[Array, "episode"]
    truncated: Bool[Array, "episode"]

    def longest(self) -> Int[Array, ""]:
        """How many inputs a memory needs for the longest episode, including what was seen after its last action."""
        return jnp.max(self.lengths) + 1

    def inputs_of_actions(self) -> tuple[Num[Array, "time episode *action"], Any, Any]:
        """`before`, `observations` and `signal` at each action, without what was seen after the last one."""
        length = self.actions.shape[0]
        return jax.tree.map(lambda leaf: leaf[:length], (self.before, self.observations, self.signal))


def frozen_after_end(states: Any, times: Int[Array, "time episode"], last: Int[Array, "episode"]) -> Any:
    """The states `[time, episode, ...]`, where each episode stays in the state of its last time.

    A model may compute less if an episode visits nothing new after its end, where its state is not used.
    """
    index = jnp.minimum(times, jnp.broadcast_to(jnp.maximum(last, 0)[None], times.shape))
    rows = jax.vmap(lambda leaf, index: leaf[index], (1, 1), 1)
    return jax.tree.map(lambda leaf: rows(leaf, index), states)


def training_batch(
    env: World, settings: Settings, episodes: Episodes, length: int, key: PRNGKeyArray | None = None
) -> TrainingBatch:
    """The first `length` steps of the episodes, with the critic's signal.

    `key` is for random signals; a critic that reads a sampled state needs one.
    """
    # A bootstrap needs the value where the episode was cut off: one more step of what the critic reads.
    rows = length + 1 if settings.bootstrap_truncated else length
    previous_actions = episodes.before(distribution_over(env.action_space))[:rows]
    observations, states = jax.tree.map(lambda leaf: leaf[:rows], (episodes.observations, episodes.states))
    signal = None
    if "s" in settings.how.reads:
        times = jnp.broadcast_to(jnp.arange(rows)[:, None], (rows, episodes.lengths.shape[0]))
        last = episodes.lengths - (0 if settings.bootstrap_truncated else 1)
        whole = times == 0, previous_actions, observations, frozen_after_end(states, times, last), times
        source = critic_signal(env, settings)
        _, signal = source.follow(key, source.initial(times.shape[1]), *whole)
    return TrainingBatch(
        before=previous_actions,
        observations=observations,
        signal=signal,
        actions=episodes.actions[:length],
        rewards=episodes.rewards[:length],
        features=episodes.features[:length],
        valid=episodes.valid()[:length],
        lengths=episodes.lengths,
        truncated=episodes.truncated,
    )
