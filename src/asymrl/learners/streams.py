"""Streams: parallel sequences of episodes, and pieces of them to learn from.

An update takes a fixed number of steps in each stream and continues where the last one stopped, even inside an episode.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num, PRNGKeyArray

from asymrl.learners.episodes import Episodes, draw_seeds
from asymrl.learners.signals import CriticSignal
from asymrl.nn.agent import Actor, Critic
from asymrl.nn.distributions import Distribution
from asymrl.nn.memory import Carry
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World


class Carries(NamedTuple):
    """What the networks of a run remember of its streams; every array has the axis of streams first."""

    actor: Carry
    critic: Carry  # None if the critic reads no history, or the actor's
    signal: Any  # of the critic's signal


class Streams(NamedTuple):
    """The streams of a run between two updates. Every array has the axis of streams first."""

    episode: Any  # the current episodes: an `Episode`, or in a world that runs in Python, a `Script`
    observation: Any  # to act on next; None in a world that runs in Python
    before: Num[Array, "*run_stream_action"]  # the last action
    returns: Float[Array, "*run stream"]  # of the current episodes, so far
    carries: Carries


class Script(NamedTuple):
    """How to restore an episode in a world whose state cannot be saved: by playing it again."""

    seed: Int[Array, "*run stream"]
    actions: Num[Array, "*run_stream_time_action"]  # so far; arbitrary from time t on
    t: Int[Array, "*run stream"]


class Piece(NamedTuple):
    """Some steps of streams, or whole episodes. Each array has `time` first; a batch of runs adds an axis behind it."""

    first: Bool[Array, "time *run stream"]  # whether an episode begins
    times: Int[Array, "time *run stream"]  # how many actions came before in the episode
    before: Num[Array, "time *run_stream_action"]
    observations: Any
    states: Any
    actions: Num[Array, "time *run_stream_action"]
    log_chosen: Float[Array, "time *run stream"]  # logarithmic probability of the action when it was taken
    rewards: Float[Array, "time *run stream"]
    terminated: Bool[Array, "time *run stream"]
    truncated: Bool[Array, "time *run stream"]
    next_observations: Any  # after the action, before a new episode begins
    next_states: Any
    returns: Float[Array, "time *run stream"]  # of the episode so far, this reward included
    valid: Bool[Array, "time *run stream"]  # False after the end of a whole episode

    @property
    def ended(self) -> Bool[Array, "time *run stream"]:
        return self.valid & (self.terminated | self.truncated)


class Segment(NamedTuple):
    """A piece of streams, and what the networks remembered before it."""

    start: Carries
    piece: Piece


# The axis of runs in the pieces of several runs.
PIECE_AXES: Any = Piece(*[1] * len(Piece._fields))  # pyright: ignore[reportArgumentType]
SEGMENT_AXES: Any = Segment(0, PIECE_AXES)  # pyright: ignore[reportArgumentType]


def empty_carries(actor: Actor, critic: Critic, signal: CriticSignal, streams: int) -> Carries:
    """What the networks remember before the first step."""
    of_critic = None if critic.history is None else critic.history.memory.begin_streams(streams)
    return Carries(actor.history.memory.begin_streams(streams), of_critic, signal.initial(streams))


def begin_streams(env: World, policy: Distribution, carries: Carries, key: PRNGKeyArray, streams: int) -> Streams:
    """Streams before their first step."""
    previous_actions, returns = policy.none(streams), jnp.zeros(streams)
    if isinstance(env, SteppedWorld):
        assert env.time_limit is not None
        actions = jnp.zeros((streams, env.time_limit, *previous_actions.shape[1:]), previous_actions.dtype)
        script = Script(draw_seeds(key, (streams,)), actions, jnp.zeros(streams, jnp.int32))
        return Streams(script, None, previous_actions, returns, carries)
    episode, observation = jax.vmap(env.begin)(jax.random.split(key, streams))
    return Streams(episode, observation, previous_actions, returns, carries)


def act_in_streams(env: World, actor: Actor, streams: Streams, key: PRNGKeyArray, steps: int) -> tuple[Streams, Piece]:
    """Takes `steps` steps in each stream of one run. The critic's memory is not advanced."""
    chance_key, step_key = jax.random.split(key)
    ready, policy, count = actor.prepared(), actor.distribution, streams.returns.shape[0]
    none, nothing = policy.none(count), jnp.zeros(count)

    def step(state: Streams, at: tuple[Array, Array]) -> tuple[Streams, tuple[Piece, Array]]:
        t, chance = at
        first = state.episode.t == 0
        memory, parameters = ready.step_from(state.carries.actor, first, state.before, state.observation)
        action = policy.choose(parameters, chance)
        keys = jax.vmap(lambda n: jax.random.fold_in(jax.random.fold_in(step_key, t), n))(jnp.arange(count))
        episode, observation, ended, after = jax.vmap(env.advance_or_begin)(
            keys, state.episode, policy.to_world(action)
        )
        returns = state.returns + after.reward
        step_piece = Piece(
            first=first,
            times=state.episode.t,
            before=state.before,
            observations=state.observation,
            states=state.episode.state,
            actions=action,
            log_chosen=nothing,  # computed for all steps at once, below
            rewards=after.reward,
            terminated=after.terminated,
            truncated=after.truncated,
            next_observations=after.observation,
            next_states=ended.state,
            returns=returns,
            valid=jnp.ones_like(first),
        )
        done = after.done
        previous_actions = jnp.where(done.reshape(-1, *[1] * (none.ndim - 1)), none, action)
        carries = state.carries._replace(actor=memory)
        state = Streams(episode, observation, previous_actions, jnp.where(done, 0.0, returns), carries)
        return state, (step_piece, parameters)

    inputs = (jnp.arange(steps), policy.chance(chance_key, (steps, count)))
    streams, (piece, parameters) = jax.lax.scan(step, streams, inputs, unroll=2)
    return streams, piece._replace(log_chosen=policy.log_probability(parameters, piece.actions))


