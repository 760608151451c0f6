"""Training in worlds that run in Python: they are stepped on the host, everything else is compiled as always."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from asymrl.learning.counting import means
from asymrl.learning.program import (
    Program,
    absorb,
    apart,
    compiler_options,
    is_active,
    is_due,
    keys_of,
    precision,
)
from asymrl.learning.rollout import Episodes, roll_out
from asymrl.learning.run import Run
from asymrl.learning.settings import Numbers, Settings
from asymrl.models.agent import Actor
from asymrl.worlds.stepped_world import SteppedWorld, Stepper
from asymrl.worlds.world import World


class Collector:
    """Episodes of a batch of runs in a world that runs in Python; `learning.rollout.roll_out` for such worlds.

    All environments take a step together, and the policies of all runs are asked in one compiled call.
    """

    def __init__(self, env: SteppedWorld, actors: Actor, horizon: int):
        """`actors` are those of any runs with the same networks: only their form matters."""
        self.env, self.horizon = env, horizon
        self.policy = actors.distribution
        ready = jax.eval_shape(eqx.filter_vmap(Actor.prepared), actors)
        arrays, self._static = eqx.partition(ready, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
        self._structure = jax.tree.structure(arrays)
        self._actor_static = eqx.partition(actors, eqx.is_array)[1]
        self._begin = jax.jit(self._begin_episodes, static_argnums=2)
        self._act = jax.jit(self._act_once, static_argnums=4, donate_argnums=1)
        self._steppers: dict[int, Stepper] = {}

    def collect(
        self, actors: Actor, keys: PRNGKeyArray, active: Bool[np.ndarray, "run"], *, episodes: int, greedy: bool = False
    ) -> Episodes:
        """Whole episodes of each active run; see `roll_out`."""
        runs = keys.shape[0]
        ready, loop, before, chance, seeds = self._begin(eqx.filter(actors, eqx.is_array), keys, episodes)
        stepper = self._stepper(runs * episodes)
        seen, truth = stepper.reset(np.asarray(seeds).ravel().tolist())
        tape = _Tape(self.horizon, seen, truth)
        alive = np.repeat(np.asarray(active), episodes)
        for t in range(self.horizon):
            loop, before, action = self._act(ready, loop, (before, seen, chance), np.int32(t), greedy)
            seen, truth, rewards, terminated, truncated = stepper.step(np.asarray(action), alive)
            out_of_time = t + 1 >= self.horizon
            tape.write(t, np.asarray(before), seen, truth, np.where(alive, rewards, 0.0))
            tape.lengths += alive
            tape.truncated |= alive & ~terminated & (truncated | out_of_time)
            alive = alive & ~terminated & ~truncated
            if not alive.any():
                break
        return tape.episodes(runs, episodes, loop[1])

    def _stepper(self, count: int) -> Stepper:
        if count not in self._steppers:
            self._steppers[count] = self.env.open(count)
        return self._steppers[count]

    def close(self) -> None:
        """Closes the environments."""
        while self._steppers:
            self._steppers.popitem()[1].close()

    def _begin_episodes(self, arrays: Any, keys: PRNGKeyArray, episodes: int) -> tuple[Any, tuple, Array, Array, Array]:
        """What an episode begins with.

        The actors made ready, their empty memories with room for features, no action, what is random about actions,
        and seeds of the environments.
        """
        actors = eqx.combine(arrays, self._actor_static)
        ready = eqx.filter(eqx.filter_vmap(Actor.prepared)(actors), eqx.is_array)
        begin_keys, chance_keys = (jax.vmap(lambda k, i=i: jax.random.fold_in(k, i))(keys) for i in range(2))
        shape = (self.horizon, episodes)
        chance = jax.vmap(lambda key: self.policy.chance(key, shape), out_axes=1)(chance_keys)
        # Gymnasium wants seeds that are not negative, as Python's own integers.
        seeds = jax.vmap(lambda key: jax.random.bits(key, (episodes,)) >> 1)(begin_keys)
        memory = jax.vmap(lambda ready: eqx.combine(ready, self._static).history.memory.initial(episodes))(ready)
        features = jnp.zeros((self.horizon, keys.shape[0], episodes, self._static.history.memory.size))
        before = self.policy.none(keys.shape[0], episodes)
        # The actors as a list, which takes fewer calls to hand over than a model.
        return jax.tree.leaves(ready), (memory, features), before, chance, seeds

    def _act_once(self, ready: Any, loop: tuple, given: tuple, t: Array, greedy: bool) -> tuple[tuple, Array, Array]:
        memory, features = loop
        before, seen, chance = given

        def choose(ready: Any, memory: Any, before: Array, seen: Any, chance: Array) -> tuple:
            memory, new, parameters = eqx.combine(ready, self._static).step(memory, before, seen)
            action = self.policy.mode(parameters) if greedy else self.policy.choose(parameters, chance)
            return memory, new, action

        actors = jax.tree.unflatten(self._structure, ready)
        seen = jax.tree.map(lambda leaf: leaf.reshape(*before.shape[:2], *leaf.shape[1:]), seen)
        with jax.default_matmul_precision("highest"):
            memory, new, action = jax.vmap(choose)(actors, memory, before, seen, chance[t])
        features = jax.lax.dynamic_update_index_in_dim(features, new, t, 0)
        flat = action.reshape(-1, *action.shape[2:])
        return (memory, features), action, self.policy.to_world(flat)


def play(
    env: World, actors: Actor, keys: PRNGKeyArray, active: Bool[Array, "run"], *, episodes: int, greedy: bool = False
) -> Episodes:
    """`roll_out`, compiled, or for a world that runs in Python, collected step by step."""
    if not isinstance(env, SteppedWorld):
        return _roll_out(env, actors, keys, active, episodes, greedy)
    if env.time_limit is None:
        raise ValueError(f"{env.name}: acting needs a time limit; make the world with time_limit=100, for example")
    collector = Collector(env, actors, env.time_limit)
    try:
        return collector.collect(actors, keys, np.asarray(active), episodes=episodes, greedy=greedy)
    finally:
        collector.close()


@eqx.filter_jit
def _roll_out(env: World, actors: Actor, keys: PRNGKeyArray, active: Array, episodes: int, greedy: bool) -> Episodes:
    with jax.default_matmul_precision("highest"):
        return roll_out(env, actors, keys, active, episodes=episodes, greedy=greedy)


class _Tape:
    """What happens in some environments, written down step by step."""

    def __init__(self, horizon: int, seen: Any, truth: Any):
        def room(first: np.ndarray) -> np.ndarray:
            rows = np.zeros((horizon + 1, *first.shape), first.dtype)
            rows[0] = first
            return rows

        self.seen, self.truth = jax.tree.map(room, seen), jax.tree.map(room, truth)
        self.horizon = horizon
        count = jax.tree.leaves(seen)[0].shape[0]
        self.actions: np.ndarray | None = None
        self.rewards = np.zeros((horizon, count), np.float32)
        self.lengths, self.truncated = np.zeros(count, np.int32), np.zeros(count, bool)

    def write(self, t: int, actions: np.ndarray, seen: Any, truth: Any, rewards: np.ndarray) -> None:
        if self.actions is None:
            self.actions = np.zeros((self.horizon, *actions.shape), actions.dtype)
        self.actions[t], self.rewards[t] = actions, rewards
        for rows, now in ((self.seen, seen), (self.truth, truth)):
            jax.tree.map(lambda part, new: part.__setitem__(t + 1, new), rows, now)

    def episodes(self, runs: int, episodes: int, features: Array) -> Episodes:
        def by_run(rows: np.ndarray) -> np.ndarray:
            return rows.reshape(rows.shape[0], runs, episodes, *rows.shape[2:])

        return Episodes(
            observations=jax.tree.map(by_run, self.seen),
            states=jax.tree.map(by_run, self.truth),
            actions=self.actions,  # pyright: ignore[reportArgumentType]  on its way to the device
            rewards=by_run(self.rewards),  # pyright: ignore[reportArgumentType]
            features=features,
            lengths=self.lengths.reshape(runs, episodes),  # pyright: ignore[reportArgumentType]
            truncated=self.truncated.reshape(runs, episodes),  # pyright: ignore[reportArgumentType]
        )


class HostProgram(Program):
    """Training for all runs whose settings have one shape, in a world that runs in Python."""

    def __init__(self, settings: Settings, env: SteppedWorld):
        super().__init__(settings, env)
        self.host = env
        self.collector: Collector | None = None
        self._absorb = jax.jit(self._absorb_episodes, donate_argnums=0, compiler_options=compiler_options())
        self._look = jax.jit(
            lambda arrays, numbers: (keys_of(arrays), is_active(arrays, numbers), is_due(arrays, numbers))
        )

    def train(self, runs: Run, numbers: Numbers, updates: int) -> Run:
        """At most this many further updates of each run; fewer where a run is complete. Consumes `runs`."""
        if self.collector is None:
            self.collector = Collector(self.host, runs.actor, self.settings.time_limit)
        # Taking modules apart and putting them together takes as long as some steps: once is enough.
        arrays = eqx.filter(runs, eqx.is_array)
        for _ in range(updates):
            keys, active, due = self._look(arrays, numbers)
            if not np.any(active):
                break
            episodes = self.collector.collect(arrays.actor, keys, np.asarray(active), episodes=self.settings.episodes)
            evaluated = self._evaluated(self.collector, arrays, keys, np.asarray(due))
            arrays = self._absorb(arrays, numbers, episodes, evaluated)
        return eqx.combine(arrays, self._static)

    def _evaluated(self, collector: Collector, arrays: Run, keys: PRNGKeyArray, due: np.ndarray) -> Any:
        """As `evaluate_if_due`."""
        count = self.settings.evaluation_episodes
        if not count or not due.any():
            return np.full((len(due), 2), np.nan, np.float32)
        played = collector.collect(
            arrays.actor, apart(keys), due, episodes=count, greedy=self.settings.evaluation_greedy
        )
        return np.where(due[:, None], means(played), np.float32(np.nan))

    def _absorb_episodes(self, arrays: Run, numbers: Numbers, episodes: Episodes, evaluated: Array) -> Run:
        with precision(self.settings):
            runs = eqx.combine(arrays, self._static)
            return eqx.filter(absorb(self.env, self.settings, numbers, runs, episodes, evaluated), eqx.is_array)
