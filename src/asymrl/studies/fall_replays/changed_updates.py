"""Updates of A2C with one thing changed: what a replay of a fall needs, and what is measured in each update.

A replay starts from the whole training state of a run. Everything that it may change is a number, so that all replays
share one compiled program, and a replay that changes nothing repeats the run bit for bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asymrl.learners.a2c import A2CState, critic_gradient, policy_gradient, values_and_estimates
from asymrl.learners.bucket import in_bucket
from asymrl.learners.compiling import compiler_options, precision
from asymrl.learners.curve import count
from asymrl.learners.episodes import RUN_AXIS, Episodes, TrainingBatch, training_batch
from asymrl.learners.key_purposes import OTHER_RUNS
from asymrl.learners.numbers import Numbers, stack_numbers
from asymrl.learners.optimiser import descend, norm_of
from asymrl.learners.program import Program
from asymrl.learners.rollout import roll_out
from asymrl.learners.signals import critic_signal
from asymrl.learners.state import keys_of
from asymrl.learners.targets import update_target
from asymrl.nn.agent import Actor, Critic
from asymrl.settings import A2CSettings

CHUNK = 50  # the most updates of one call; as many as 100 episodes

# What training does and a replay does not; other settings than the defaults would have no effect.
IGNORED = (
    "start_from",
    "stop_return",
    "critic_first",
    "evaluation_episodes",
    "normalise_observations",
    "normalise_rewards",
)
# Settings whose place is taken by numbers of `Change`.
REPLACED = {
    "target_period": "target_period",
    "clip_norm": "actor_clip and critic_clip",
    "adam_eps": "actor_eps and critic_eps",
    "adam_beta2": "actor_new_square and critic_new_square",
}


class Change(NamedTuple):
    """What a replay does differently: one number each, `[run]` inside the program. The defaults change nothing."""

    actor_speed: Any = 1.0
    """Factor on the learning rate of the actor; 0 freezes it."""
    critic_speed: Any = 1.0
    actor_clip: Any = np.inf
    """Largest norm of the actor's gradient."""
    critic_clip: Any = np.inf
    actor_new_square: Any = 0.001
    """1 - beta2 of the actor's Adam."""
    critic_new_square: Any = 0.001
    actor_eps: Any = 1e-4
    critic_eps: Any = 1e-4
    keep_largest: Any = False
    """Whether Adam's mean of squares may not become smaller, in both networks, as in AMSGrad."""
    entropy_factor: Any = 1.0
    """Factor on the weight of the entropy."""
    advantage_limit: Any = np.inf
    """Advantages are clipped to plus and minus this."""
    normalise: Any = False
    """Whether advantages are divided by their root mean square in the update instead."""
    skip_below: Any = -np.inf
    """Updates with an episode whose return is below this change no network."""
    target_period: Any = 10_000


