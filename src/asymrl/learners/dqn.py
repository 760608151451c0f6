"""Deep Q-learning from histories, with or without a privileged network: DQN, ADQN and its variants.

An update simulates one episode, exploring with probability epsilon, adds it to the replay, moves the target networks if
that is due, then takes gradient steps until the run has learned from `train_ratio` steps for each simulated step. The
first episodes only fill the replay, with random actions. See `q_losses` for what tells the variants apart.

A long episode needs many gradient steps, and more still if the drawn episodes are short. So that runs of a program need
not wait for the slowest, a call takes a limited number of them; a run that owes more is not `ready` for the next
episode until later calls have finished its update.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learners.bucket import in_bucket
from asymrl.learners.curve import Losses, is_solved
from asymrl.learners.episodes import Episodes, WholeEpisodes, training_batch
from asymrl.learners.key_purposes import REPLAY_DRAWS, SIGNALS
from asymrl.learners.numbers import Numbers
from asymrl.learners.optimiser import AdamState, new_adam
from asymrl.learners.q_losses import variant_of
from asymrl.learners.q_networks import QAdams, QNetworks, descend_both, q_gradient
from asymrl.learners.replay import Replay, ReplayLayout
from asymrl.learners.schedules import scheduled
from asymrl.learners.signals import critic_signal, needs_state
from asymrl.learners.state import BETWEEN_UPDATES, RunState, architecture_of, counters
from asymrl.learners.targets import update_target
from asymrl.nn.agent import Actor, Critic
from asymrl.nn.distributions import greedy_over
from asymrl.settings import DQNSettings
from asymrl.worlds.critic_inputs import actor_space
from asymrl.worlds.spaces import Discrete
from asymrl.worlds.world import World

STEPS_PER_CALL = 16  # gradient steps


class DQNState(RunState):
    """One run of the family, or a batch of them. `actor` is Q(h, a), `critic` the privileged network or None."""

    target: QNetworks
    actor_adam: AdamState  # of both networks, unless there is a `critic_adam`
    critic_adam: AdamState | None
    replay: Replay
    next_target: Int[Array, "*run"]
    owed: Float[Array, "*run"]  # steps that remain to be learned from; below zero if the last draw had more
    drawn: Int[Array, "*run"]  # gradient steps so far of an unfinished update, or BETWEEN_UPDATES

    @property
    def networks(self) -> QNetworks:
        return QNetworks(self.actor, self.critic)

    @property
    def is_unfinished(self) -> Bool[Array, "*run"]:
        """Whether the run is in the middle of an update: it continues learning before it acts again."""
        return self.drawn != BETWEEN_UPDATES


class LearningState(NamedTuple):
    """What changes from one gradient step to the next."""

    drawn: Int[Array, ""]
    networks: QNetworks
    adams: QAdams
    owed: Float[Array, ""]
    failed: Bool[Array, ""]
    losses: Losses


@dataclass(frozen=True)
class DQN:
    """The learner; see `Learner` for its methods."""

    world: World
    settings: DQNSettings

    @property
    def rollout(self) -> WholeEpisodes:
        return WholeEpisodes(1)

    @property
    def layout(self) -> ReplayLayout:
        """How the replay of a run stores its episodes."""
        keeps_states, settings = needs_state(self.world, self.settings), self.settings
        return ReplayLayout(self.world, settings.replay_steps, keeps_states, settings.bootstrap_truncated)

    def init(self, seed: Int[Array, ""] | int) -> DQNState:
        actor_key, critic_key, train_key = jax.random.split(jax.random.key(seed), 3)
        networks = new_q_networks(self.world, self.settings, actor_key, critic_key)
        separate = None if self.settings.shared_memory else networks.privileged
        return DQNState(
            actor=networks.history,
            critic=networks.privileged,
            target=jax.tree.map(lambda x: x, networks),
            actor_adam=new_adam(networks if separate is None else networks.history),
            critic_adam=None if separate is None else new_adam(separate),
            replay=self.layout.empty(),
            next_target=jnp.int32(0),
            owed=jnp.float32(0),
            drawn=jnp.int32(BETWEEN_UPDATES),
            **counters(self.settings, train_key),
        )

    def exploration(self, run: DQNState, numbers: Numbers) -> Float[Array, ""]:
        """Epsilon, the probability of a random action: 1 while the replay is filled, then by schedule.

        The schedule counts all steps, those of the prefill included, as the authors' later version does.
        """
        start, end, steps = numbers.exploration_start, numbers.exploration_end, numbers.exploration_steps
        by_schedule = scheduled("linear", run.timesteps, start=start, end=end, steps=steps)
        return jnp.where(run.timesteps < numbers.prefill, 1.0, by_schedule)

    def ready(self, run: DQNState) -> Bool[Array, ""]:
        return ~run.is_unfinished

    def networks(self, run: DQNState) -> list[Actor | Critic]:
        networks = [run.actor, run.critic, run.target.history, run.target.privileged]
        return [network for network in networks if network is not None]

    def update(
        self,
        key: PRNGKeyArray,
        run: DQNState,
        numbers: Numbers,
        steps: Int[Array, ""],
        batch: Episodes,
        on: Bool[Array, ""],
    ) -> tuple[DQNState, Losses]:
        """Keeps the episode, copies the targets if that is due, and takes the gradient steps that are owed."""
        acting = on & self.ready(run)
        learning = on & (run.is_unfinished | (steps >= numbers.prefill))
        ratio, before = numbers.train_ratio, jnp.maximum(steps - numbers.prefill, 0)
        owed = run.owed + ratio * (jnp.maximum(run.timesteps - numbers.prefill, 0) - before)
        target, next_target = update_target(
            run.networks, run.target, self.settings, numbers, run.timesteps, run.next_target, acting & learning
        )
        run = eqx.tree_at(
            lambda r: (r.replay, r.owed, r.target, r.next_target),
            run,
            (self.layout.add(run.replay, batch, acting), owed, target, next_target),
        )
        # An update with a point to write, or the last of its run, is finished now; so are all where statistics need the
        # episode, which is at hand only here.
        is_last = (run.timesteps >= numbers.steps) | is_solved(run, numbers)
        is_awaited = (acting & (steps >= run.next_log)) | is_last | self.settings.normalise_observations
        run, losses = self.learn(key, run, numbers, learning, is_awaited)
        finished = (acting | learning) & ~run.is_unfinished
        return eqx.tree_at(lambda r: r.updates, run, run.updates + finished), losses

    def learn(
        self, key: PRNGKeyArray, run: DQNState, numbers: Numbers, learning: Bool[Array, ""], is_awaited: Bool[Array, ""]
    ) -> tuple[DQNState, Losses]:
        """All gradient steps that a run owes if it is awaited, otherwise at most `STEPS_PER_CALL` of them.

        Also returns the losses of the last one.
        """
        drawn = jnp.maximum(run.drawn, 0)
        unknown = Losses(*[jnp.float32(np.nan)] * len(Losses._fields))
        adams = run.actor_adam, run.critic_adam
        begin = LearningState(drawn, run.networks, adams, run.owed, run.failed, unknown)
        arrays, static = eqx.partition(begin, eqx.is_array)

        def owes(state: LearningState) -> Bool[Array, ""]:
            return learning & (state.owed > 0) & ~state.failed

        def goes_on(arrays: LearningState) -> Bool[Array, ""]:
            return owes(arrays) & (is_awaited | (arrays.drawn < drawn + STEPS_PER_CALL))

        def step(arrays: LearningState) -> LearningState:
            state = eqx.combine(arrays, static)
            step_key = jax.random.fold_in(jax.random.fold_in(key, REPLAY_DRAWS), state.drawn)
            episodes = self.layout.draw(step_key, run.replay, self.settings.episodes)
            signal_key = jax.random.fold_in(step_key, SIGNALS)
            state = self.gradient_step(signal_key, run.target, state, episodes, numbers, goes_on(arrays))
            return eqx.filter(state, eqx.is_array)

        state: LearningState = eqx.combine(jax.lax.while_loop(goes_on, step, arrays), static)
        drawn = jnp.where(learning, jnp.where(owes(state), state.drawn, BETWEEN_UPDATES), run.drawn)
        learned = eqx.tree_at(
            lambda r: (r.actor, r.critic, r.actor_adam, r.critic_adam, r.owed, r.drawn, r.failed),
            run,
            (*(state.networks.history, state.networks.privileged), *state.adams, state.owed, drawn, state.failed),
            is_leaf=lambda leaf: leaf is None,
        )
        return learned, state.losses

    def gradient_step(
        self,
        key: PRNGKeyArray,
        target: QNetworks,
        state: LearningState,
        episodes: Episodes,
        numbers: Numbers,
        on: Bool[Array, ""],
    ) -> LearningState:
        """One step towards the targets of these episodes, if the run is `on`; `key` is for their signals."""
        longest, horizon = jnp.where(on, jnp.max(episodes.lengths), 0), self.settings.horizon
        learned = state.networks, target, episodes, numbers, key
        losses, gradient = in_bucket(self.gradient_pass, horizon, longest, *learned)
        is_plain = state.networks.privileged is None
        finite = on & jnp.isfinite(losses.history) & (is_plain | jnp.isfinite(losses.privileged))
        networks, adams, (norm, privileged_norm), finite = descend_both(
            state.networks, gradient, state.adams, numbers.learning_rate, finite, numbers
        )
        none = jnp.full_like(norm, np.nan)
        norms = none if is_plain else privileged_norm, norm
        return LearningState(
            drawn=state.drawn + on,
            networks=networks,
            adams=adams,
            owed=state.owed - jnp.where(on, jnp.sum(episodes.lengths), 0),
            failed=state.failed | (on & ~finite),
            losses=Losses(losses.privileged, losses.history, none, none, *norms),
        )

    def gradient_pass(
        self,
        length: int,
        networks: QNetworks,
        target: QNetworks,
        episodes: Episodes,
        numbers: Numbers,
        key: PRNGKeyArray,
    ) -> tuple[Any, QNetworks]:
        """`q_gradient` of episodes of at most this length."""
        data = training_batch(self.world, self.settings, episodes, length, key)
        how = {"bootstrap_truncated": self.settings.bootstrap_truncated, "halved": self.settings.shared_memory}
        return q_gradient(networks, target, data, variant_of(self.settings.method), numbers.discount, **how)


def new_q_networks(env: World, settings: DQNSettings, actor_key: PRNGKeyArray, critic_key: PRNGKeyArray) -> QNetworks:
    """Q(h, a), and the method's privileged network, if it has one."""
    architecture = architecture_of(settings)
    observed = actor_space(env, settings.actor_sees)
    if isinstance(observed, Discrete) and not settings.shared_memory:
        # The authors' version with separate networks trains the features of the blank symbol.
        observed = replace(observed, blank=False)
    policy = greedy_over(env.action_space)
    actor = Actor(actor_key, env.action_space, observed, architecture, policy)
    if "s" not in settings.how.reads:
        return QNetworks(actor, None)
    spaces = (env.action_space, observed, critic_signal(env, settings).space)
    return QNetworks(actor, Critic(critic_key, *spaces, settings.how.reads, architecture, policy.n))
