"""Episodes in worlds that run in Python: they are stepped on the host, the policies are compiled."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from asymrl.learners.environment_streams import act_in_environments
from asymrl.learners.episodes import Episodes, Segments, WholeEpisodes, draw_seeds, environment_seeds
from asymrl.learners.key_purposes import ACTIONS, EPISODE_SEEDS, STREAM_ACTIONS, STREAM_STEPS
from asymrl.learners.rollout import chance_of, roll_out
from asymrl.learners.streams import Segment, Streams
from asymrl.nn.agent import Actor
from asymrl.worlds.stepped_world import SteppedWorld, Stepper
from asymrl.worlds.world import World


class CompiledActor:
    """Acting step by step, compiled for actors of one form. Shared by everything that acts with such actors."""

    def __init__(self, actor: Actor, horizon: int):
        """`actor`: one of them, with arrays or their shapes."""
        self.policy, self.horizon = actor.distribution, horizon
        ready = eqx.filter_eval_shape(Actor.prepared, actor)
        arrays, self._static = eqx.partition(ready, _is_shape)
        self._structure = jax.tree.structure(arrays)
        self._actor_static = eqx.filter(actor, lambda leaf: eqx.is_array(leaf) or _is_shape(leaf), inverse=True)
        self.begin = jax.jit(self._begin_episodes, static_argnums=2)
        self.act = jax.jit(self._act_once, static_argnums=4, donate_argnums=1)
        self.begin_streams = jax.jit(self._begin_streams, static_argnums=(2, 3))
        self.act_in_streams = jax.jit(self._act_in_streams)

    def _begin_episodes(
        self, arrays: Any, keys: PRNGKeyArray, episodes: int, epsilon: Array | None = None
    ) -> tuple[Any, tuple, Array, Array, Array]:
        """What an episode begins with.

        The prepared actors, their empty memories with room for features, no action, the random numbers for actions,
        and the seeds of the environments.
        """
        actors = eqx.combine(arrays, self._actor_static)
        ready = eqx.filter(eqx.filter_vmap(Actor.prepared)(actors), eqx.is_array)
        chance_keys = jax.vmap(lambda key: jax.random.fold_in(key, ACTIONS))(keys)
        chance = chance_of(self.policy, chance_keys, (self.horizon, episodes), epsilon)
        seeds = jax.vmap(lambda key: environment_seeds(key, episodes))(keys)
        memory = jax.vmap(lambda ready: eqx.combine(ready, self._static).history.memory.initial(episodes))(ready)
        features = jnp.zeros((self.horizon, keys.shape[0], episodes, self._static.history.memory.size))
        previous_actions = self.policy.none(keys.shape[0], episodes)
        # The actors as a list, which takes fewer calls to pass than a model.
        return jax.tree.leaves(ready), (memory, features), previous_actions, chance, seeds

    def _act_once(self, ready: Any, loop: tuple, inputs: tuple, t: Array, greedy: bool) -> tuple[tuple, Array, Any]:
        memory, features = loop
        previous_actions, observations, chance = inputs

        def choose(ready: Any, memory: Any, previous_actions: Array, observations: Any, chance: Array) -> tuple:
            memory, new, parameters = eqx.combine(ready, self._static).step(memory, previous_actions, observations)
            action = self.policy.mode(parameters) if greedy else self.policy.choose(parameters, chance)
            return memory, new, action

        actors = jax.tree.unflatten(self._structure, ready)
        observations = jax.tree.map(
            lambda leaf: leaf.reshape(*previous_actions.shape[:2], *leaf.shape[1:]), observations
        )
        with jax.default_matmul_precision("highest"):
            memory, new, action = jax.vmap(choose)(actors, memory, previous_actions, observations, chance[t])
        features = jax.lax.dynamic_update_index_in_dim(features, new, t, 0)
        flat = action.reshape(-1, *action.shape[2:])
        return (memory, features), action, self.policy.to_world(flat)

    def _begin_streams(self, arrays: Any, keys: PRNGKeyArray, steps: int, streams: int) -> tuple[Any, Array, Array]:
        """The prepared actors, the random numbers for their actions, and seeds for episodes that begin meanwhile."""
        actors = eqx.combine(arrays, self._actor_static)
        ready = eqx.filter(eqx.filter_vmap(Actor.prepared)(actors), eqx.is_array)
        purposes = (STREAM_ACTIONS, EPISODE_SEEDS)
        chance_keys, seed_keys = (jax.vmap(lambda k, i=i: jax.random.fold_in(k, i))(keys) for i in purposes)
        shape = (steps, streams)
        chance = jax.vmap(lambda key: self.policy.chance(key, shape), out_axes=1)(chance_keys)
        return jax.tree.leaves(ready), chance, jax.vmap(lambda key: draw_seeds(key, shape), out_axes=1)(seed_keys)

    def _act_in_streams(
        self, ready: Any, memory: Any, first: Array, previous_actions: Array, observations: Any, chance: Array, t: Array
    ) -> tuple[Any, Array, Array, Any]:
        """The next memories, the actions `[run, stream]`, their log-probabilities, and the actions for the world."""

        def choose(
            ready: Any, memory: Any, first: Array, previous_actions: Array, observations: Any, chance: Array
        ) -> tuple:
            memory, parameters = eqx.combine(ready, self._static).step_from(
                memory, first, previous_actions, observations
            )
            action = self.policy.choose(parameters, chance)
            return memory, action, self.policy.log_probability(parameters, action)

        with jax.default_matmul_precision("highest"):
            actors = jax.tree.unflatten(self._structure, ready)
            memory, action, log_chosen = jax.vmap(choose)(
                actors, memory, first, previous_actions, observations, chance[t]
            )
        return memory, action, log_chosen, self.policy.to_world(action.reshape(-1, *action.shape[2:]))


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


class Collector:
    """Episodes of runs in a world that runs in Python; `rollout.roll_out` for such worlds.

    All environments take a step together, and one compiled call computes the actions of all runs.
    """

    def __init__(self, world: SteppedWorld, compiled_actor: CompiledActor):
        self.world, self.compiled_actor = world, compiled_actor
        self._steppers: dict[tuple[int, str], Stepper] = {}
        self.snapshots: dict[int, Any] = {}
        """By number of environments, the episodes that continue in the next update of a learner."""

    def collect(
        self,
        rollout: WholeEpisodes | Segments,
        runs: Any,
        keys: PRNGKeyArray,
        acting: Bool[np.ndarray, "run"],
        epsilon: Float[Array, "run"] | None,
        steps: int | None = None,
    ) -> tuple[Streams | None, Episodes | Segment]:
        """The batch of an update of each run, and its streams after it; or only the first `steps` steps."""
        if isinstance(rollout, WholeEpisodes):
            return None, self.play(runs.actor, keys, acting, episodes=rollout.episodes, epsilon=epsilon, steps=steps)
        keys = jax.vmap(lambda key: jax.random.fold_in(key, STREAM_STEPS))(keys)
        # Learning consumes the arrays of the runs, so what it reads from the batch has to be a copy.
        begun = runs.streams._replace(carries=jax.tree.map(jnp.copy, runs.streams.carries))
        streams, piece = act_in_environments(self, runs.actor, begun, keys, acting, rollout.steps, steps)
        return streams, Segment(begun.carries, piece)

    def play(
        self,
        actors: Actor,
        keys: PRNGKeyArray,
        active: Bool[np.ndarray, "run"],
        *,
        episodes: int,
        greedy: bool = False,
        epsilon: Float[Array, "run"] | None = None,
        steps: int | None = None,
    ) -> Episodes:
        """Whole episodes of each active run, or only their first `steps` steps; see `roll_out`."""
        runs, horizon = keys.shape[0], self.compiled_actor.horizon
        arrays = eqx.filter(actors, eqx.is_array)
        ready, loop, last_actions, chance, seeds = self.compiled_actor.begin(arrays, keys, episodes, epsilon)
        stepper = self.stepper(runs * episodes)
        alive = np.repeat(np.asarray(active), episodes)
        observations, states = stepper.reset(np.asarray(seeds).ravel().tolist(), alive)
        tape = _Tape(horizon, observations, states)
        for t in range(horizon if steps is None else steps):
            loop, last_actions, action = self.compiled_actor.act(
                ready, loop, (last_actions, observations, chance), np.int32(t), greedy
            )
            observations, states, rewards, terminated, truncated = stepper.step(jax.tree.map(np.asarray, action), alive)
            out_of_time = t + 1 >= horizon
            tape.write(t, np.asarray(last_actions), observations, states, np.where(alive, rewards, 0.0))
            tape.lengths += alive
            tape.truncated |= alive & ~terminated & (truncated | out_of_time)
            alive = alive & ~terminated & ~truncated
            if not alive.any():
                break
        return tape.episodes(runs, episodes, loop[1])

    def stepper(self, count: int, purpose: str = "episodes") -> Stepper:
        """`count` environments, opened at the first call and used only for this purpose."""
        if (count, purpose) not in self._steppers:
            self._steppers[count, purpose] = self.world.open(count)
        return self._steppers[count, purpose]

    def close(self) -> None:
        """Closes the environments. They are opened again when needed."""
        self.snapshots.clear()
        while self._steppers:
            self._steppers.popitem()[1].close()


def play(
    env: World, actors: Actor, keys: PRNGKeyArray, active: Bool[Array, "run"], *, episodes: int, greedy: bool = False
) -> Episodes:
    """`roll_out`, compiled, or for a world that runs in Python, collected step by step."""
    if not isinstance(env, SteppedWorld):
        return _roll_out(env, actors, keys, active, episodes, greedy)
    if env.time_limit is None:
        raise ValueError(f"{env.name}: acting needs a time limit; make the world with time_limit=100, for example")
    one = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, actors)
    collector = Collector(env, CompiledActor(one, env.time_limit))
    try:
        return collector.play(actors, keys, np.asarray(active), episodes=episodes, greedy=greedy)
    finally:
        collector.close()


@eqx.filter_jit
def _roll_out(env: World, actors: Actor, keys: PRNGKeyArray, active: Array, episodes: int, greedy: bool) -> Episodes:
    with jax.default_matmul_precision("highest"):
        return roll_out(env, actors, keys, active, episodes=episodes, greedy=greedy)


class _Tape:
    """What happens in some environments, recorded step by step."""

    def __init__(self, horizon: int, observations: Any, states: Any):
        def room(first: np.ndarray) -> np.ndarray:
            rows = np.zeros((horizon + 1, *first.shape), first.dtype)
            rows[0] = first
            return rows

        self.observations, self.states = jax.tree.map(room, observations), jax.tree.map(room, states)
        self.horizon = horizon
        count = jax.tree.leaves(observations)[0].shape[0]
        self.actions: np.ndarray | None = None
        self.rewards = np.zeros((horizon, count), np.float32)
        self.lengths, self.truncated = np.zeros(count, np.int32), np.zeros(count, bool)

    def write(self, t: int, actions: np.ndarray, observations: Any, states: Any, rewards: np.ndarray) -> None:
        if self.actions is None:
            self.actions = np.zeros((self.horizon, *actions.shape), actions.dtype)
        self.actions[t], self.rewards[t] = actions, rewards
        for rows, now in ((self.observations, observations), (self.states, states)):
            jax.tree.map(lambda part, new: part.__setitem__(t + 1, new), rows, now)

    def episodes(self, runs: int, episodes: int, features: Array) -> Episodes:
        def by_run(rows: np.ndarray) -> np.ndarray:
            return rows.reshape(rows.shape[0], runs, episodes, *rows.shape[2:])

        return Episodes(
            observations=jax.tree.map(by_run, self.observations),
            states=jax.tree.map(by_run, self.states),
            actions=self.actions,  # pyright: ignore[reportArgumentType]  on its way to the device
            rewards=by_run(self.rewards),  # pyright: ignore[reportArgumentType]
            features=features,
            lengths=self.lengths.reshape(runs, episodes),  # pyright: ignore[reportArgumentType]
            truncated=self.truncated.reshape(runs, episodes),  # pyright: ignore[reportArgumentType]
        )