def measured_update(
    program: Program, numbers: Numbers, change: Change, arrays: A2CState
) -> tuple[A2CState, dict[str, Array]]:
    """One update of each run, and what happened in it, `[run]`. Without changes, the update of `learning/a2c.py`."""
    settings: Any = program.settings
    runs: Any = eqx.combine(arrays, program.static)
    active = jnp.ones(runs.updates.shape, bool)
    episodes = roll_out(program.world, runs.actor, keys_of(runs), active, episodes=settings.episodes)
    returns = jax.vmap(Episodes.returns, (RUN_AXIS,))(episodes)
    counted = eqx.filter_vmap(count, in_axes=(eqx.if_array(0), RUN_AXIS, 0))(runs, episodes, active)
    numbers = numbers.replaced(target_period=change.target_period)

    def moved_target(run: A2CState, numbers: Numbers) -> Any:
        return update_target(run.critic, run.target, settings, numbers, run.timesteps, run.next_target, jnp.bool_(True))

    def over_runs(one: Any, models: tuple[Any, ...], others: tuple[Any, ...]) -> Any:
        def of_run(episodes: Episodes, arguments: tuple[Any, ...]) -> Any:
            models, others = arguments
            return in_bucket(one, settings.horizon, jnp.max(episodes.lengths), *models, episodes, *others)

        return eqx.filter_vmap(of_run, in_axes=(RUN_AXIS, eqx.if_array(0)))(episodes, (models, others))

    target, next_target = eqx.filter_vmap(moved_target)(counted, numbers)
    learns = active & (returns.min(axis=1) >= change.skip_below)

    def towards_target(length: int, critic: Any, target: Any, episodes: Episodes, numbers: Numbers) -> Any:
        return critic_gradient(
            critic, target, training_batch(program.world, settings, episodes, length), settings, numbers
        )

    loss, gradient = over_runs(towards_target, (counted.critic, target), (numbers,))
    own = numbers.replaced(
        clip_norm=change.critic_clip, adam_new_square=change.critic_new_square, adam_eps=change.critic_eps
    )
    critic, critic_adam, critic_norm, _ = eqx.filter_vmap(descend)(
        counted.critic, gradient, counted.critic_adam, numbers.critic_rate * change.critic_speed, learns, own
    )

    def along_policy(length: int, actor: Any, critic: Any, episodes: Episodes, *others: Any) -> Any:
        return actor_gradient(
            actor, critic, training_batch(program.world, settings, episodes, length), settings, *others
        )

    weights = numbers.entropy_weight * change.entropy_factor
    (negentropy, signals), gradient = over_runs(along_policy, (counted.actor, critic), (numbers, weights, change))
    own = numbers.replaced(
        clip_norm=change.actor_clip, adam_new_square=change.actor_new_square, adam_eps=change.actor_eps
    )
    actor, actor_adam, actor_norm, _ = eqx.filter_vmap(descend)(
        counted.actor, gradient, counted.actor_adam, numbers.actor_rate * change.actor_speed, learns, own
    )
    critic_adam, actor_adam = (
        eqx.tree_at(lambda adam: adam.nu, new, largest(new.nu, old.nu, change.keep_largest))
        for new, old in ((critic_adam, counted.critic_adam), (actor_adam, counted.actor_adam))
    )
    new = eqx.tree_at(
        lambda r: (r.actor, r.critic, r.target, r.next_target, r.actor_adam, r.critic_adam, r.updates),
        counted,
        (actor, critic, target, next_target, actor_adam, critic_adam, counted.updates + 1),
    )
    measured = {
        "update": new.updates,
        "timestep": new.timesteps,
        "lowest_return": returns.min(axis=1),
        "mean_return": returns.mean(axis=1),
        "steps": episodes.lengths.sum(axis=1),
        "copied": next_target != counted.next_target,
        "critic_loss": loss,
        "critic_gradient_norm": critic_norm,
        "actor_gradient_norm": actor_norm,
        "entropy": -negentropy / episodes.lengths.mean(axis=1),
        **signals,
        "critic_step_norm": distance(critic, counted.critic),
        "actor_step_norm": distance(actor, counted.actor),
        "critic_root": root_mean(critic_adam.nu),
        "actor_root": root_mean(actor_adam.nu),
    }
    return eqx.filter(new, eqx.is_array), measured


def actor_gradient(
    actor: Actor,
    critic: Critic,
    data: TrainingBatch,
    settings: A2CSettings,
    numbers: Numbers,
    weight: Float[Array, ""],
    change: Change,
) -> tuple[tuple[Float[Array, ""], dict[str, Array]], Actor]:
    """Negative entropy, what the advantages are, and the gradient of the actor's loss with changed advantages."""
    values, q = values_and_estimates(critic, data, settings, numbers)
    advantages = jnp.where(data.valid, q - values, 0.0)
    root = jnp.sqrt(jnp.sum(advantages**2) / jnp.sum(data.valid))
    used = jnp.clip(advantages, -change.advantage_limit, change.advantage_limit)
    used = jnp.where(change.normalise, advantages / (root + 1e-8), used)
    (_, negentropy), gradient = policy_gradient(actor, data, used, weight, numbers)
    signals = {
        "advantage_root": root,
        "advantage_largest": jnp.abs(advantages).max(),
        "first_value": values[0].mean(),
        "lowest_value": jnp.min(jnp.where(data.valid, values, jnp.inf)),
    }
    return (negentropy, signals), gradient


def largest(new: Any, old: Any, keep: Bool[Array, "run"]) -> Any:
    """The larger of both where `keep`, else the new."""
    return jax.tree.map(lambda n, o: jnp.where(keep.reshape(-1, *[1] * (n.ndim - 1)), jnp.maximum(n, o), n), new, old)