def whole_episodes(actor: Actor, episodes: Episodes, length: int) -> Piece:
    """Whole episodes of one run as a piece of streams: one episode in each, and nothing after it."""

    def cut(tree: Any, start: int = 0) -> Any:
        return jax.tree.map(lambda leaf: leaf[start : start + length], tree)

    valid, rewards = cut(episodes.valid()), cut(episodes.rewards)
    times = jnp.broadcast_to(jnp.arange(length)[:, None], valid.shape)
    last = times == episodes.lengths[None] - 1
    actions, truncated = cut(episodes.actions), jnp.broadcast_to(episodes.truncated[None], last.shape)
    return Piece(
        first=times == 0,
        times=times,
        before=cut(episodes.before(actor.distribution)),
        observations=cut(episodes.observations),
        states=cut(episodes.states),
        actions=actions,
        log_chosen=actor.distribution.log_probability(actor.policy(cut(episodes.features)), actions),
        rewards=jnp.where(valid, rewards, 0.0),
        terminated=last & ~truncated,
        truncated=last & truncated,
        next_observations=cut(episodes.observations, 1),
        next_states=cut(episodes.states, 1),
        returns=jnp.cumsum(jnp.where(valid, rewards, 0.0), axis=0),
        valid=valid,
    )


def follow_signal(signal: CriticSignal, key: PRNGKeyArray, carry: Any, piece: Piece) -> tuple[Any, Any, Any]:
    """The signal's next carry, and the signal at each step and after each action.

    The last is for bootstraps, such as where an episode was cut off or where the piece ends.
    """
    key, next_key = jax.random.split(key)
    now = (piece.first, piece.before, piece.observations, piece.states, piece.times)
    never = jnp.zeros_like(piece.first)
    after = (never, piece.actions, piece.next_observations, piece.next_states, piece.times + 1)
    if not jax.tree.leaves(carry):
        carry, values = signal.follow(key, carry, *now)
        return carry, values, signal.follow(next_key, carry, *after)[1]

    def step(carry: Any, at: tuple) -> tuple[Any, tuple[Any, Any]]:
        t, now, after = at
        keys = (jax.random.fold_in(k, t) for k in (key, next_key))
        carry, values = signal.follow(next(keys), carry, *_one(now))
        _, next_values = signal.follow(next(keys), carry, *_one(after))
        return carry, jax.tree.map(lambda leaf: leaf[0], (values, next_values))

    times = jnp.arange(piece.rewards.shape[0])
    carry, (values, next_values) = jax.lax.scan(step, carry, (times, now, after))
    return carry, values, next_values


def _one(arrays: Any) -> Any:
    """A single step as a sequence."""
    return jax.tree.map(lambda leaf: leaf[None], arrays)
