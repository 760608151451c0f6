"""One update of PPO a second time: a piece of streams, float64, gradients by hand.

Weights have the names of `tests.oracles.networks`; actor and critic are told apart by a prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tests.oracles.networks import Weights, gru_backward, gru_forward, log_softmax, mlp_backward, mlp_forward
from tests.oracles.update import Adam, add


@dataclass(frozen=True)
class PPORules:
    """What an update needs to know. The names are those of the settings of a run."""

    learning_rate: float
    adam_eps: float
    clip_norm: float
    clip_ratio: float
    discount: float
    gae_lambda: float
    value_weight: float
    entropy_weight: float


class Steps(NamedTuple):
    """Some steps of one stream; `after` is what was seen and true after each action, before a new start."""

    first: np.ndarray
    before: np.ndarray  # the action before, -1 for none
    observations: np.ndarray
    signals: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    observations_after: np.ndarray
    signals_after: np.ndarray


@dataclass
class Recurrent:
    """A network over one stream, from the memory that it has there."""

    reads: str
    blank: int | None

    def inputs(self, w: Weights, before: int, seen: int) -> np.ndarray:
        taken = np.zeros(w["phi_a"].shape[1]) if before < 0 else w["phi_a"][before]
        return np.concatenate([taken, np.zeros(w["phi_o"].shape[1]) if seen == self.blank else w["phi_o"][seen]])

    def forward(self, w: Weights, h: np.ndarray, steps: Steps) -> tuple[np.ndarray, Any]:
        """The outputs at each step, and what the backward pass needs."""
        rows, tape = [], []
        for t in range(len(steps.actions)):
            parts = []
            if "h" in self.reads:
                h = np.zeros_like(h) if steps.first[t] else h
                h, step = gru_forward(w, self.inputs(w, steps.before[t], steps.observations[t]), h)
                parts.append(h)
                tape.append(step)
            if "s" in self.reads:
                parts.append(w["phi_s"][steps.signals[t]])
            rows.append(np.concatenate(parts))
        outputs, layers = mlp_forward(w, np.array(rows))
        return outputs, (tape, layers, steps, rows)

    def after(self, w: Weights, h: np.ndarray, steps: Steps, t: int) -> float:
        """The value after the action at time t, had the episode gone on."""
        parts = []
        if "h" in self.reads:
            for k in range(t + 1):
                h = np.zeros_like(h) if steps.first[k] else h
                h, _ = gru_forward(w, self.inputs(w, steps.before[k], steps.observations[k]), h)
            h, _ = gru_forward(w, self.inputs(w, steps.actions[t], steps.observations_after[t]), h)
            parts.append(h)
        if "s" in self.reads:
            parts.append(w["phi_s"][steps.signals_after[t]])
        return float(mlp_forward(w, np.concatenate(parts)[None])[0][0, 0])

    def backward(self, w: Weights, tape: Any, d_outputs: np.ndarray) -> Weights:
        steps_of_unit, layers, steps, _ = tape
        gradient = {name: np.zeros_like(value) for name, value in w.items()}
        d_features = mlp_backward(w, layers, d_outputs, gradient)
        size = w["gru.hidden_weight"].shape[0] if "h" in self.reads else 0
        if "s" in self.reads:
            for t, signal in enumerate(steps.signals):
                gradient["phi_s"][signal] += d_features[t, size:]
        dh = np.zeros(size)
        for t in reversed(range(len(steps_of_unit))):
            dx, dh = gru_backward(w, steps_of_unit[t], dh + d_features[t, :size], gradient)
            dh = np.zeros(size) if steps.first[t] else dh
            split = w["phi_a"].shape[1]
            if steps.before[t] >= 0:
                gradient["phi_a"][steps.before[t]] += dx[:split]
            if steps.observations[t] != self.blank:
                gradient["phi_o"][steps.observations[t]] += dx[split:]
        return gradient


@dataclass
class PPOLearner:
    """The part of a run that learning changes."""

    actor: Weights
    critic: Weights
    adam: Adam
    reads: str
    blank: int | None

    def update(
        self, streams: list[Steps], memories: list[tuple[np.ndarray, np.ndarray]], orders: np.ndarray, rules: PPORules
    ) -> dict[str, float]:
        """Gradient steps with the streams of each row of `orders`; gives the means of what they found."""
        pi, v = Recurrent("h", self.blank), Recurrent(self.reads, self.blank)
        old_logs, old_values, advantages = [], [], []
        for steps, (h, g) in zip(streams, memories, strict=True):
            logits, values = pi.forward(self.actor, h, steps)[0], v.forward(self.critic, g, steps)[0][:, 0]
            old_logs.append(log_softmax(logits)[np.arange(len(logits)), steps.actions])
            old_values.append(values)
            advantages.append(self.advantages(v, g, steps, values, rules))
        reports = []
        for which in orders:
            chosen = np.concatenate([advantages[n] for n in which])
            mean, spread = chosen.mean(), chosen.std()
            found = {"policy_loss": 0.0, "negentropy_loss": 0.0, "critic_loss": 0.0}
            gradients: list[Weights] = [{k: np.zeros_like(x) for k, x in w.items()} for w in (self.actor, self.critic)]
            for n in which:
                steps, (h, g) = streams[n], memories[n]
                A, share = (advantages[n] - mean) / (spread + 1e-8), 1 / len(chosen)
                logits, tape = pi.forward(self.actor, h, steps)
                d_logits, policy, negentropy = policy_part(logits, steps.actions, old_logs[n], A, rules)
                add(gradients[0], pi.backward(self.actor, tape, share * d_logits))
                values, tape = v.forward(self.critic, g, steps)
                d_values, value = value_part(values[:, 0], old_values[n], advantages[n] + old_values[n], rules)
                add(gradients[1], v.backward(self.critic, tape, share * rules.value_weight * d_values[:, None]))
                for name, amount in zip(found, (policy, negentropy, value), strict=True):
                    found[name] += share * amount
            found["critic_gradient_norm"], found["actor_gradient_norm"] = (norm(g) for g in reversed(gradients))
            reports.append(found)
            self.descend(gradients, rules)
        return {name: float(np.mean([report[name] for report in reports])) for name in reports[0]}

    def advantages(self, v: Recurrent, g: np.ndarray, steps: Steps, values: np.ndarray, rules: PPORules) -> np.ndarray:
        """A_t = delta_t + gamma lambda A_{t+1}, up to the end of the episode or of the piece."""
        T = len(values)
        result, later = np.zeros(T), 0.0
        for t in reversed(range(T)):
            ended = steps.terminated[t] or steps.truncated[t]
            if steps.terminated[t]:
                value = 0.0
            elif ended or t == T - 1:
                value = v.after(self.critic, g, steps, t)
            else:
                value = values[t + 1]
            later = 0.0 if ended else later
            later = steps.rewards[t] + rules.discount * value - values[t] + rules.discount * rules.gae_lambda * later
            result[t] = later
        return result

    def descend(self, gradients: list[Weights], rules: PPORules) -> None:
        """One clipped step of Adam for both networks together."""
        both = {f"{i}.{name}": x for i, w in enumerate((self.actor, self.critic)) for name, x in w.items()}
        gradient = {f"{i}.{name}": x for i, w in enumerate(gradients) for name, x in w.items()}
        self.adam.step(both, gradient, rules.learning_rate, rules.adam_eps, rules.clip_norm)
        for i, weights in enumerate((self.actor, self.critic)):
            weights.update({name: both[f"{i}.{name}"] for name in weights})


def policy_part(
    logits: np.ndarray, actions: np.ndarray, old: np.ndarray, A: np.ndarray, rules: PPORules
) -> tuple[np.ndarray, float, float]:
    """The gradient of the logits, the sum of the clipped losses, and the sum of the negative entropies."""
    log_pi = log_softmax(logits)
    pi, hot = np.exp(log_pi), np.eye(logits.shape[1])[actions]
    ratio = np.exp((hot * log_pi).sum(1) - old)
    plain, cut = ratio * A, np.clip(ratio, 1 - rules.clip_ratio, 1 + rules.clip_ratio) * A
    counts = plain <= cut  # elsewhere the clipped term is smaller, and does not depend on the policy
    d_logits = -(np.where(counts, A * ratio, 0.0)[:, None] * (hot - pi))
    entropy = -(pi * log_pi).sum(axis=1)
    d_logits += rules.entropy_weight * pi * (log_pi + entropy[:, None])
    return d_logits, -np.minimum(plain, cut).sum(), -entropy.sum()


def value_part(values: np.ndarray, old: np.ndarray, targets: np.ndarray, rules: PPORules) -> tuple[np.ndarray, float]:
    """The gradient of the values, and the sum of the clipped losses."""
    moved = values - old
    near = old + np.clip(moved, -rules.clip_ratio, rules.clip_ratio)
    plain, cut = (values - targets) ** 2, (near - targets) ** 2
    inside = np.abs(moved) <= rules.clip_ratio
    gradient = np.where(plain >= cut, values - targets, np.where(inside, near - targets, 0.0))
    return gradient, np.maximum(plain, cut).sum() / 2


def norm(gradient: Weights) -> float:
    return float(np.sqrt(sum((g**2).sum() for g in gradient.values())))