def distance(new: Any, old: Any) -> Float[Array, "run"]:
    """The norm of the difference of two networks."""
    arrays = (eqx.filter(each, eqx.is_array) for each in (new, old))
    return jax.vmap(norm_of)(jax.tree.map(jnp.subtract, *arrays))


def root_mean(tree: Any) -> Float[Array, "run"]:
    """The root of the mean of all entries."""
    leaves = jax.tree.leaves(tree)
    total = sum(leaf.reshape(leaf.shape[0], -1).sum(axis=1) for leaf in leaves)
    return jnp.sqrt(total / sum(leaf[0].size for leaf in leaves))


class Replayer:
    """Continues one run from any of its states, changed or not, in one compiled program.

    It goes on for as many updates as it is asked for, whatever the `steps` of the settings, and writes no curve.
    """

    def __init__(self, settings: A2CSettings):
        """Raises ValueError for settings that a replay would ignore."""
        check_settings(settings)
        self.program = Program(settings)
        if critic_signal(self.program.world, settings).random and "s" in settings.how.reads:
            raise ValueError(f"critic_sees is {settings.critic_sees}; replays cannot draw it, so choose another")
        self.numbers = stack_numbers([settings])
        options = compiler_options(jax.default_backend())
        self._run = jax.jit(self._updates, compiler_options=options)

    def start(self, seed: int) -> A2CState:
        """The arrays of a new run `[1, ...]`."""
        return eqx.filter(self.program.start([seed]), eqx.is_array)

    def train(
        self, arrays: A2CState, updates: int = CHUNK, change: Change | None = None, **numbers: float
    ) -> tuple[A2CState, dict[str, np.ndarray]]:
        """The run after so many updates, at most `CHUNK`, and what was measured in each, `[update]`.

        `numbers` replace those of the settings. The weight of the entropy is constant in a call: if the settings have
        a schedule, the caller has to say what it is.
        """
        schedule = self.program.settings.entropy_schedule
        if schedule != "constant" and "entropy_weight" not in numbers:
            raise ValueError(
                f"entropy_schedule is {schedule}, which replays ignore; pass entropy_weight, or make it constant"
            )
        change = Change() if change is None else change
        own = self.numbers.replaced(**{name: np.asarray([x], np.float32) for name, x in numbers.items()})
        kinds = {"keep_largest": bool, "normalise": bool, "target_period": np.int32}
        changed = Change(
            *(np.asarray([x], kinds.get(name, np.float32)) for name, x in zip(Change._fields, change, strict=True))
        )
        with precision(self.program.settings):
            arrays, table = self._run(arrays, own, changed, np.int32(updates))
        return arrays, {name: np.asarray(column[:updates, 0]) for name, column in table.items()}

    def _updates(
        self, arrays: A2CState, numbers: Numbers, change: Change, updates: Int[Array, ""]
    ) -> tuple[A2CState, dict[str, Array]]:
        def once(i: Int[Array, ""], loop: Any) -> Any:
            arrays, table = loop
            arrays, row = measured_update(self.program, numbers, change, arrays)
            return arrays, {name: table[name].at[i].set(row[name]) for name in table}

        shapes = jax.eval_shape(lambda a: measured_update(self.program, numbers, change, a)[1], arrays)
        table = {name: jnp.zeros((CHUNK, *each.shape), each.dtype) for name, each in shapes.items()}
        return jax.lax.fori_loop(0, updates, once, (arrays, table))


def check_settings(settings: A2CSettings) -> None:
    """Raises ValueError if a setting that replays ignore is not the default."""
    for name in (*IGNORED, *REPLACED):
        value, default = getattr(settings, name), getattr(A2CSettings, name)
        if value != default:
            instead = f" and change {REPLACED[name]}" if name in REPLACED else ""
            raise ValueError(f"{name} is {value}, which replays ignore; leave it at {default}{instead}")


def with_key(arrays: A2CState, number: int) -> A2CState:
    """The run with other random numbers from here on; 0: its own."""
    if not number:
        return arrays
    keys = jax.vmap(lambda key: jax.random.fold_in(key, OTHER_RUNS + number))(arrays.key)
    return eqx.tree_at(lambda a: a.key, arrays, keys)
