"""A model checker: tests whether a world follows the rules, and names the state and action where it does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import jax
import numpy as np

from asymrl.worlds.checking.sampling import (
    CheckError as CheckError,
    Samples,
    action_count,
    action_to_try,
    sample_world,
    to_numpy,
    trace_functions,
)
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.spaces import (
    Box,
    Discrete,
    Indices,
    MultiDiscrete,
    Record,
    Space,
    action_problem,
    entry_names,
)
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World

TOLERANCE = 1e-6


@dataclass(frozen=True)
class CheckReport:
    """What was examined."""

    world: str
    states: int
    pairs: int
    passed: tuple[str, ...]
    rewards: tuple[float, float]
    """The lowest and the highest."""

    def __str__(self) -> str:
        rules = "".join(f"\n  ok  {rule}" for rule in self.passed)
        return f"{self.world}: {self.states} states, {self.pairs} state-action pairs examined{rules}"


def check(env: World, *, episodes: int = 16, steps: int = 48, seed: int = 0) -> CheckReport:
    """Checks a world on states reached by random actions or, if it is finite and small, on all states.

    Args:
        env: the world.
        episodes: how many episodes to follow at once.
        steps: how many steps to follow each; an episode that ends starts again.
        seed: for the actions and the world.

    Returns:
        A report to print.

    Raises:
        CheckError: naming the rule, the state and the action.
    """
    if isinstance(env, SteppedWorld):
        raise ValueError(f"{env.name} runs in Python; check it with asymrl.worlds.check_environment")
    checker = _Checker(env)
    checker.check_shapes()
    samples = sample_world(env, episodes, steps, seed)
    checker.check_spaces(samples)
    checker.check_fixed(samples)
    checker.check_rewards(samples)
    checker.check_latents(samples)
    passed = (
        "functions depend on their arguments only",
        "shapes and dtypes are as declared, and the state keeps its own",
        "observations, latents and signals lie in their spaces",
        "rewards are finite numbers",
        "the latent determines the future",
    )
    states = len(set(samples.same_latent.tolist()))
    rewards = samples.outcomes.reward
    span = float(rewards.min()), float(rewards.max())
    return CheckReport(env.name, states, states * action_count(env), passed, span)


class _Checker:
    """The rules, one method each."""

    def __init__(self, env: World):
        self.env = env

    def fail(self, problem: str) -> NoReturn:
        raise CheckError(f"{self.env.name}: {problem}")

    def _call(self, name: str, function: Callable, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise CheckError(f"{self.env.name}: {name} raised {type(error).__name__}: {error}") from error

    def check_shapes(self) -> None:
        env = self.env
        if not env.action_names:
            self.fail("there are no actions; action_names must name at least one")
        space, names = env.action_space, len(env.action_names)
        if problem := action_problem(space):
            self.fail(f"action_space: {problem}")
        count = space.n if isinstance(space, Discrete) else len(entry_names(space))
        if names != count:
            what = "actions" if isinstance(space, Discrete) else "entries of an action"
            self.fail(f"action_names has {names} names, but action_space has {count} {what}")
        shapes = trace_functions(env)
        seen, state = declared(env.observation_space), shapes.state
        number, end = jax.ShapeDtypeStruct((), np.float32), jax.ShapeDtypeStruct((), np.bool_)
        for what, expected, result in (
            ("the result of first_observation", seen, shapes.first_observation),
            ("the result of observe", seen, shapes.observation),
            ("the result of latent", declared(env.latent_space), shapes.latent),
            ("the reward of step", number, shapes.step.reward),
            ("terminated of step", end, shapes.step.terminated),
            ("the state of step", state, shapes.step.state),
            ("the result of from_latent", state, shapes.state_from_latent),
        ):
            if problem := shape_problem(expected, result):
                self.fail(f"{what} {problem}")

    def check_spaces(self, samples: Samples) -> None:
        env, outcomes = self.env, samples.outcomes
        starts, latents = samples.start_latents, samples.latents
        self._check_space("first observation", env.observation_space, samples.first_observations, starts)
        self._check_space("latent", env.latent_space, latents, latents)
        self._check_space("observation", env.observation_space, outcomes.observation, latents, axes=2)
        self._check_space("next latent", env.latent_space, outcomes.latent, latents, axes=2)
        for name, signal in env.signals().items():
            values = to_numpy(self._call(f"the signal {name!r}", jax.vmap(signal.of), latents))
            self._check_space(f"signal {name!r}", signal.space, values, latents)
        for i in np.unique(samples.same_latent).tolist():
            if problem := self._call("latent_problem", env.latent_problem, at_index(latents, i)):
                self.fail(f"latent_problem refuses {self.describe(latents, i)}, which the world reached: {problem}")

    def _check_space(self, what: str, space: Space, values: Any, latents: Any, *, axes: int = 1) -> None:
        """Each value belongs to a state with its latent (1 axis), or to a state and an action (2 axes)."""
        lead = jax.tree.leaves(values)[0].shape[:axes]
        if stacked_space(space, lead).problem(values) is None:
            return
        for index in np.ndindex(*lead):
            value = at_index(values, index)
            if problem := space.problem(value):
                where = self.describe(latents, *index)
                self.fail(
                    f"the {what} is outside its space in {where}: it {problem}; the whole value: {value_text(value)}"
                )

    def check_fixed(self, samples: Samples) -> None:
        space = self.env.latent_space
        for name, part in space.items() if isinstance(space, Record) else ():
            if not (isinstance(part, Indices) and part.fixed):
                continue
            after = samples.outcomes.latent[name]
            before = np.broadcast_to(samples.latents[name][:, None], after.shape)
            if where := first_difference(before, after, axes=2):
                place = self.describe(samples.latents, *where)
                self.fail(f"{name!r} is declared fixed during an episode, but changes in {place}")

    def check_rewards(self, samples: Samples) -> None:
        for i, action in np.argwhere(~np.isfinite(samples.outcomes.reward)).tolist():
            reward = samples.outcomes.reward[i, action]
            self.fail(f"the reward is {reward} in {self.describe(samples.latents, i, action)}")

    def check_latents(self, samples: Samples) -> None:
        outcomes, leader = samples.outcomes[1:], samples.same_latent
        advice = "; make latent() include everything that matters"
        if where := first_difference(outcomes, at_index(outcomes, leader), axes=2):
            place = self.describe(samples.latents, *where)
            self.fail(
                "the latent does not determine the future: the world reached two states with the same latent, but "
                f"a different reward, end, observation or next latent in {place}{advice}"
            )
        if where := first_difference(samples.latents, samples.latents_again, axes=1):
            place, again = self.describe(samples.latents, *where), value_text(at_index(samples.latents_again, where))
            self.fail(f"from_latent does not undo latent in {place}; it gives {again}")
        if where := first_difference(outcomes, samples.outcomes_again[1:], axes=2):
            place = self.describe(samples.latents, *where)
            self.fail(
                "the latent does not determine the future: the state made by from_latent has a different reward, "
                f"end, observation or next latent in {place}{advice}"
            )

    def describe(self, latents: Any, i: int, action: int | None = None) -> str:
        env, latent = self.env, at_index(latents, i)
        if isinstance(env, FiniteWorld):
            shown = f"state {latent} ({env.state_names[latent]})"
        else:
            shown = f"the state with latent {value_text(latent)}"
        if action is None:
            return shown
        text = env.action_text(action_to_try(env, action))
        return f"{shown}, action " + (f"{action} ({text})" if isinstance(env.action_space, Discrete) else text)


# Different compilations may round sums differently.


def declared(space: Space) -> Any:
    """The shapes and dtypes of a value of a space."""
    if isinstance(space, Record):
        return {name: declared(part) for name, part in space.items()}
    return jax.ShapeDtypeStruct(space.shape, space.dtype)


def shape_problem(expected: Any, given: Any) -> str | None:
    """Why a tree of arrays has not the expected names, shapes and dtypes, or None."""
    if jax.tree.structure(expected) != jax.tree.structure(given):
        return f"is {shape_text(given)}, expected {shape_text(expected)}"
    for (path, one), other in zip(jax.tree.leaves_with_path(expected), jax.tree.leaves(given), strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            where = f"at {jax.tree_util.keystr(path)} " if path else ""
            return f"{where}is {shape_text(other)}, expected {shape_text(one)}"
    return None


def stacked_space(space: Space, lead: tuple[int, ...]) -> Space:
    """The space of arrays of values, with these leading axes."""
    if isinstance(space, Record):
        return Record(tuple((name, stacked_space(part, lead)) for name, part in space.items()))
    if isinstance(space, Box):
        return Box((*lead, *space.shape), space.low, space.high)
    if isinstance(space, Indices):
        return dataclasses.replace(space, shape=(*lead, *space.shape))
    if isinstance(space, MultiDiscrete):  # dtypes have been checked before
        return Box((*lead, *space.shape), 0.0, tuple(size - 1.0 for size in space.sizes))
    return Indices(space.n, lead)


def first_difference(one: Any, other: Any, *, axes: int) -> tuple[int, ...] | None:
    """The first index, counting `axes` axes, at which two trees of arrays differ, or None."""
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if np.array_equal(left, right):
            continue
        apart = ~np.isclose(left.astype(float), right.astype(float), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        apart = apart.reshape(*apart.shape[:axes], -1).any(-1)
        if apart.any():
            return tuple(int(i) for i in np.argwhere(apart)[0])
    return None


def stacked(results: list[Any]) -> Any:
    """Trees of arrays as one, along a new first axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *map(to_numpy, results))


def at_index(tree: Any, index: Any) -> Any:
    """The entry of every array of a tree at an index."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def shape_text(value: Any) -> str:
    """The dtype and shape of an array, such as float32[3, 2], or those of the parts of a tree."""
    if hasattr(value, "dtype"):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return str(jax.tree.map(shape_text, value)).replace("'", "")


def value_text(value: Any) -> str:
    """A value in one line, shortened if it is long."""
    with np.printoptions(precision=4, threshold=32, edgeitems=4):
        return " ".join(str(value).split())
