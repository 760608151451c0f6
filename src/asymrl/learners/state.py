"""The whole state of a run: networks, optimisers, counters, randomness and its curve so far."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from asymrl.learners.numbers import Numbers
from asymrl.learners.signals import critic_signal, needs_state
from asymrl.nn.agent import Actor, Critic
from asymrl.nn.architecture import Architecture
from asymrl.nn.distributions import listing_problem
from asymrl.settings import Settings
from asymrl.worlds.allowed_code import load_class
from asymrl.worlds.critic_inputs import actor_space
from asymrl.worlds.registry import make
from asymrl.worlds.repeated import repeated
from asymrl.worlds.spaces import size_of
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World

BETWEEN_UPDATES = -1  # `drawn` of a run of DQN that is not in the middle of an update
RECENT = 100  # episodes whose mean return is the learning curve, as in the paper

METRICS = (
    "timestep",
    "episode",
    "update",
    "return",
    "length",
    "critic_loss",
    "policy_loss",
    "negentropy_loss",
    "negentropy_weight",
    "critic_gradient_norm",
    "actor_gradient_norm",
    "evaluation_return",
    "evaluation_length",
)


if TYPE_CHECKING:
    from asymrl.learners.normalised import Statistics


class RunState(eqx.Module):
    """One run, or with a leading axis on every array, a batch of them. A learner adds what else it needs."""

    actor: Actor  # acts; for learners of action values, Q(h, a)
    critic: Any  # what reads the privileged signal: a `Critic`, or None where a learner has none
    key: PRNGKeyArray
    updates: Int[Array, "*run"]
    timesteps: Int[Array, "*run"]
    episodes: Int[Array, "*run"]
    next_log: Int[Array, "*run"]
    logged: Int[Array, "*run"]
    recent_returns: Float[Array, "*run recent"]
    recent_lengths: Float[Array, "*run recent"]
    curve: Float[Array, "*run points metrics"]
    solved: Bool[Array, "*run"]  # whether the recent returns reached `stop_return`; the run is then complete
    statistics: Statistics | None  # that inputs and rewards are normalised with; None: they are not
    failed: Bool[Array, "*run"]  # whether a loss, a gradient or a parameter was not finite; the run then stops

    if TYPE_CHECKING:
        # Which learner's state it is, is known only at run time.
        def __getattr__(self, name: str) -> Any: ...


def named_world(settings: Settings) -> World:
    """The world that the settings name, with their time limit; actions are not repeated in it."""
    # Settings may come from somebody else's file: code that they name is not imported unless the user allows it.
    return make(settings.world, trust=False, time_limit=settings.time_limit)


def training_world(settings: Settings, env: World | None = None) -> World:
    """The world of a run, with its time limit and its repeated actions: the one that the settings name, or `env`.

    `env` must have the time limit already, but not the repeated actions.
    """
    env = named_world(settings) if env is None else env
    if env.time_limit != settings.time_limit:
        limits = f"{env.name} has time_limit {env.time_limit}, the settings have {settings.time_limit}"
        raise ValueError(f"{limits}; give both the same")
    if settings.how.learner == "dqn" and (problem := listing_problem(env.action_space)):
        raise ValueError(f"{settings.method} needs a list of actions in {env.name}, but {problem}; use a2c or ppo")
    if isinstance(env, SteppedWorld) and env.without_latent and needs_state(env, settings):
        raise ValueError(f"{settings.method} needs a latent state. {env.without_latent}")
    actor_space(env, settings.actor_sees)  # raises if the world does not show that
    env = repeated(env, settings.action_repeat)
    critic_signal(env, settings)  # raises if the world does not offer what the critic reads
    return env


def numbers_read(settings: Settings) -> int:
    """How many numbers actor and critic read at each step: a rough measure of how long a step takes."""
    env = training_world(settings)
    seen, signal = size_of(actor_space(env, settings.actor_sees)), size_of(critic_signal(env, settings).space)
    return seen + seen * ("h" in settings.how.reads) + signal * ("s" in settings.how.reads)


def counters(settings: Settings, key: PRNGKeyArray) -> dict[str, Any]:
    """The fields of a new run that are the same for all learners. `key`: for what is random in its updates."""
    zero = jnp.int32(0)
    return {
        "key": key,
        "updates": zero,
        "timesteps": zero,
        "episodes": zero,
        "next_log": zero,
        "logged": zero,
        "recent_returns": jnp.zeros(RECENT),
        "recent_lengths": jnp.zeros(RECENT),
        "curve": jnp.full((settings.log_points + 1, len(METRICS)), np.nan, jnp.float32),
        "solved": jnp.bool_(False),
        "failed": jnp.bool_(False),
        "statistics": None,
    }


def architecture_of(settings: Settings) -> Architecture:
    """The architecture of the networks, ready to be built, with user-defined classes if the settings name any."""
    return replace(settings.architecture, load=load_class)


def new_networks(
    env: World, settings: Settings, actor_key: PRNGKeyArray, critic_key: PRNGKeyArray
) -> tuple[Actor, Critic]:
    """A policy of the history, and a value of what the method's critic reads."""
    architecture = architecture_of(settings)
    spaces = (env.action_space, actor_space(env, settings.actor_sees))
    signal = critic_signal(env, settings).space
    critic = Critic(critic_key, *spaces, signal, settings.how.reads, architecture)
    return Actor(actor_key, *spaces, architecture), critic


def keys_of(runs: RunState) -> PRNGKeyArray:
    """The keys of the next update of each run, `[run]`."""
    return jax.vmap(jax.random.fold_in)(runs.key, runs.updates)


def is_active(runs: RunState, numbers: Numbers) -> Bool[Array, "*run"]:
    """Whether a run, or which of several, still trains."""
    return (runs.timesteps < numbers.steps) & ~runs.solved & ~runs.failed


def where_on(on: Bool[Array, ""], new: Any, old: Any) -> Any:
    """The arrays of `new` if the run is `on`, else those of `old`."""
    return jax.tree.map(lambda new, old: jnp.where(on, new, old) if eqx.is_array(new) else new, new, old)


def parameters(model: PyTree) -> int:
    """How many numbers a model learns."""
    return sum(leaf.size for leaf in jax.tree.leaves(model) if eqx.is_array_like(leaf) or hasattr(leaf, "size"))
