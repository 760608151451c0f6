"""Deep Q-learning from histories, with or without a privileged network: DQN, ADQN and its variants.

An update simulates one episode, exploring with probability epsilon, adds it to the replay, moves the target networks if
that is due, then takes gradient steps until the run has learned from `train_ratio` steps for each simulated step. The
first episodes only fill the replay, with random actions. See `q_losses` for what tells the variants apart.

A long episode needs many gradient steps, and more still if the drawn episodes are short. Runs of a program do not wait
for all others: once a quarter of them have finished their update, these act again while the rest finish theirs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learners.curve import Losses, count, evaluate_if_due, is_solved, write_point
from asymrl.learners.episodes import RUN_AXIS, Episodes, training_batch
from asymrl.learners.key_purposes import REPLAY_DRAWS
from asymrl.learners.lengths import over_runs
from asymrl.learners.numbers import Numbers
from asymrl.learners.optimiser import AdamState, new_adam
from asymrl.learners.q_losses import variant_of
from asymrl.learners.q_networks import QAdams, QNetworks, descend_both, q_gradient
from asymrl.learners.replay import Replay, ReplayLayout
from asymrl.learners.rollout import roll_out
from asymrl.learners.running_statistics import Statistics, new_statistics, with_episodes, with_input_statistics
from asymrl.learners.schedules import scheduled
from asymrl.learners.signals import critic_signal, needs_state, signal_keys
from asymrl.learners.state import BETWEEN_UPDATES, RunState, architecture_of, counters, is_active, is_due, keys_of
from asymrl.learners.targets import update_target
from asymrl.nn.agent import Actor, Critic
from asymrl.nn.distributions import greedy_over
from asymrl.settings import DQNSettings
from asymrl.worlds.critic_inputs import actor_space
from asymrl.worlds.spaces import Discrete
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World

if TYPE_CHECKING:
    from asymrl.learners.collector import Collector

LEFT_BEHIND = 0.75  # share of the runs of a program that may be unfinished when the others continue


class DQNState(RunState):
    """One run of the family, or a batch of them. `actor` is Q(h, a), `critic` the privileged network or None."""

    target: QNetworks
    actor_adam: AdamState  # of both networks, unless there is a `critic_adam`
    critic_adam: AdamState | None
    replay: Replay
    next_target: Int[Array, "*run"]
    statistics: Statistics | None
    owed: Float[Array, "*run"]  # steps that remain to be learned from; below zero if the last draw had more
    drawn: Int[Array, "*run"]  # gradient steps so far of an unfinished update, or BETWEEN_UPDATES

    @property
    def networks(self) -> QNetworks:
        return QNetworks(self.actor, self.critic)

    @property
    def is_unfinished(self) -> Bool[Array, "*run"]:
        """Whether the run is in the middle of an update: it continues learning before it acts again."""
        return self.drawn != BETWEEN_UPDATES


def new_run(env: World, settings: DQNSettings, seed: Int[Array, ""] | int) -> DQNState:
    """A run before its first update. Everything random in it comes from the seed."""
    actor_key, critic_key, train_key = jax.random.split(jax.random.key(seed), 3)
    networks = new_q_networks(env, settings, actor_key, critic_key)
    separate = None if settings.shared_memory else networks.privileged
    return DQNState(
        actor=networks.history,
        critic=networks.privileged,
        target=jax.tree.map(lambda x: x, networks),
        actor_adam=new_adam(networks if separate is None else networks.history),
        critic_adam=None if separate is None else new_adam(separate),
        replay=layout_of(env, settings).empty(),
        next_target=jnp.int32(0),
        statistics=new_statistics(settings, networks.history, networks.privileged),
        owed=jnp.float32(0),
        drawn=jnp.int32(BETWEEN_UPDATES),
        **counters(settings, train_key),
    )


def new_q_networks(env: World, settings: DQNSettings, actor_key: PRNGKeyArray, critic_key: PRNGKeyArray) -> QNetworks:
    """Q(h, a), and the method's privileged network, if it has one."""
    architecture, horizon = architecture_of(settings), settings.horizon + 1
    observed = actor_space(env, settings.actor_sees)
    if isinstance(observed, Discrete) and not settings.shared_memory:
        # The authors' version with separate networks trains the features of the blank symbol.
        observed = replace(observed, blank=False)
    policy = greedy_over(env.action_space)
    actor = Actor(actor_key, env.action_space, observed, architecture, horizon, policy)
    if "s" not in settings.how.reads:
        return QNetworks(actor, None)
    spaces = (env.action_space, observed, critic_signal(env, settings).space)
    return QNetworks(actor, Critic(critic_key, *spaces, settings.how.reads, architecture, horizon, policy.n))


def layout_of(env: World, settings: DQNSettings) -> ReplayLayout:
    """How the replay of a run stores its episodes."""
    return ReplayLayout(env, settings.replay_steps, needs_state(env, settings), settings.bootstrap_truncated)


