"""A model checker: finds out whether a world keeps its promises, and names the state and action where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from asymrl.envs.finite import FiniteWorld
from asymrl.envs.spaces import Space
from asymrl.envs.world import State, World


class CheckError(ValueError):
    """A world breaks one of the rules that everything else relies on."""


@dataclass(frozen=True)
class CheckReport:
    """What was examined before the checker was satisfied."""

    world: str
    states: int
    pairs: int
    passed: tuple[str, ...]

    def __str__(self) -> str:
        done = "".join(f"\n  ok  {rule}" for rule in self.passed)
        return f"{self.world}: {self.states} states, {self.pairs} state-action pairs examined{done}"


def check(env: World, *, episodes: int = 32, steps: int = 64, seed: int = 0) -> CheckReport:
    """Examines a world on states reached by random actions and, where it is finite and small, on all states.

    Args:
        env: the world.
        episodes: how many episodes to follow at once.
        steps: how many steps to follow them; an episode that ends starts again.
        seed: of the actions and the world.

    Returns:
        What was examined; print it.

    Raises:
        CheckError: naming the rule, the state and the action.
    """
    probe = _Probe(env, episodes, steps, seed)
    rules = (
        ("probabilities sum to one", _check_probabilities),
        ("actions, observations and latents lie in their spaces", _check_spaces),
        ("rewards are finite numbers, ends are booleans", _check_outcomes),
        ("the same key, state and action give the same result", _check_deterministic),
        ("many worlds at once behave as each alone", _check_vmapped),
        ("the latent determines the future", _check_latent),
    )
    for _, rule in rules:
        rule(probe)
    pairs = probe.count * env.action_space.n
    return CheckReport(env.name, probe.count, pairs, tuple(name for name, _ in rules))


class _Probe:
    """States of a world to look at, with what random actions led from each of them."""

    def __init__(self, env: World, episodes: int, steps: int, seed: int):
        self.env = env
        keys = jax.random.split(jax.random.key(seed), 4)
        start_keys = jax.random.split(keys[0], episodes)
        try:
            episode, first = jax.jit(jax.vmap(env.begin))(start_keys)
        except Exception as error:
            raise CheckError(f"{env.name}: an episode can not begin: {error}") from error
        self.first_observations = jax.device_get(first)

        def walk(episode: Any, key: Any) -> tuple[Any, Any]:
            action_key, step_key = jax.random.split(key)
            actions = jax.random.randint(action_key, (episodes,), 0, env.action_space.n)
            onward, _, _, transition = jax.vmap(env.advance_or_begin)(
                jax.random.split(step_key, episodes), episode, actions
            )
            return onward, (episode.state, actions, transition.observation)

        _, (states, actions, observations) = jax.jit(lambda e, k: jax.lax.scan(walk, e, k))(
            episode, jax.random.split(keys[1], steps)
        )
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (states, actions, observations))
        self.states, self.actions, self.observations = flat
        if isinstance(env, FiniteWorld) and env.latent_space.n * env.action_space.n <= 20_000:
            self.states = jnp.arange(env.latent_space.n, dtype=jnp.int32)
        self.count = jax.tree.leaves(self.states)[0].shape[0]
        self.latents = jax.device_get(jax.jit(jax.vmap(env.latent))(self.states))
        self.keys = jax.random.split(keys[2], self.count)
        self.few = np.unique(np.linspace(0, self.count - 1, 8).astype(int))

    def outcomes(self, states: State) -> Any:
        """Step, observation and next latent of every action in every state: [states, actions, ...]."""
        env = self.env

        def one(key: Any, state: State, action: Any) -> Any:
            step = env.step(key, state, action)
            return step, env.observe(key, state, action, step.state), env.latent(step.state)

        over_actions = jax.vmap(one, (None, None, 0))
        actions = jnp.arange(env.action_space.n)
        return jax.device_get(jax.jit(jax.vmap(over_actions, (0, 0, None)))(self.keys, states, actions))

    def state(self, i: int) -> State:
        return jax.tree.map(lambda leaf: leaf[i], self.states)

    def describe(self, i: int, action: int | None = None) -> str:
        env = self.env
        latent = jax.tree.map(lambda leaf: leaf[i], self.latents)
        shown = f"state {int(latent)} ({env.state_names[int(latent)]})" if isinstance(env, FiniteWorld) else None
        shown = shown or f"the state with latent {_short(latent)}"
        return shown if action is None else f"{shown}, action {action} ({env.action_names[action]})"

    def fail(self, problem: str) -> None:
        raise CheckError(f"{self.env.name}: {problem}")


def _short(value: Any) -> str:
    with np.printoptions(precision=4, threshold=32, edgeitems=4):
        return " ".join(str(value).split())


def _check_probabilities(probe: _Probe) -> None:
    env = probe.env
    if not isinstance(env, FiniteWorld):
        return
    S, A = env.ends.shape
    first = [] if env.first_observations is None else [("first observation", env.first_observations, (S,))]
    tables = [
        ("transition", env.transitions, (S, A)),
        ("observation", env.observations, (A, S + 1)),
        ("start", env.start_states, (1,)),
        *first,
    ]
    for what, rows, shape in tables:
        for row in np.flatnonzero((np.abs(rows.sums() - 1) > 1e-5) | ~np.isfinite(rows.sums())):
            index = [int(i) for i in np.unravel_index(row, shape)]
            where = {
                "transition": lambda i: f"state {i[0]}, action {i[1]}",
                "observation": lambda i: f"action {i[0]}, next state {i[1]}",
                "first observation": lambda i: f"state {i[0]}",
                "start": lambda i: "the beginning",
            }[what](index)
            probe.fail(f"the {what} probabilities for {where} sum to {rows.sums()[row]:.6g}, expected 1")


def _check_spaces(probe: _Probe) -> None:
    env = probe.env
    if env.action_space.n < 1:
        probe.fail("there are no actions; action_names must name at least one")
    parts: list[tuple[str, Space, Any]] = [
        ("first observation", env.observation_space, probe.first_observations),
        ("observation", env.observation_space, jax.device_get(probe.observations)),
        ("latent", env.latent_space, probe.latents),
    ]
    for what, space, values in parts:
        for i in range(min(2048, jax.tree.leaves(values)[0].shape[0])):
            value = jax.tree.map(lambda leaf, i=i: leaf[i], values)
            if problem := space.problem(value):
                probe.fail(f"a {what} is outside its space: {problem}; it was {_short(value)}")
    for i in range(min(2048, probe.count)):
        if problem := env.latent_problem(jax.tree.map(lambda leaf, i=i: leaf[i], probe.latents)):
            probe.fail(f"latent_problem refuses {probe.describe(i)}, which the world reached itself: {problem}")


def _check_outcomes(probe: _Probe) -> None:
    step, _, _ = probe.outcomes(probe.states)
    expected = (probe.count, probe.env.action_space.n)
    for what, values in (("reward", step.reward), ("terminated", step.terminated)):
        if values.shape != expected:
            probe.fail(f"{what} of a single step has shape {values.shape[2:]}, expected a scalar")
    if step.terminated.dtype != np.bool_:
        probe.fail(f"terminated has dtype {step.terminated.dtype}, expected bool")
    if not np.issubdtype(step.reward.dtype, np.floating):
        probe.fail(f"reward has dtype {step.reward.dtype}, expected a float")
    for i, action in np.argwhere(~np.isfinite(step.reward)):
        probe.fail(f"the reward is {step.reward[i, action]} in {probe.describe(int(i), int(action))}")


def _check_deterministic(probe: _Probe) -> None:
    env = probe.env
    for i in probe.few:
        for action in range(min(env.action_space.n, 8)):
            state, key = probe.state(i), probe.keys[i]
            once, again = (env.step(key, state, jnp.int32(action)) for _ in range(2))
            seen, seen_again = (env.observe(key, state, jnp.int32(action), once.state) for _ in range(2))
            if not _same((once, seen), (again, seen_again)):
                probe.fail(
                    f"the same key gives two results in {probe.describe(i, action)}; draw randomness from the key only"
                )


def _check_vmapped(probe: _Probe) -> None:
    env = probe.env
    step, observation, _ = probe.outcomes(probe.states)
    for i in probe.few:
        for action in range(min(env.action_space.n, 8)):
            alone = env.step(probe.keys[i], probe.state(i), jnp.int32(action))
            seen = env.observe(probe.keys[i], probe.state(i), jnp.int32(action), alone.state)
            together = jax.tree.map(lambda leaf, i=i, a=action: leaf[i, a], (step, observation))
            if not _same((alone, seen), together, tolerance=1e-6):
                probe.fail(f"under jit and vmap the result differs in {probe.describe(i, action)}")


def _check_latent(probe: _Probe) -> None:
    env = probe.env
    rebuilt = jax.jit(jax.vmap(lambda state: env.from_latent(env.latent(state))))(probe.states)
    latents = jax.device_get(jax.jit(jax.vmap(env.latent))(rebuilt))
    outcomes, from_latents = probe.outcomes(probe.states), probe.outcomes(rebuilt)
    for i in range(probe.count):
        if not _same_at(probe.latents, latents, i, tolerance=1e-6):
            probe.fail(f"from_latent does not undo latent in {probe.describe(i)}")
    futures = [(o[0].reward, o[0].terminated, o[2]) for o in (outcomes, from_latents)]
    for i, action in _differences(*futures, tolerance=1e-6):
        probe.fail(
            f"the latent does not determine the future: another state with the same latent has another reward, "
            f"end or next latent in {probe.describe(i, action)}; let latent() show all that matters"
        )


def _differences(one: Any, other: Any, *, tolerance: float) -> list[tuple[int, int]]:
    """The first (state, action) at which two stacks of outcomes differ, as a list of at most one pair."""
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        apart = ~np.isclose(left.astype(float), right.astype(float), rtol=tolerance, atol=tolerance)
        apart = apart.reshape(*apart.shape[:2], -1).any(-1)
        if apart.any():
            i, action = np.argwhere(apart)[0]
            return [(int(i), int(action))]
    return []


def _same(one: Any, other: Any, *, tolerance: float = 0.0) -> bool:
    return all(
        np.allclose(np.asarray(a, float), np.asarray(b, float), rtol=tolerance, atol=tolerance)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


def _same_at(one: Any, other: Any, i: int, *, tolerance: float) -> bool:
    return _same(*(jax.tree.map(lambda leaf: leaf[i], tree) for tree in (one, other)), tolerance=tolerance)
