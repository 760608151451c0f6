"""Facts about a world, for people: its spaces, where its state comes from, limits, rewards, speed."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax
import numpy as np

from asymrl.worlds.checking.sampling import actions_to_try
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.spaces import Box, Discrete, Image, Indices, MultiDiscrete, Record, Space
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World

LARGEST_BOUND = 1e30  # bounds of this size or more count as none
MOST_BOUNDS = 8  # that are listed
TOGETHER, STEPS = 64, 200  # compiled worlds, and steps of each, whose speed is measured


class WorldFacts(NamedTuple):
    """Facts about a world."""

    actions: str
    observations: str
    state: str
    """What it is, and where it comes from."""
    time_limit: int | None
    lowest_reward: float
    highest_reward: float
    """Of the steps that were sampled."""
    steps_per_second: float
    """Of one environment in Python, or of 64 that are compiled together."""
    episode_length: float | None = None
    """Mean length of sampled episodes with random actions."""
    ended: float | None = None
    """Share of them that the environment itself ended, rather than a time limit."""

    def lines(self) -> list[str]:
        """A line for each fact."""
        per_second = f"{self.steps_per_second:,.0f}".replace(",", " ")
        facts = {
            "actions": self.actions,
            "observations": self.observations,
            "state": self.state,
            "time limit": "none" if self.time_limit is None else f"{self.time_limit} steps",
            "rewards": f"{self.lowest_reward:g} to {self.highest_reward:g} in what was sampled",
            "speed": f"{per_second} steps per second",
        }
        if self.episode_length is not None and self.ended is not None:
            how = f"{self.episode_length:.1f} steps on average, {100 * self.ended:.0f} % end before a time limit"
            facts["episodes"] = f"{how}, with random actions"
        return [f"  {name:14}{text}" for name, text in facts.items()]


def space_text(space: Space) -> str:
    """A space in words."""
    if isinstance(space, Record):
        return "; ".join(f"{name}: {space_text(part)}" for name, part in space.items()) or "nothing"
    if isinstance(space, Discrete):
        return f"one of {space.n}"
    if isinstance(space, MultiDiscrete):
        return f"{len(space.sizes)} indices, one of {', '.join(map(str, space.sizes[:8]))}" + (
            ", ..." if len(space.sizes) > 8 else " each" if len(space.sizes) == 1 else ""
        )
    shape = "x".join(map(str, space.shape)) or "1"
    if isinstance(space, Box):
        return f"{shape} number{'s' * (shape != '1')}{_bounds_text(space)}"
    if isinstance(space, Image):
        height, width, channels = space.shape
        colours = f"{channels} channel{'s' if channels > 1 else ''}"
        return f"a picture of {height}x{width} pixels with {colours}, read by convolutions"
    if isinstance(space, Indices):
        return f"{shape} symbols"
    return f"{shape} {type(space).__name__.lower()}"


def _bounds_text(space: Box) -> str:
    """The bounds of numbers: one pair for all, or one for each if they differ."""
    pairs = [(float(low), float(high)) for low, high in zip(*map(np.ravel, space.bounds()), strict=True)]
    each = [f"{low:g} to {high:g}" if max(-low, high) < LARGEST_BOUND else "without bounds" for low, high in pairs]
    if not each or set(each) == {"without bounds"}:
        return ""
    if len(set(each)) == 1:
        return f" from {each[0]}"
    return f": {', '.join(each[:MOST_BOUNDS])}{', ...' * (len(each) > MOST_BOUNDS)}"


def state_text(env: World) -> str:
    """The latent state in words, and where it comes from."""
    if isinstance(env, SteppedWorld):
        if env.without_latent:
            return "none was found"
        return f"{space_text(env.latent_space)}; from {env.latent_from}"
    if isinstance(env, FiniteWorld):
        return f"one of {len(env.state_names)}; the world's own"
    return f"{space_text(env.latent_space)}; the world's own"


def compiled_facts(env: World, rewards: tuple[float, float]) -> WorldFacts:
    """The facts of a compiled world with these lowest and highest rewards; measures its speed."""
    return WorldFacts(
        actions=space_text(env.action_space),
        observations=space_text(env.observation_space),
        state=state_text(env),
        time_limit=env.time_limit,
        lowest_reward=rewards[0],
        highest_reward=rewards[1],
        steps_per_second=compiled_speed(env),
    )


def compiled_speed(env: World) -> float:
    """Steps per second of 64 worlds in one program, with actions drawn at random."""
    tried = actions_to_try(env)
    count = jax.tree.leaves(tried)[0].shape[0]

    def step(carry: Any, key: Any) -> tuple[Any, Any]:
        episode, _ = carry
        drawn = jax.random.randint(key, (), 0, count)
        action = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf)[drawn], tried)
        episode, observation, _, transition = env.advance_or_begin(key, episode, action)
        return (episode, observation), transition.reward

    def run(key: Any) -> Any:
        return jax.lax.scan(step, env.begin(key), jax.random.split(key, STEPS))[1].sum()

    program = jax.jit(jax.vmap(run))
    keys = jax.random.split(jax.random.key(0), TOGETHER)
    program(keys).block_until_ready()
    begin = time.perf_counter()
    program(keys).block_until_ready()
    return TOGETHER * STEPS / (time.perf_counter() - begin)
