"""A trained agent that acts in an environment: what it sees goes in, an action comes out."""

from __future__ import annotations

import os
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from asymrl.envs.world import World
from asymrl.gym.spaces import to_world
from asymrl.models.agent import Actor
from asymrl.models.distributions import NO_ACTION
from asymrl.models.memory import Carry
from asymrl.runs.loaded import load
from asymrl.runs.selection import select


class ActorPolicy:
    """An actor with its memory: `reset()` before each episode, then `act(observation)` until it ends.

    Observations are those of the world's Gymnasium environment.
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
        self.reset()

    def reset(self) -> None:
        """Forgets the past: an episode begins."""
        self.previous_action = NO_ACTION
        self._memory = self._actor.history.memory.initial(1)

    def act(self, observation: Any) -> int:
        """The next action, as an index."""
        shares = self.observe(observation)
        if self.generator is None:
            action = shares.argmax()
        else:
            action = np.sum(np.cumsum(shares)[:-1] <= self.generator.random())
        self.previous_action = int(action)
        return self.previous_action

    def observe(self, observation: Any) -> Float[np.ndarray, "actions"]:
        """Takes in what is seen now, after `previous_action`; the probabilities of the next action."""
        space = self.env.observation_space
        if problem := space.problem(observation):
            raise ValueError(f"{self.env.name}: the observation {problem}")
        seen = jax.tree.map(lambda leaf: leaf[None], to_world(space, observation))
        before = np.array([self.previous_action], np.int32)
        self._memory, shares = _step(self._actor, self._memory, before, seen)
        return np.asarray(shares)


class Policy(ActorPolicy):
    """The agent that a run has trained; see `ActorPolicy` for how to act with it."""

    def __init__(
        self,
        run: str | os.PathLike[str],
        *,
        run_seed: int | None = None,
        generator: np.random.Generator | None = None,
    ):
        """Loads the agent.

        Args:
            run: folder of the run.
            run_seed: which seed of the run; by default the one with the best final return.
            generator: samples the actions; without one, the most likely action is taken.
        """
        chosen = select(load(run), run_seed)
        self.settings, self.run_seed = chosen.settings, chosen.seed
        super().__init__(chosen.env, chosen.run.actor, generator)


@eqx.filter_jit
def _step(actor: Actor, memory: Carry, before: np.ndarray, seen: Any) -> tuple[Carry, Float[Array, "actions"]]:
    with jax.default_matmul_precision("highest"):
        memory, _, logits = actor.step(memory, jnp.asarray(before), seen)
    return memory, jax.nn.softmax(logits[0])
