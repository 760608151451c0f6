"""A trained agent that acts in an environment: observations go in, actions come out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from asymrl.envs.gymnasium_spaces import to_world
from asymrl.nn.agent import Actor
from asymrl.nn.memory import Carry
from asymrl.runs.store import Store
from asymrl.runs.trained import best_run
from asymrl.worlds.spaces import Record, Space
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World


class ActorPolicy:
    """An actor with its memory: `reset()` before each episode, then `act(observation)` until it ends.

    Observations are those of the world's Gymnasium environment, and actions those that it takes.
    """

    def __init__(self, env: World, actor: Actor, generator: np.random.Generator | None = None):
        """Makes an actor ready to act.

        Args:
            env: the world that it acts in.
            actor: of one run.
            generator: samples the actions; without one, the most likely action is taken.
        """
        self.env, self.generator = env, generator
        self.action_names = env.action_names
        self._actor = actor
        self._seen: Space = env.observation_space
        if isinstance(self._seen, Record) and (names := actor.history.seen_parts) is not None:
            # What the actor does not see need not be there.
            self._seen = Record(tuple((name, part) for name, part in self._seen.items() if name in names))
        self.reset()

    def reset(self) -> None:
        """Forgets the past: an episode begins."""
        self.previous_action: Any = np.asarray(self._actor.distribution.none(1))[0]
        self._memory = self._actor.history.memory.initial(1)

    def act(self, observation: Any) -> Any:
        """The next action as the environment takes it, in its units and within its bounds: an index, an array, or a
        dictionary or tuple of both.
        """
        self.previous_action = self.draw(self.observe(observation), self.generator)
        return self.to_env(self.previous_action)

    def draw(self, shown: Float[np.ndarray, "numbers"], generator: np.random.Generator | None) -> Any:
        """An action from what `observe` returns: drawn with the generator, or the most likely without one."""
        return self._actor.distribution.draw(shown, generator)

    def to_env(self, action: Any) -> Any:
        """An action of the policy as the environment takes it."""
        placed = self._actor.distribution.to_world(jnp.asarray(action)[None])
        taken = jax.tree.map(lambda leaf: np.asarray(leaf[0]) if leaf.ndim > 1 else int(leaf[0]), placed)
        return self.env.act(taken) if isinstance(self.env, SteppedWorld) else taken

    def observe(self, observation: Any) -> Float[np.ndarray, "numbers"]:
        """Takes in the observation that follows `previous_action`; returns the probabilities of the next action.

        For several choices, the probabilities of the first, then of the second, and so on. Then, for numbers, their
        means followed by their spreads, in coordinates where -1 and 1 are the bounds. For a greedy policy, the action
        values.
        """
        space = self._seen
        if isinstance(self.env, SteppedWorld):
            try:
                observation = self.env.read(observation)
            except (TypeError, ValueError, KeyError, IndexError) as error:
                raise ValueError(f"{self.env.name}: the observation is not one of {space}: {error}") from error
        if isinstance(space, Record) and isinstance(observation, Mapping):
            observation = {name: value for name, value in observation.items() if name in dict(space.items())}
        if problem := space.problem(observation):
            raise ValueError(f"{self.env.name}: the observation {problem}")
        batch = jax.tree.map(lambda leaf: leaf[None], to_world(space, observation))
        self._memory, shown = _step(self._actor, self._memory, np.asarray(self.previous_action)[None], batch)
        return np.asarray(shown)


class Policy(ActorPolicy):
    """The agent that a run has trained; see `ActorPolicy` for how to act with it."""

    def __init__(
        self,
        run: str | os.PathLike[str],
        *,
        run_seed: int | None = None,
        generator: np.random.Generator | None = None,
        trust: bool = False,
    ):
        """Loads the agent.

        Args:
            run: folder of a store.
            run_seed: which seed; by default the run with the best recent return.
            generator: samples the actions; without one, the most likely action is taken.
            trust: run the code that the settings of the run name.
        """
        best = best_run(Store.open(Path(run), trust=trust), run_seed)
        self.settings, self.run_seed = best.settings, best.seed
        super().__init__(best.world, best.state.actor, generator)

    def __repr__(self) -> str:
        how = "most likely" if self.generator is None else "sampled"
        return f"<Policy: {self.settings.method}, seed {self.run_seed}, in {self.settings.world}; {how} actions>"


@eqx.filter_jit
def _step(
    actor: Actor, memory: Carry, previous_action: np.ndarray, observation: Any
) -> tuple[Carry, Float[Array, "numbers"]]:
    with jax.default_matmul_precision("highest"):
        memory, _, parameters = actor.step(memory, jnp.asarray(previous_action), observation)
    return memory, actor.distribution.shown(parameters[0])
