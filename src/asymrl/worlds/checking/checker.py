"""A model checker: tests whether a world follows the rules, and names the state and action where it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import jax
import numpy as np

from asymrl.worlds.checking.sampling import (
    CheckError as CheckError,
    Samples,
    act,
    action_count,
    action_to_try,
    begin,
    quick_jit,
    sample_world,
    to_numpy,
    trace_functions,
)
from asymrl.worlds.checking.value_problems import (
    at_index,
    first_difference,
    shape_problem,
    shape_text,
    stacked,
    stacked_space,
    state_problem,
    value_text,
)
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.spaces import (
    Discrete,
    Indices,
    Record,
    Space,
    action_problem,
    entry_names,
)
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World


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
    passed = []
    if isinstance(env, FiniteWorld):
        checker.check_probabilities(env)
        passed.append("probabilities sum to one")
    checker.check_shapes()
    samples = sample_world(env, episodes, steps, seed)
    checker.check_spaces(samples)
    checker.check_fixed(samples)
    checker.check_rewards(samples)
    checker.check_alone(samples)
    checker.check_latents(samples)
    passed += [
        "functions depend on their arguments only",
        "shapes and dtypes are as declared, and the state keeps its own",
        "observations, latents and signals lie in their spaces",
        "rewards are finite numbers",
        "many worlds at once behave as each alone",
        "the latent determines the future",
    ]
    states = len(set(samples.same_latent.tolist()))
    rewards = samples.outcomes.reward
    span = float(rewards.min()), float(rewards.max())
    return CheckReport(env.name, states, states * action_count(env), tuple(passed), span)


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

    def check_probabilities(self, env: FiniteWorld) -> None:
        for table in env.tables():
            if problem := table.problem():
                # The row after the last state holds the observations after an end.
                self.fail(problem.replace(f"next state {len(env.state_names)} ", "the end of an episode "))

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
        for what, space, result in (
            ("first_observation", env.observation_space, shapes.first_observation),
            ("observe", env.observation_space, shapes.observation),
            ("latent", env.latent_space, shapes.latent),
        ):
            if problem := shape_problem(space, result):
                self.fail(f"the result of {what} {problem}, as its space declares")
        for what, expected, result in (
            ("reward", np.float32, shapes.step.reward),
            ("terminated", np.bool_, shapes.step.terminated),
        ):
            if result.shape != () or result.dtype != expected:
                self.fail(f"step returns a {what} {shape_text(result)}, expected {shape_text(np.zeros((), expected))}")
        for what, result in (("step", shapes.step.state), ("from_latent", shapes.state_from_latent)):
            if problem := state_problem(shapes.state, result):
                self.fail(f"{what} returns a different kind of state than reset: {problem}")

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

    def check_alone(self, samples: Samples) -> None:
        """Repeats some of the samples without vmap, one state and action at a time."""
        env, size = self.env, len(samples.start_keys)
        begin_alone = quick_jit(lambda keys, i: begin(env, keys[i]))
        few = min(size, 8)
        alone = stacked([begin_alone(samples.start_keys, i) for i in range(few)])
        together = samples.starts, samples.first_observations, samples.start_latents
        for name, one, other in zip(("reset", "first_observation", "latent"), alone, together, strict=True):
            if where := first_difference(one, at_index(other, slice(few)), axes=1):
                place = self.describe(samples.start_latents, *where)
                self.fail(f"{name} gives different results with and without vmap for the same key in {place}")

        tried = [action_to_try(env, i) for i in range(action_count(env))]
        act_alone = quick_jit(lambda keys, states, i, action: act(env, keys[i], at_index(states, i), action))
        different = np.unique(samples.same_latent)
        some = different[np.linspace(0, different.size - 1, 8).astype(int)].tolist()
        alone = []
        for batch, i in (divmod(k, size) for k in some):
            keys, states = samples.batch_keys[batch], samples.batches[batch]
            alone.append(stacked([act_alone(keys, states, i, action) for action in tried]))
        alone = stacked(alone)
        together = at_index(samples.outcomes, some)
        for name, part in (("step", slice(0, 3)), ("observe", slice(3, 4)), ("latent", slice(4, 5))):
            if where := first_difference(alone[part], together[part], axes=2):
                place = self.describe(samples.latents, some[where[0]], where[1])
                self.fail(f"{name} gives different results with and without vmap for the same key in {place}")

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