def update(env: World, settings: DQNSettings, numbers: Numbers, runs: DQNState) -> DQNState:
    """At most one update of each run that is still active; the others stay exactly as they are."""
    acting, keys, epsilon = is_acting(runs, numbers), keys_of(runs), exploration(runs.timesteps, numbers)
    episodes = roll_out(env, runs.actor, keys, acting, episodes=1, epsilon=epsilon)
    evaluated = evaluate_if_due(env, settings, runs, keys, acting & is_due(runs, numbers))
    return update_from(env, settings, numbers, runs, episodes, evaluated)


def is_acting(runs: DQNState, numbers: Numbers) -> Bool[Array, "run"]:
    """Which runs begin an update, with a new episode."""
    return is_active(runs, numbers) & ~runs.is_unfinished


def collect(
    collector: Collector,
    settings: DQNSettings,
    numbers: Numbers,
    runs: DQNState,
    keys: PRNGKeyArray,
    active: Bool[np.ndarray, "run"],
    steps: int | None = None,
) -> Episodes:
    """The episode of an update in a world that runs in Python, or only its first `steps` steps.

    In such worlds every update is finished before the next begins.
    """
    del settings
    epsilon = exploration(runs.timesteps, numbers)
    return collector.collect(runs.actor, keys, active, episodes=1, epsilon=epsilon, steps=steps)


def exploration(timesteps: Int[Array, "run"], numbers: Numbers) -> Float[Array, "run"]:
    """Epsilon, the probability of a random action: 1 while the replay is filled, then by schedule.

    The schedule counts all steps, those of the prefill included, as the authors' later version does.
    """
    start, end, steps = numbers.exploration_start, numbers.exploration_end, numbers.exploration_steps
    by_schedule = jax.vmap(lambda t, a, b, n: scheduled("linear", t, start=a, end=b, steps=n))(
        timesteps, start, end, steps
    )
    return jnp.where(timesteps < numbers.prefill, 1.0, by_schedule)


def update_from(
    env: World,
    settings: DQNSettings,
    numbers: Numbers,
    runs: DQNState,
    episodes: Episodes,
    evaluated: Float[Array, "run 2"],
) -> DQNState:
    """What an update does with its episode: keep it, learn, and write a point of the curve if one is due."""
    acting, timesteps, keys = is_acting(runs, numbers), runs.timesteps, keys_of(runs)
    due = acting & is_due(runs, numbers)
    learning = (acting & (timesteps >= numbers.prefill)) | (is_active(runs, numbers) & runs.is_unfinished)
    runs = keep(env, settings, numbers, runs, episodes, acting)
    following = acting & learning
    moved = update_target(runs.networks, runs.target, settings, numbers, runs.timesteps, runs.next_target, following)
    runs = eqx.tree_at(lambda r: (r.target, r.next_target), runs, moved)
    # An update with a point to write, or the last of its run, is finished now; so are all where statistics need the
    # episode, which is at hand only here.
    is_last = due | (runs.timesteps >= numbers.steps) | is_solved(runs, numbers)
    waits_for_all = isinstance(env, SteppedWorld) or runs.statistics is not None
    runs, losses = learn(env, settings, numbers, runs, keys, learning, is_last | waits_for_all)
    if runs.statistics is not None:
        runs = with_statistics(env, settings, runs, episodes, acting, signal_keys(keys))
    finished = (acting | learning) & ~runs.is_unfinished
    runs = eqx.tree_at(lambda r: r.updates, runs, runs.updates + finished)
    return write_point(runs, timesteps, losses, evaluated, due, numbers)


def keep(
    env: World, settings: DQNSettings, numbers: Numbers, runs: DQNState, episodes: Episodes, active: Bool[Array, "run"]
) -> DQNState:
    """Counts the episodes, puts them into the replay, and adds the steps to learn from that they allow."""
    replay = jax.vmap(layout_of(env, settings).add, (0, RUN_AXIS, 0))(runs.replay, episodes, active)
    steps_before = jnp.maximum(runs.timesteps - numbers.prefill, 0)
    runs = count(runs, episodes, active)
    steps_after = jnp.maximum(runs.timesteps - numbers.prefill, 0)
    owed = runs.owed + numbers.train_ratio * (steps_after - steps_before)
    return eqx.tree_at(lambda r: (r.replay, r.owed), runs, (replay, owed))


def with_statistics(
    env: World,
    settings: DQNSettings,
    runs: DQNState,
    episodes: Episodes,
    active: Bool[Array, "run"],
    keys: PRNGKeyArray,
) -> DQNState:
    """The runs, whose networks normalise with statistics that include this episode. The replay is not normalised."""
    assert runs.statistics is not None
    statistics = with_episodes(env, settings, runs.statistics, runs.actor, runs.critic, episodes, active, keys)

    def all_of(runs: DQNState) -> list[Any]:
        networks = [runs.actor, runs.critic, runs.target.history, runs.target.privileged]
        return [network for network in networks if network is not None]

    networks = [with_input_statistics(network, statistics) for network in all_of(runs)]
    return eqx.tree_at(lambda r: (r.statistics, *all_of(r)), runs, (statistics, *networks))


class _Loop(NamedTuple):
    """What changes from one gradient step to the next."""

    drawn: Int[Array, "run"]
    arrays: Any  # of the networks and their optimisers
    owed: Float[Array, "run"]
    failed: Bool[Array, "run"]
    losses: Losses


