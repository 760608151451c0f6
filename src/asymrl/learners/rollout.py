"""Episodes under the current policies of a batch of runs."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.kernels.attach import replaceable
from asymrl.learners.episodes import STEPS_PER_QUESTION, Episodes, RolloutStart, Segments, WholeEpisodes, tape_length
from asymrl.learners.key_purposes import ACTIONS, EPISODE_STARTS, STREAM_STEPS, WORLD_STEPS
from asymrl.learners.streams import PIECE_AXES, Piece, Segment, Streams, act_in_streams
from asymrl.nn.agent import Actor, ReadyActor
from asymrl.nn.distributions import Distribution, Greedy
from asymrl.worlds.world import World


class StepRecord(NamedTuple):
    """The record of a step, or of several with `time` first: the fields of `Episodes` that have a time."""

    observations: Any  # after the action
    states: Any
    actions: Any
    rewards: Any
    features: Any  # before the action


class RolloutState(NamedTuple):
    """The state of all episodes between two steps. Arrays are `[run, episode, ...]`, except for the memory."""

    t: Int[Array, ""]
    memory: Any
    action: Array  # the last one
    observation: Any
    episode: Any
    alive: Bool[Array, "run episode"]
    lengths: Int[Array, "run episode"]
    truncated: Bool[Array, "run episode"]


def roll_out(
    env: World,
    actors: Actor,
    keys: PRNGKeyArray,
    active: Bool[Array, "run"],
    *,
    episodes: int,
    greedy: bool = False,
    epsilon: Float[Array, "run"] | None = None,
) -> Episodes:
    """Lets the actors of all runs act until the last of their episodes has ended.

    The loop over time is outside and the runs are inside it, so that nothing is computed for times that no run
    reaches.

    Args:
        env: the world, with a time limit.
        actors: of a batch of runs; every array has a leading axis `run`.
        keys: one per run, `[run]`.
        active: runs to wait for; the episodes of the others are not complete.
        episodes: per run.
        greedy: take the most likely action instead of a sampled one.
        epsilon: by run, the probability of a random action, for actors with the distribution `Greedy`. None: 0.
    """
    horizon = env.time_limit
    if horizon is None:
        raise ValueError(f"{env.name}: training needs a time limit; make the world with time_limit=100, for example")
    ready = eqx.filter_vmap(Actor.prepared)(actors)
    start = begin_rollout(env, actors.distribution, keys, episodes, horizon, epsilon)
    return step_by_step(env, ready, start, active, greedy=greedy)


def collect(
    env: World,
    rollout: WholeEpisodes | Segments,
    runs: Any,
    keys: PRNGKeyArray,
    acting: Bool[Array, "run"],
    epsilon: Float[Array, "run"] | None,
) -> tuple[Streams | None, Episodes | Segment]:
    """The batch of an update of each run, and its streams after it, if it has any."""
    if isinstance(rollout, WholeEpisodes):
        return None, roll_out(env, runs.actor, keys, acting, episodes=rollout.episodes, epsilon=epsilon)

    def act(actor: Actor, streams: Streams, key: PRNGKeyArray) -> tuple[Streams, Piece]:
        return act_in_streams(env, actor, streams, jax.random.fold_in(key, STREAM_STEPS), rollout.steps)

    over_runs = eqx.filter_vmap(act, out_axes=(eqx.if_array(0), PIECE_AXES))
    streams, piece = over_runs(runs.actor, runs.streams, keys)
    return streams, Segment(runs.streams.carries, piece)


def begin_rollout(
    env: World,
    policy: Distribution,
    keys: PRNGKeyArray,
    episodes: int,
    horizon: int,
    epsilon: Float[Array, "run"] | None = None,
) -> RolloutStart:
    """Starts `episodes` episodes of each run."""
    begin_keys, chance_keys, step_keys = (
        jax.vmap(lambda key, purpose=purpose: jax.random.fold_in(key, purpose))(keys)
        for purpose in (EPISODE_STARTS, ACTIONS, WORLD_STEPS)
    )
    episode, observation = jax.vmap(lambda key: jax.vmap(env.begin)(jax.random.split(key, episodes)))(begin_keys)
    chance = chance_of(policy, chance_keys, (horizon, episodes), epsilon)
    return RolloutStart(episode, observation, chance, step_keys)


def chance_of(
    policy: Distribution, keys: PRNGKeyArray, shape: tuple[int, int], epsilon: Float[Array, "run"] | None
) -> Array:
    """The random numbers for the actions of each run, `[time, run, episode, ...]`."""
    if epsilon is None:
        return jax.vmap(lambda key: policy.chance(key, shape), out_axes=1)(keys)
    if not isinstance(policy, Greedy):
        raise TypeError(f"{type(policy).__name__} explores by itself; epsilon is for policies of action values")
    return jax.vmap(lambda key, share: policy.chance(key, shape, share), out_axes=1)(keys, epsilon)


@replaceable
def step_by_step(
    env: World, actors: ReadyActor, start: RolloutStart, active: Bool[Array, "run"], *, greedy: bool = False
) -> Episodes:
    """The episodes of all runs, played in lockstep until the last has ended."""
    (horizon, runs, episodes), policy = start.chance.shape[:3], actors.distribution
    arrays, static = eqx.partition(actors, eqx.is_array)

    def choose(
        arrays: Any, memory: Any, previous_actions: Array, observation: Any, u: Array
    ) -> tuple[Any, Array, Array]:
        memory, features, parameters = eqx.combine(arrays, static).step(memory, previous_actions, observation)
        return memory, features, policy.mode(parameters) if greedy else policy.choose(parameters, u)

    def advance(key: PRNGKeyArray, t: Array, episode: Any, action: Array) -> Any:
        step_keys = jax.vmap(lambda e: jax.random.fold_in(jax.random.fold_in(key, t), e))(jnp.arange(episodes))
        return jax.vmap(env.advance)(step_keys, episode, policy.to_world(action))

    def step(state: RolloutState) -> tuple[RolloutState, StepRecord]:
        u = start.chance[state.t]
        memory, features, action = jax.vmap(choose)(arrays, state.memory, state.action, state.observation, u)
        episode, (observation, reward, terminated, truncated) = jax.vmap(advance, (0, None, 0, 0))(
            start.keys, state.t, state.episode, action
        )
        record = StepRecord(observation, episode.state, action, jnp.where(state.alive, reward, 0.0), features)
        lengths, cut = state.lengths + state.alive, jnp.where(state.alive, truncated, state.truncated)
        alive = state.alive & ~terminated & ~truncated
        return RolloutState(state.t + 1, memory, action, observation, episode, alive, lengths, cut), record

    def steps(loop: tuple[RolloutState, StepRecord]) -> tuple[RolloutState, StepRecord]:
        state, tape = loop
        t, records = state.t, []
        for _ in range(STEPS_PER_QUESTION):
            state, record = step(state)
            records.append(record)
        return state, _write_records(tape, records, t)

    nothing, none = jnp.zeros((runs, episodes)), policy.none(runs, episodes)
    features = jnp.zeros((runs, episodes, static.history.memory.size))
    tape = _empty_tape(horizon, StepRecord(start.observation, start.episode.state, none, nothing, features))
    memory = jax.vmap(lambda arrays: eqx.combine(arrays, static).history.memory.initial(episodes))(arrays)
    alive = jnp.broadcast_to(active[:, None], (runs, episodes))
    lengths, truncated = nothing.astype(jnp.int32), nothing.astype(bool)
    state = RolloutState(jnp.int32(0), memory, none, start.observation, start.episode, alive, lengths, truncated)
    state, tape = jax.lax.while_loop(lambda loop: jnp.any(loop[0].alive), steps, (state, tape))
    return Episodes(*tape, lengths=state.lengths, truncated=state.truncated)


def _empty_tape(horizon: int, first: StepRecord) -> StepRecord:
    """Room for all records, time first; it already holds the first observations and states."""
    rows = tape_length(horizon)

    def room(leaf: Array) -> Array:
        return jnp.zeros((rows, *leaf.shape), leaf.dtype)

    def room_from(leaf: Array) -> Array:
        return jnp.concatenate([leaf[None], room(leaf)])

    return StepRecord(
        observations=jax.tree.map(room_from, first.observations),
        states=jax.tree.map(room_from, first.states),
        actions=room(first.actions),
        rewards=room(first.rewards),
        features=room(first.features),
    )


def _write_records(tape: StepRecord, records: list[StepRecord], start: Int[Array, ""]) -> StepRecord:
    """The tape with the records from time `start` on. Written together: on an accelerator each write is a kernel."""

    def write(buffers: Any, values: Any, at: Array) -> Any:
        return jax.tree.map(
            lambda buffer, value: jax.lax.dynamic_update_slice_in_dim(buffer, value, at, 0), buffers, values
        )

    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *records)
    first = StepRecord(start + 1, start + 1, start, start, start)
    return StepRecord(*[write(*part) for part in zip(tape, together, first, strict=True)])
