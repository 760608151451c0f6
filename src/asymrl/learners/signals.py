"""The signals that a privileged critic reads along an episode.

The state, a part of it, a group of the observation, the belief, a sampled state, the time.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num, PRNGKeyArray

from asymrl.worlds.critic_inputs import (
    BELIEF,
    OBSERVATION,
    SAMPLED_STATE,
    TIME,
    BeliefFilter,
    critic_meanings,
    input_names,
    observation_groups,
)
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.spaces import Discrete, Record, Simplex, Space
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World

if TYPE_CHECKING:
    from asymrl.settings import Settings


class CriticSignal(eqx.Module):
    """What a critic reads at each step of some episodes, besides the history.

    Arrays are `[time, episode, ...]`. They may hold whole episodes, or streams in which episodes follow one another;
    `first` marks where one begins.
    """

    @property
    @abc.abstractmethod
    def space(self) -> Space:
        """The space of the signal at one step."""

    @property
    def random(self) -> bool:
        """Whether it depends on the key."""
        return False

    def initial(self, episodes: int) -> Any:
        """What is carried from one call of `follow` to the next, before the first one."""
        return None

    @abc.abstractmethod
    def follow(
        self,
        key: PRNGKeyArray | None,
        carry: Any,
        first: Bool[Array, "time episode"],
        before: Num[Array, "time episode *action"],
        observations: Any,
        states: Any,
        times: Int[Array, "time episode"],
    ) -> tuple[Any, Any]:
        """The signal at each step.

        Args:
            key: for signals that are random; what is drawn at a step does not depend on how many steps follow.
            carry: what the call before returned, or `initial`.
            first: whether an episode begins at this step; what was carried is forgotten there.
            before: the action before each observation; arbitrary where there was none.
            observations: of the world.
            states: of the world, not their latents.
            times: how many actions came before in the episode.

        Returns:
            The next carry, and the signal `[time, episode, ...]`.
        """


class StateSignal(CriticSignal):
    """`state`, or a part of it that the world names."""

    env: World
    name: str = eqx.field(static=True)

    @property
    def space(self) -> Space:
        return self.env.signals()[self.name].space

    def follow(
        self, key: Any, carry: Any, first: Any, before: Any, observations: Any, states: Any, times: Any
    ) -> tuple[Any, Any]:
        of = self.env.signals()[self.name].of
        return carry, jax.vmap(jax.vmap(lambda state: of(self.env.latent(state))))(states)


class ObservationSignal(CriticSignal):
    """A group of the observation, which the actor may see or not."""

    name: str = eqx.field(static=True)
    group: Space = eqx.field(static=True)

    @property
    def space(self) -> Space:
        return self.group

    def follow(
        self, key: Any, carry: Any, first: Any, before: Any, observations: Any, states: Any, times: Any
    ) -> tuple[Any, Any]:
        return carry, observations[self.name]


class TimeSignal(CriticSignal):
    """`time`: how many actions came before."""

    time_limit: int = eqx.field(static=True)

    @property
    def space(self) -> Discrete:
        return Discrete(self.time_limit + 1)

    def follow(
        self, key: Any, carry: Any, first: Any, before: Any, observations: Any, states: Any, times: Any
    ) -> tuple[Any, Any]:
        return carry, jnp.clip(times, 0, self.time_limit).astype(jnp.int32)


class BeliefSignal(CriticSignal):
    """`belief`: b(h), by the exact filter. Zeros from the first impossible observation to the end of the episode."""

    filter: BeliefFilter

    @property
    def space(self) -> Simplex:
        return Simplex(self.filter.start.shape)

    def initial(self, episodes: int) -> Float[Array, "episode S"]:
        start = jnp.asarray(self.filter.start, jnp.float32)
        return jnp.broadcast_to(start, (episodes, *start.shape))

    def follow(
        self, key: Any, carry: Any, first: Any, before: Any, observations: Any, states: Any, times: Any
    ) -> tuple[Float[Array, "episode S"], Float[Array, "time episode S"]]:
        def one(belief: Array, first: Array, previous_action: Array, observation: Array) -> Array:
            following, _ = self.filter(belief, jnp.maximum(previous_action, 0), observation)
            return jnp.where(first, self.filter.begin(observation), following)

        def step(beliefs: Array, inputs: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            beliefs = jax.vmap(one)(beliefs, *inputs)
            return beliefs, beliefs

        return jax.lax.scan(step, carry, (first, before, observations))


class SampledStateSignal(CriticSignal):
    """`sampled-state`: s ~ b(h), drawn anew at each step."""

    belief: BeliefSignal
    latents: Discrete = eqx.field(static=True)

    @property
    def space(self) -> Discrete:
        return self.latents

    @property
    def random(self) -> bool:
        return True

    def initial(self, episodes: int) -> Float[Array, "episode S"]:
        return self.belief.initial(episodes)

    def follow(
        self, key: Any, carry: Any, first: Any, before: Any, observations: Any, states: Any, times: Any
    ) -> tuple[Float[Array, "episode S"], Int[Array, "time episode"]]:
        carry, beliefs = self.belief.follow(None, carry, first, before, observations, states, times)
        keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(beliefs.shape[0]))
        u = jax.vmap(lambda key: jax.random.uniform(key, beliefs.shape[1:2]))(keys)
        return carry, draw_states(beliefs, u)


class JointSignal(CriticSignal):
    """Several signals side by side, such as `state+time`."""

    names: tuple[str, ...] = eqx.field(static=True)
    parts: tuple[CriticSignal, ...]

    @property
    def space(self) -> Record:
        return Record(tuple((name, part.space) for name, part in zip(self.names, self.parts, strict=True)))

    @property
    def random(self) -> bool:
        return any(part.random for part in self.parts)

    def initial(self, episodes: int) -> tuple[Any, ...]:
        return tuple(part.initial(episodes) for part in self.parts)

    def follow(
        self, key: Any, carry: Any, first: Any, before: Any, observations: Any, states: Any, times: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        episodes = first, before, observations, states, times
        followed = [part.follow(key, own, *episodes) for part, own in zip(self.parts, carry, strict=True)]
        values = {name: value for name, (_, value) in zip(self.names, followed, strict=True)}
        return tuple(own for own, _ in followed), values


def critic_signal(env: World, settings: Settings) -> CriticSignal:
    """The signal that the privileged critics of these settings read.

    Raises:
        ValueError: if the world does not offer it; the message lists what it does.
    """
    names = critic_names(env, settings)
    parts = tuple(_signal_named(env, settings, name) for name in names)
    return parts[0] if len(parts) == 1 else JointSignal(names, parts)


def critic_names(env: World, settings: Settings) -> tuple[str, ...]:
    """The names of the signals that the privileged critics of these settings read.

    Where the actor sees some groups of the observation and there is no state, the critic sees all groups by default.
    """
    missing = isinstance(env, SteppedWorld) and env.without_latent
    meanings = critic_meanings(env)
    if missing and settings.actor_sees is not None and settings.critic_sees == "state":
        groups = observation_groups(env)
        return tuple(f"{OBSERVATION}{name}" if f"{OBSERVATION}{name}" in meanings else name for name in groups)
    return input_names(settings.critic_sees, meanings, env.name)


def needs_state(env: World, settings: Settings) -> bool:
    """Whether the critic reads the state or a part of it."""
    return "s" in settings.how.reads and any(name in env.signals() for name in critic_names(env, settings))


def _signal_named(env: World, settings: Settings, name: str) -> CriticSignal:
    if name == TIME:
        return TimeSignal(settings.horizon)
    if name not in (BELIEF, SAMPLED_STATE):
        group = name.removeprefix(OBSERVATION)
        if name in env.signals():
            return StateSignal(env, name)
        return ObservationSignal(group, observation_groups(env)[group])
    assert isinstance(env, FiniteWorld)
    belief = BeliefSignal(BeliefFilter(env.pomdp()))
    return belief if name == BELIEF else SampledStateSignal(belief, env.latent_space)


def draw_states(beliefs: Float[Array, "*batch S"], u: Float[Array, "*batch"]) -> Int[Array, "*batch"]:
    """A state drawn from each belief with a uniform number; never one of probability 0, unless all are."""
    cumulative = jnp.cumsum(beliefs, axis=-1)
    mask = (cumulative > u[..., None] * cumulative[..., -1:]) & (beliefs > 0)
    # Rounding may leave nothing above u; the likeliest state is then as good as any.
    return jnp.where(mask.any(-1), jnp.argmax(mask, axis=-1), jnp.argmax(beliefs, axis=-1)).astype(jnp.int32)