def learn(
    env: World,
    settings: DQNSettings,
    numbers: Numbers,
    runs: DQNState,
    keys: PRNGKeyArray,
    learning: Bool[Array, "run"],
    is_awaited: Bool[Array, "run"],
) -> tuple[DQNState, Losses]:
    """Gradient steps until no awaited run and at most `LEFT_BEHIND` of the learning runs owe any.

    Runs that owe nothing stay as they are.

    Also returns the losses of the last step of each run.
    """
    learned = runs.networks, (runs.actor_adam, runs.critic_adam)
    arrays, static = eqx.partition(learned, eqx.is_array)

    def owes(loop: _Loop) -> Bool[Array, "run"]:
        return learning & (loop.owed > 0) & ~loop.failed

    def goes_on(loop: _Loop) -> Bool[Array, ""]:
        owing = owes(loop)
        return jnp.any(owing & is_awaited) | (jnp.sum(owing) > LEFT_BEHIND * jnp.sum(learning))

    def step(loop: _Loop) -> _Loop:
        run_mask, step_keys = owes(loop), keys_of_draws(keys, loop.drawn)
        episodes = draw(env, settings, runs.replay, step_keys)
        networks, adams = eqx.combine(loop.arrays, static)
        networks, adams, losses, sound = gradient_step(
            env, settings, numbers, networks, runs.target, adams, episodes, signal_keys(step_keys), run_mask
        )
        return _Loop(
            drawn=loop.drawn + run_mask,
            arrays=eqx.filter((networks, adams), eqx.is_array),
            owed=loop.owed - jnp.where(run_mask, jnp.sum(episodes.lengths, axis=1), 0),
            failed=loop.failed | (run_mask & ~sound),
            losses=Losses(*(jnp.where(run_mask, new, old) for new, old in zip(losses, loop.losses, strict=True))),
        )

    unknown = jnp.full(learning.shape, np.nan, jnp.float32)
    drawn = jnp.maximum(runs.drawn, 0)
    loop = _Loop(drawn, arrays, runs.owed, runs.failed, Losses(*[unknown] * len(Losses._fields)))
    loop = jax.lax.while_loop(goes_on, step, loop)
    networks, (actor_adam, critic_adam) = eqx.combine(loop.arrays, static)
    drawn = jnp.where(learning, jnp.where(owes(loop), loop.drawn, BETWEEN_UPDATES), runs.drawn)
    runs = eqx.tree_at(
        lambda r: (r.actor, r.critic, r.actor_adam, r.critic_adam, r.owed, r.drawn, r.failed),
        runs,
        (networks.history, networks.privileged, actor_adam, critic_adam, loop.owed, drawn, loop.failed),
        is_leaf=lambda leaf: leaf is None,
    )
    return runs, loop.losses


def keys_of_draws(keys: PRNGKeyArray, drawn: Int[Array, "run"]) -> PRNGKeyArray:
    """The keys of a gradient step of each run, `[run]`, from those of the update and its steps so far."""
    return jax.vmap(lambda key, n: jax.random.fold_in(jax.random.fold_in(key, REPLAY_DRAWS), n))(keys, drawn)


def draw(env: World, settings: DQNSettings, replay: Replay, keys: PRNGKeyArray) -> Episodes:
    """The episodes of a gradient step of each run, `[time, run, episode, ...]`."""
    layout = layout_of(env, settings)
    return jax.vmap(lambda key, replay: layout.draw(key, replay, settings.episodes), out_axes=RUN_AXIS)(keys, replay)


def gradient_step(
    env: World,
    settings: DQNSettings,
    numbers: Numbers,
    networks: QNetworks,
    target: QNetworks,
    adams: QAdams,
    episodes: Episodes,
    keys: PRNGKeyArray,
    wanted: Bool[Array, "run"],
) -> tuple[QNetworks, QAdams, Losses, Bool[Array, "run"]]:
    """One step of the `wanted` runs, towards the targets of these episodes; `keys` are for their signals.

    Also returns the losses before it, and whether everything was finite.
    """

    def one(length: int, networks: Any, target: Any, episodes: Episodes, numbers: Numbers, key: Any) -> Any:
        data = training_batch(env, settings, episodes, length, key)
        how = {"bootstrap_truncated": settings.bootstrap_truncated, "halved": settings.shared_memory}
        return q_gradient(networks, target, data, variant_of(settings.method), numbers.discount, **how)

    losses, gradient = over_runs(one, settings.horizon, episodes, wanted, (networks, target), (numbers, keys))
    is_plain = networks.privileged is None
    sound = wanted & jnp.isfinite(losses.history) & (is_plain | jnp.isfinite(losses.privileged))
    networks, adams, (norm, privileged_norm), sound = eqx.filter_vmap(descend_both)(
        networks, gradient, adams, numbers.learning_rate, sound, numbers
    )
    none = jnp.full_like(norm, np.nan)
    norms = none if is_plain else privileged_norm, norm
    return networks, adams, Losses(losses.privileged, losses.history, none, none, *norms), sound
