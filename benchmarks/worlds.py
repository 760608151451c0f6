"""Environment steps per second with random actions, for every world and every way to run it.

    python benchmarks/worlds.py [--worlds heaven-hell-3 car-flag] [--episodes 1 100 10000] [--markdown table.md]

Three ways: one episode at a time through Gymnasium, Gymnasium's vector interface, and the pure functions under
jit and vmap, where actions are drawn, worlds stepped and finished episodes restarted inside one compiled loop.
Every step counted is a real step of an episode under way. Compilation is not counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, PRNGKeyArray

import asymrl
from asymrl.envs.registration import gymnasium_id
from asymrl.worlds import World
from asymrl.worlds.registry import WORLDS


@dataclass(frozen=True)
class Options:
    """What to measure."""

    worlds: list[str] = field(default_factory=lambda: list(WORLDS))
    episodes: list[int] = field(default_factory=lambda: [1, 100, 10_000])
    """How many episodes at once under jit and vmap."""
    vector: int = 1000
    """How many episodes at once in the Gymnasium vector environment; 0 leaves it and the single one out."""
    seconds: float = 1.0
    """How long to measure each number, at least."""
    markdown: str | None = None
    """Also write the table to this file."""


def compiled_steps(env: World, episodes: int, steps: int) -> Callable[[PRNGKeyArray], Array]:
    """A compiled function that takes `steps` random actions in each of `episodes` worlds."""

    def walk(carry: tuple, key: PRNGKeyArray) -> tuple[tuple, None]:
        episode, seen, total = carry
        action_key, step_key = jax.random.split(key)
        actions = (jax.random.uniform(action_key, (episodes,)) * len(env.action_names)).astype(jnp.int32)
        keys = jax.random.split(step_key, episodes)
        episode, observation, _, transition = jax.vmap(env.advance_or_begin)(keys, episode, actions)
        # Observations and rewards enter the result, so that the compiler can't leave them out.
        seen = jax.tree.map(lambda a, b: jnp.maximum(a, b.astype(a.dtype)), seen, observation)
        return (episode, seen, total + transition.reward), None

    @jax.jit
    def run(key: PRNGKeyArray) -> Array:
        begin_key, walk_key = jax.random.split(key)
        episode, observation = jax.vmap(env.begin)(jax.random.split(begin_key, episodes))
        carry = (episode, observation, jnp.zeros(episodes))
        (_, seen, total), _ = jax.lax.scan(walk, carry, jax.random.split(walk_key, steps))
        return total.sum() + sum(leaf.sum().astype(jnp.float32) for leaf in jax.tree.leaves(seen))

    return run


def measure_compiled(env: World, episodes: int, seconds: float) -> float:
    """Steps per second of the pure functions; the median of several runs."""
    steps = int(np.clip(2_000_000 // episodes, 100, 20_000))
    run = compiled_steps(env, episodes, steps)
    run(jax.random.key(0)).block_until_ready()
    rates, until, repeat = [], time.perf_counter() + seconds, 0
    while len(rates) < 3 or time.perf_counter() < until:
        repeat += 1
        start = time.perf_counter()
        run(jax.random.key(repeat)).block_until_ready()
        rates.append(episodes * steps / (time.perf_counter() - start))
    return float(np.median(rates))


def measure_gymnasium(name: str, seconds: float) -> float:
    """Steps per second of one episode at a time through `gymnasium.make`."""
    import gymnasium

    env = gymnasium.make(gymnasium_id(name))
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    env.step(0)
    actions = rng.integers(env.action_space.n, size=100_000)  # pyright: ignore[reportAttributeAccessIssue]
    env.reset(seed=1)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        _, _, terminated, truncated, _ = env.step(actions[count % actions.size])
        if terminated or truncated:
            env.reset()
        count += 1
    return count / (time.perf_counter() - start)


def measure_vector(name: str, episodes: int, seconds: float) -> float:
    """Steps per second of `gymnasium.make_vec`, all episodes together."""
    import gymnasium

    env = gymnasium.make_vec(gymnasium_id(name), num_envs=episodes)
    rng = np.random.default_rng(0)
    actions = rng.integers(env.single_action_space.n, size=(256, episodes))  # pyright: ignore[reportAttributeAccessIssue]
    env.reset(seed=0)
    env.step(actions[0])
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        env.step(actions[count % len(actions)])
        count += 1
    return count * episodes / (time.perf_counter() - start)


def human(rate: float) -> str:
    """A rate with three significant digits and a unit."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate >= size:
            return f"{rate / size:.3g} {unit}"
    return f"{rate:.3g}"


def main(options: Options) -> None:
    device = jax.devices()[0]
    print(f"asymrl {asymrl.__version__}, jax {jax.__version__}, {device.device_kind}, {os.cpu_count()} CPU cores")
    through_gymnasium = ["gymnasium", f"vector x {options.vector}"] if options.vector else []
    columns = through_gymnasium + [f"jit+vmap x {n}" for n in options.episodes]
    lines = ["| world | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    print("\n".join(lines), flush=True)
    for name in options.worlds:
        env = asymrl.make(name)
        rates = []
        if options.vector:
            rates.append(measure_gymnasium(name, options.seconds))
            rates.append(measure_vector(name, options.vector, options.seconds))
        rates += [measure_compiled(env, n, options.seconds) for n in options.episodes]
        lines.append(f"| {name} | " + " | ".join(human(rate) for rate in rates) + " |")
        print(lines[-1], flush=True)
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options))
