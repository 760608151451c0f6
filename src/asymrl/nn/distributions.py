"""Distributions of actions: what a policy's outputs mean, for indices, vectors of indices or numbers, and mixtures."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, PRNGKeyArray

from asymrl.nn.choices import (
    NO_ACTION as NO_ACTION,
    Categorical as Categorical,
    Greedy as Greedy,
    MultiCategorical as MultiCategorical,
)
from asymrl.worlds.spaces import (
    Box,
    Discrete,
    MultiDiscrete,
    Record,
    Space,
    action_problem,
    choice_sizes,
    number_box,
)

LOG_SPREAD = 0.0  # of a new Gaussian policy: a standard deviation of half the width of the action space


@dataclass(frozen=True)
class Gaussian:
    """A vector with independent normal entries. The parameters are their means, then their logarithmic spreads.

    The policy works in coordinates where -1 and 1 are the bounds of the action space; the world gets the action
    in its own units, clipped. Probabilities are those of the vector before it is clipped.
    """

    space: Box

    @property
    def size(self) -> int:
        return math.prod(self.space.shape)

    @property
    def outputs(self) -> int:
        """How many numbers the policy network gives; the spreads do not depend on the history."""
        return self.size

    @property
    def spreads(self) -> int:
        """How many logarithmic spreads the policy has in addition."""
        return self.size

    def chance(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*batch size"]:
        """The random numbers of actions, drawn beforehand."""
        return jax.random.normal(key, (*shape, self.size))

    def choose(self, parameters: Float[Array, "*batch both"], chance: Float[Array, "*batch size"]) -> Array:
        """Mean plus spread times a standard normal vector."""
        mean, log_spread = jnp.split(parameters, 2, axis=-1)
        return mean + jnp.exp(log_spread) * chance

    def mode(self, parameters: Float[Array, "*batch both"]) -> Float[Array, "*batch size"]:
        """The most likely action: the mean."""
        return jnp.split(parameters, 2, axis=-1)[0]

    def log_probability(self, parameters: Float[Array, "*batch both"], actions: Array) -> Float[Array, "*batch"]:
        mean, log_spread = jnp.split(parameters, 2, axis=-1)
        errors = (actions - mean) * jnp.exp(-log_spread)
        return jnp.sum(-0.5 * errors**2 - log_spread - 0.5 * math.log(2 * math.pi), axis=-1)

    def negentropy(self, parameters: Float[Array, "*batch both"]) -> Float[Array, "*batch"]:
        """The expected log-density; it may be positive, as densities may exceed 1."""
        _, log_spread = jnp.split(parameters, 2, axis=-1)
        return -jnp.sum(log_spread + 0.5 * math.log(2 * math.pi * math.e), axis=-1)

    def shown(self, parameters: Float[Array, "*batch both"]) -> Float[Array, "*batch both"]:
        """The policy as people are shown it: means, then spreads."""
        mean, log_spread = jnp.split(parameters, 2, axis=-1)
        return jnp.concatenate([mean, jnp.exp(log_spread)], axis=-1)

    def none(self, *shape: int) -> Float[Array, "*batch size"]:
        """The placeholder before the first action: zeros, whose features are zeros."""
        return jnp.zeros((*shape, self.size))

    def to_world(self, actions: Float[Array, "*batch size"]) -> Float[Array, "..."]:
        """The actions as the world takes them."""
        shaped = actions.reshape(*actions.shape[:-1], *self.space.shape)
        low, high = self.space.bounds()
        middle, half = self.scale()
        place = jnp.broadcast_to(middle, shaped.shape) + jnp.broadcast_to(half, shaped.shape) * shaped
        return jnp.clip(place, jnp.broadcast_to(low, place.shape), jnp.broadcast_to(high, place.shape))

    def scale(self) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        """Middle and half width of the action space; 0 and 1 for an entry with an infinite bound."""
        low, high = self.space.bounds()
        finite = np.isfinite(low) & np.isfinite(high)
        low_end, high_end = np.where(finite, low, -1.0), np.where(finite, high, 1.0)
        return (low_end + high_end) / 2, (high_end - low_end) / 2

    def in_units(self, shown: Float[np.ndarray, "*batch both"]) -> Float[np.ndarray, "*batch both"]:
        """What `shown` gives, in the units of the world; means are clipped to its bounds."""
        mean, spread = np.split(shown, 2, axis=-1)
        middle, half = (each.ravel() for each in self.scale())
        low, high = (end.ravel() for end in self.space.bounds())
        return np.concatenate([np.clip(middle + half * mean, low, high), half * spread], axis=-1)

    def draw(self, shown: Float[np.ndarray, "both"], generator: np.random.Generator | None) -> Any:
        """An action from what `shown` gives: drawn with the generator, or without one the mean."""
        mean, spread = np.split(shown, 2)
        return mean if generator is None else (mean + spread * generator.normal(size=mean.shape)).astype(np.float32)


@dataclass(frozen=True)
class JointActions:
    """Several actions at once, choices and numbers, independent of each other given the history.

    An action is a vector: first all choices of the record, then all its numbers, each in the order of the record. So
    are the parameters: the logits of the choices, the means of the numbers, then their logarithmic spreads.
    """

    space: Record

    @functools.cached_property
    def choices(self) -> MultiCategorical | None:
        sizes = choice_sizes(self.space)
        return MultiCategorical(sizes) if sizes else None

    @functools.cached_property
    def numbers(self) -> Gaussian | None:
        box = number_box(self.space)
        return Gaussian(box) if box.shape[0] else None

    @property
    def parts(self) -> list[MultiCategorical | Gaussian]:
        return [part for part in (self.choices, self.numbers) if part is not None]

    @property
    def first_number(self) -> int:
        """Where the numbers begin in an action: how many choices there are."""
        return 0 if self.choices is None else len(self.choices.sizes)

    @property
    def outputs(self) -> int:
        """How many numbers the policy network gives."""
        return sum(part.outputs for part in self.parts)

    @property
    def spreads(self) -> int:
        """How many logarithmic spreads the policy has in addition."""
        return sum(part.spreads for part in self.parts)

    def of_parts(self, parameters: Any) -> list[Any]:
        """Parameters, or what `shown` gives, part by part."""
        return [each for each in self._cut(parameters, 0 if self.choices is None else self.choices.outputs)]

    def _cut(self, values: Any, at: int) -> Iterator[Any]:
        if self.choices is not None:
            yield values[..., :at]
        if self.numbers is not None:
            yield values[..., at:]

    def _actions(self, values: Any) -> list[Any]:
        """Actions, or their random numbers, part by part."""
        return list(self._cut(values, self.first_number))

    def _joined(self, actions: list[Array]) -> Array:
        # Indices are exact in a float32 up to 2^24.
        dtype = jnp.int32 if self.numbers is None else jnp.float32
        return jnp.concatenate([each.astype(dtype) for each in actions], axis=-1)

    def chance(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*batch entries"]:
        """The random numbers of actions, drawn beforehand."""
        keys = jax.random.split(key, len(self.parts))
        drawn = [part.chance(k, shape) for part, k in zip(self.parts, keys, strict=True)]
        return jnp.concatenate(drawn, axis=-1)

    def choose(self, parameters: Float[Array, "*batch all"], chance: Float[Array, "*batch entries"]) -> Array:
        """Each part drawn with its own random numbers."""
        part_inputs = zip(self.parts, self.of_parts(parameters), self._actions(chance), strict=True)
        return self._joined([part.choose(*each) for part, *each in part_inputs])

    def mode(self, parameters: Float[Array, "*batch all"]) -> Num[Array, "*batch entries"]:
        """The most likely index of each choice, and the means."""
        return self._joined([part.mode(each) for part, each in zip(self.parts, self.of_parts(parameters), strict=True)])

    def log_probability(self, parameters: Float[Array, "*batch all"], actions: Array) -> Float[Array, "*batch"]:
        """The logarithm of the probability of the choices times the density of the numbers."""
        total = jnp.zeros(actions.shape[:-1])
        for part, own, taken in zip(self.parts, self.of_parts(parameters), self._actions(actions), strict=True):
            taken = taken.astype(jnp.int32) if isinstance(part, MultiCategorical) else taken
            total = total + part.log_probability(own, taken)
        return total

    def negentropy(self, parameters: Float[Array, "*batch all"]) -> Float[Array, "*batch"]:
        """The sum over all parts."""
        each = [part.negentropy(own) for part, own in zip(self.parts, self.of_parts(parameters), strict=True)]
        return functools.reduce(jnp.add, each)

    def shown(self, parameters: Float[Array, "*batch all"]) -> Float[Array, "*batch all"]:
        """The policy as people are shown it: probabilities of the choices, then means, then spreads."""
        each = [part.shown(own) for part, own in zip(self.parts, self.of_parts(parameters), strict=True)]
        return jnp.concatenate(each, axis=-1)

    def in_units(self, shown: Float[np.ndarray, "*batch all"]) -> Float[np.ndarray, "*batch all"]:
        """What `shown` gives, with means and spreads in the units of the world."""
        each = [part.in_units(own) for part, own in zip(self.parts, self.of_parts(shown), strict=True)]
        return np.concatenate(each, axis=-1)

    def none(self, *shape: int) -> Num[Array, "*batch entries"]:
        """The placeholder before the first action: no choice, and zeros."""
        return self._joined([part.none(*shape) for part in self.parts])

    def to_world(self, actions: Num[Array, "*batch entries"]) -> dict[str, Any]:
        """The actions as the world takes them: dictionaries of arrays `[*batch, ...]`."""
        choices = actions[..., : self.first_number].astype(jnp.int32)
        numbers = choices if self.numbers is None else self.numbers.to_world(actions[..., self.first_number :])
        return self._record(
            self.space, iter(range(choices.shape[-1])), choices, iter(range(numbers.shape[-1])), numbers
        )

    def _record(
        self, space: Space, choice: Iterator[int], choices: Array, number: Iterator[int], numbers: Array
    ) -> Any:
        match space:
            case Record():
                rest = choice, choices, number, numbers
                return {name: self._record(part, *rest) for name, part in space.items()}
            case Discrete():
                return choices[..., next(choice)]
            case MultiDiscrete():
                return jnp.stack([choices[..., next(choice)] for _ in space.sizes], axis=-1)
        places = [next(number) for _ in range(math.prod(space.shape))]
        return numbers[..., np.asarray(places, int)].reshape(*numbers.shape[:-1], *space.shape)

    def draw(self, shown: Float[np.ndarray, "all"], generator: np.random.Generator | None) -> Any:
        """An action from what `shown` gives: drawn with the generator, or without one the most likely."""
        each = [part.draw(own, generator) for part, own in zip(self.parts, self.of_parts(shown), strict=True)]
        return np.concatenate(each).astype(np.int32 if self.numbers is None else np.float32)


Distribution = Categorical | Greedy | MultiCategorical | Gaussian | JointActions


def distribution_over(actions: Space) -> Distribution:
    """The distribution over an action space."""
    if problem := action_problem(actions):
        raise ValueError(f"these actions have no policy: {problem}")
    if isinstance(actions, Discrete):
        return Categorical(actions.n)
    if isinstance(actions, MultiDiscrete):
        return MultiCategorical(actions.sizes)
    if isinstance(actions, Box):
        return Gaussian(actions)
    assert isinstance(actions, Record)
    return JointActions(actions)


def greedy_over(actions: Space) -> Greedy:
    """The policy of a learner of action values, which need actions that can be listed; see `listing_problem`."""
    if problem := listing_problem(actions):
        raise ValueError(f"action values need a list of actions, but {problem}")
    assert isinstance(actions, Discrete)
    return Greedy(actions.n)


def listing_problem(actions: Space) -> str | None:
    """Why actions cannot be listed, or None if they can; dqn and its variants need a value for each."""
    if isinstance(actions, Discrete):
        return None
    return "its actions have several parts" if isinstance(actions, Record) else "its actions are vectors"
