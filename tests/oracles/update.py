"""One update of actor and critic a second time: the paper's Algorithm 1, step by step, in float64."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.oracles.networks import Episode, Network, Weights, log_softmax


@dataclass(frozen=True)
class Rules:
    """What an update needs to know. The names are those of the settings of a run."""

    actor_rate: float = 1e-3
    critic_rate: float = 1e-3
    adam_eps: float = 1e-4
    adam_beta2: float = 0.999
    clip_norm: float = np.inf
    entropy_weight: float = 0.1
    entropy_end: float = 0.01
    entropy_schedule: str = "linear"
    entropy_steps: float = 2e6
    discount: float = 0.99
    bootstrap_truncated: bool = False
    estimator: str = "td0"
    td_n: int = 3
    td_lambda: float = 0.7
    target: str = "frozen"
    target_period: int = 10_000
    polyak: float = 0.001


@dataclass
class Adam:
    """Moments of the gradients so far."""

    steps: int = 0
    first: Weights = field(default_factory=dict)
    second: Weights = field(default_factory=dict)

    def step(
        self, weights: Weights, gradient: Weights, rate: float, eps: float, clip_norm: float, beta2: float = 0.999
    ) -> float:
        """Moves the weights in place; gives the norm of the gradient before clipping."""
        norm = np.sqrt(sum((g**2).sum() for g in gradient.values()))
        scale = clip_norm / norm if norm > clip_norm else 1.0
        self.steps += 1
        for name, g in gradient.items():
            g = g * scale
            self.first[name] = 0.9 * self.first.get(name, 0.0) + 0.1 * g
            self.second[name] = beta2 * self.second.get(name, 0.0) + (1 - beta2) * g**2
            mean = self.first[name] / (1 - 0.9**self.steps)
            square = self.second[name] / (1 - beta2**self.steps)
            weights[name] = weights[name] - rate * mean / (np.sqrt(square) + eps)
        return float(norm)


@dataclass
class Learner:
    """The part of a run that learning changes."""

    policy: Network
    value: Network
    actor: Weights
    critic: Weights
    target: Weights
    timesteps: int = 0
    next_target: int = 0
    actor_adam: Adam = field(default_factory=Adam)
    critic_adam: Adam = field(default_factory=Adam)

    def update(self, episodes: list[Episode], rules: Rules) -> dict[str, float]:
        """Counts, moves the target, then the critic, then the actor; gives what happened."""
        self.timesteps += sum(len(episode.actions) for episode in episodes)
        self.move_target(rules)
        weight = negentropy_weight(self.timesteps, rules)
        critic_loss, gradient = self.critic_loss(episodes, rules)
        adam = (rules.adam_eps, rules.clip_norm, rules.adam_beta2)
        critic_norm = self.critic_adam.step(self.critic, gradient, rules.critic_rate, *adam)
        policy_loss, negentropy, gradient = self.actor_losses(episodes, weight, rules)
        actor_norm = self.actor_adam.step(self.actor, gradient, rules.actor_rate, *adam)
        return {
            "critic_loss": critic_loss,
            "policy_loss": policy_loss,
            "negentropy_loss": negentropy,
            "negentropy_weight": weight,
            "critic_gradient_norm": critic_norm,
            "actor_gradient_norm": actor_norm,
        }

    def move_target(self, rules: Rules) -> None:
        if rules.target == "polyak":
            for name, new in self.critic.items():
                self.target[name] = rules.polyak * new + (1 - rules.polyak) * self.target[name]
        elif self.timesteps >= self.next_target:
            self.target = dict(self.critic)
            self.next_target = self.timesteps + rules.target_period

    def values(self, critic: Weights, episode: Episode) -> tuple[np.ndarray, float]:
        """V at each time of an episode, and what the end is worth if it only ran out of time."""
        T = len(episode.actions)
        values = self.value.forward(critic, episode, T + 1)[0][:, 0]
        return values[:T], values[T]

    def q(self, critic: Weights, episode: Episode, rules: Rules) -> np.ndarray:
        values, end = self.values(critic, episode)
        return estimates(episode.rewards, values, end if self.goes_on(episode, rules) else 0.0, rules)

    @staticmethod
    def goes_on(episode: Episode, rules: Rules) -> bool:
        return rules.bootstrap_truncated and episode.truncated

    def critic_loss(self, episodes: list[Episode], rules: Rules) -> tuple[float, Weights]:
        """sum_t (V_t - G_t)^2, where G comes from the target critic; a mean over episodes, and its gradient."""
        total, gradient = 0.0, {name: np.zeros_like(value) for name, value in self.critic.items()}
        for episode in episodes:
            values, tape = self.value.forward(self.critic, episode, len(episode.actions))
            errors = values[:, 0] - self.q(self.target, episode, rules)
            total += (errors**2).sum() / len(episodes)
            add(gradient, self.value.backward(self.critic, tape, 2 * errors[:, None] / len(episodes)))
        return total, gradient

    def actor_losses(self, episodes: list[Episode], weight: float, rules: Rules) -> tuple[float, float, Weights]:
        """-sum_t gamma^t A_t log pi(a_t; h_t) and -sum_t H(pi(.; h_t)); the advantages are constants."""
        policy, negentropy = 0.0, 0.0
        gradient = {name: np.zeros_like(value) for name, value in self.actor.items()}
        for episode in episodes:
            T = len(episode.actions)
            values, _ = self.values(self.critic, episode)
            credit = rules.discount ** np.arange(T) * (self.q(self.critic, episode, rules) - values)
            logits, tape = self.policy.forward(self.actor, episode, T)
            log_pi = log_softmax(logits)
            pi, chosen = np.exp(log_pi), np.eye(logits.shape[1])[episode.actions]
            entropy = -(pi * log_pi).sum(axis=1)
            policy -= (credit * (chosen * log_pi).sum(axis=1)).sum() / len(episodes)
            negentropy -= entropy.sum() / len(episodes)
            d_policy = -credit[:, None] * (chosen - pi)
            d_negentropy = pi * (log_pi + entropy[:, None])
            d_logits = (d_policy + weight * d_negentropy) / len(episodes)
            add(gradient, self.policy.backward(self.actor, tape, d_logits))
        return policy, negentropy, gradient


def add(total: Weights, more: Weights) -> None:
    for name, value in more.items():
        total[name] = total[name] + value


def estimates(rewards: np.ndarray, values: np.ndarray, end: float, rules: Rules) -> np.ndarray:
    """Q at each time. `end` is what the world is worth after the last reward."""
    T, discount = len(rewards), rules.discount

    def n_step(t: int, n: int) -> float:
        """n rewards and then a value, or all the rewards there are and then the end."""
        n = min(n, T - t)
        then = values[t + n] if t + n < T else end
        return sum(discount**k * rewards[t + k] for k in range(n)) + discount**n * then

    def mixture(t: int) -> float:
        """(1 - lambda) lambda^(n - 1) is the share of the n-step estimate; the last has what is left."""
        rest, keep = T - t, rules.td_lambda
        shares = [(1 - keep) * keep ** (n - 1) for n in range(1, rest)] + [keep ** (rest - 1)]
        return sum(share * n_step(t, n) for n, share in enumerate(shares, start=1))

    at = {
        "td0": lambda t: n_step(t, 1),
        "td-n": lambda t: n_step(t, rules.td_n),
        "td-lambda": mixture,
        "mc": lambda t: n_step(t, T),
    }
    return np.array([at[rules.estimator](t) for t in range(T)])


def negentropy_weight(timesteps: int, rules: Rules) -> float:
    if rules.entropy_schedule == "constant":
        return rules.entropy_weight
    if rules.entropy_schedule == "exponential":
        return rules.entropy_weight * 0.5 ** (timesteps / rules.entropy_steps)
    share = min(max(timesteps / (rules.entropy_steps - 1), 0.0), 1.0)
    return rules.entropy_weight * (1 - share) + rules.entropy_end * share
