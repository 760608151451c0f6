"""One episode of a trained run in detail: states, observations, how likely the actions were, their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, PRNGKeyArray

from asymrl.learners.collector import play
from asymrl.learners.episodes import Episodes
from asymrl.learners.signals import CriticSignal, critic_signal
from asymrl.nn.agent import Actor, Critic
from asymrl.nn.distributions import Categorical, Distribution, Greedy, JointActions, MultiCategorical
from asymrl.settings import Settings
from asymrl.worlds.critic_inputs import critic_symbol
from asymrl.worlds.name_options import split_names
from asymrl.worlds.world import World


class Playback(NamedTuple):
    """An episode of T steps. Arrays `[T + 1, ...]` also have a last entry, for what came after the last action."""

    states: Any  # [T + 1, ...]
    observations: Any  # [T + 1, ...], the parts that the actor sees
    actions: Num[np.ndarray, "T *size"]
    rewards: Float[np.ndarray, "T"]
    policy: Float[np.ndarray, "T numbers"]
    """From `distribution.shown`: probabilities of the actions, action values, or means and spreads."""
    values: Float[np.ndarray, "T"]
    truncated: bool
    critic: str
    """What the critic is, such as V(h), V(s) or V(h, b)."""
    discount: float
    distribution: Distribution
    """Of the actions; numbers in `actions` are in coordinates where -1 and 1 are the bounds, see `taken`."""

    frames: Sequence[Any] | None = None
    """The environment's own pictures, `[H, W, 3]` each, at T + 1 moments, where they were taken."""

    def returns_to_go(self) -> Float[np.ndarray, "T"]:
        """The discounted sum of the rewards from each step on: what the critic should have said."""
        to_go, after = np.zeros(len(self.rewards)), 0.0
        for t in reversed(range(len(self.rewards))):
            to_go[t] = after = self.rewards[t] + self.discount * after
        return to_go

    def taken(self, t: int) -> Any:
        """The action of step `t` as the world took it: in its units, within its bounds."""
        if isinstance(self.distribution, Categorical | Greedy | MultiCategorical):
            return self.actions[t]
        return jax.tree.map(np.asarray, self.distribution.to_world(jnp.asarray(self.actions[t])))

    def entries(self, t: int) -> tuple[list[np.ndarray], list[tuple[float, float]]]:
        """The policy at step `t`, entry by entry: the probabilities of each choice, mean and spread of each number.

        Means and spreads are in the units of the world, means within its bounds. Not for a single choice.
        """
        kind, shown = self.distribution, self.distribution.in_units(self.policy[t])
        parts = (
            zip(kind.parts, kind.of_parts(shown), strict=True) if isinstance(kind, JointActions) else [(kind, shown)]
        )
        choices, numbers = [], []
        for part, own in parts:
            if isinstance(part, MultiCategorical):
                choices = part.split(own)
            else:
                numbers = [(float(mean), float(spread)) for mean, spread in zip(*np.split(own, 2), strict=True)]
        return choices, numbers

    def at(self, t: int) -> tuple[Any, Any]:
        """State and observation after `t` actions."""
        return jax.tree.map(lambda leaf: leaf[t], (self.states, self.observations))


def critic_name(settings: Settings) -> str:
    """What the critic of a run is: V(h), V(s) or V(h, s), with the symbols of what it sees in place of s.

    For a learner of action values it is Q(h, s, a) or similar.
    """
    reads = settings.how.reads
    symbol = critic_symbol(settings.critic_sees if "s" in reads else "", "h" in reads)
    return f"Q{symbol[1:-1]}, a)" if settings.how.learner == "dqn" else symbol


def play_back(
    env: World, settings: Settings, actor: Actor, critic: Critic | None, *, seed: int = 0, greedy: bool = False
) -> Playback:
    """Plays an episode with the actor of one run and evaluates each step with its critic.

    Without a critic, the actor values its actions itself.
    """
    one_run = jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, actor)
    batch = play(env, one_run, jax.random.key(seed)[None], jnp.ones(1, bool), episodes=1, greedy=greedy)
    timed = jax.tree.map(lambda leaf: leaf[:, 0], batch[:5])
    episode = Episodes._make([*timed, batch.lengths[0], batch.truncated[0]])
    # Made here, since the tables of a world are not known inside a compiled function that is given the world.
    signal = critic_signal(env, settings) if "s" in settings.how.reads else None
    critic = None if critic is None else critic.with_history(actor)
    policy, values = jax.device_get(_judge(actor, critic, episode, signal, jax.random.key(seed)))
    episode = jax.device_get(episode)
    T = int(episode.lengths[0])
    states, observations = jax.tree.map(lambda leaf: leaf[: T + 1, 0], (episode.states, episode.observations))
    if settings.actor_sees is not None:
        observations = {name: observations[name] for name in split_names(settings.actor_sees)}
    return Playback(
        states=states,
        observations=observations,
        actions=episode.actions[:T, 0],
        rewards=episode.rewards[:T, 0],
        policy=policy[:T, 0],
        values=values[:T, 0],
        truncated=bool(episode.truncated[0]),
        critic=critic_name(settings),
        discount=settings.discount,
        distribution=actor.distribution,
    )


@eqx.filter_jit
def _judge(
    actor: Actor, critic: Critic | None, episode: Episodes, signal: CriticSignal | None, key: PRNGKeyArray
) -> tuple[Float[Array, "time 1 numbers"], Float[Array, "time 1"]]:
    """The policy at each step of an episode, and the value there, or that of the action taken."""
    with jax.default_matmul_precision("highest"):
        signal_values, previous_actions = None, episode.before(actor.distribution)
        if signal is not None:
            times = jnp.arange(previous_actions.shape[0])[:, None]
            whole = times == 0, previous_actions, episode.observations, episode.states, times
            _, signal_values = signal.follow(key, signal.initial(1), *whole)
        parameters = actor.policy(episode.features)
        values = (
            parameters
            if critic is None
            else critic.in_rewards(critic(previous_actions, episode.observations, signal_values))
        )
        if values.ndim > 2:
            values = jnp.take_along_axis(values[: episode.actions.shape[0]], episode.actions[..., None], axis=-1)[
                ..., 0
            ]
        return actor.distribution.shown(parameters), values
