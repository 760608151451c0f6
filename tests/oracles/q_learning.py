"""A gradient step of the DQN family a second time: float64, one episode after the other, gradients by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.oracles.networks import Episode, Network, Weights
from tests.oracles.update import Adam, add

# By name: what the privileged network reads, whether its target is that of the history, and whether the history
# regresses on the privileged target of every action.
VARIANTS: dict[str, tuple[str, bool, bool]] = {
    "dqn": ("", False, False),
    "adqn": ("hs", False, False),
    "adqn-vr": ("hs", False, True),
    "adqn-state": ("s", False, False),
    "adqn-state-vr": ("s", False, True),
    "adqn-short": ("hs", True, False),
    "adqn-short-vr": ("hs", True, True),
}
HISTORY = ("phi_a", "phi_o", "gru.")  # weights that both networks use if the history is shared


@dataclass
class QLearner:
    """The networks of a run; `privileged` has weights of its own only, if the history is shared."""

    name: str
    shared: bool
    network: Network
    """Of Q(h, a)."""
    history: Weights
    privileged: Weights
    target_history: Weights
    target_privileged: Weights
    adams: list[Adam] = field(default_factory=lambda: [Adam(), Adam()])

    @property
    def other(self) -> Network:
        """The privileged network."""
        reads = VARIANTS[self.name][0]
        return Network(reads, self.network.window, self.network.actions, self.network.blank)

    def joined(self, history: Weights, privileged: Weights) -> Weights:
        """All weights that the privileged network uses."""
        if not self.shared or "h" not in self.other.reads:
            return privileged
        return privileged | {name: value for name, value in history.items() if name.startswith(HISTORY)}

    def targets(
        self, episode: Episode, discount: float, *, bootstrap_truncated: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """What Q(h, a) and the privileged network are trained towards: [T], or [T, A] for all actions."""
        reads, short, reduced = VARIANTS[self.name]
        T = len(episode.actions)
        of_history, _ = self.network.forward(self.target_history, episode, T + 1)
        best = of_history.argmax(axis=1)
        end = discount if bootstrap_truncated and episode.truncated else 0.0
        weight = np.array([discount] * (T - 1) + [end])

        def one_step(values: np.ndarray) -> np.ndarray:
            return np.array([episode.rewards[t] + weight[t] * values[t + 1, best[t + 1]] for t in range(T)])

        if not reads:
            return one_step(of_history), None
        weights = self.joined(self.target_history, self.target_privileged)
        of_privileged, _ = self.other.forward(weights, episode, T + 1)
        y = one_step(of_privileged)
        return of_privileged[:T] if reduced else y, one_step(of_history) if short else y

    def losses(
        self, episodes: list[Episode], discount: float, *, bootstrap_truncated: bool = False
    ) -> tuple[float, float, Weights, Weights]:
        """Both losses, and the gradients of the weights of Q(h, a) and of the privileged network."""
        both = self.shared and VARIANTS[self.name][0] != ""
        losses, gradients = [0.0, np.nan], [zeros(self.history), zeros(self.privileged)]
        for episode in episodes:
            towards = self.targets(episode, discount, bootstrap_truncated=bootstrap_truncated)
            weights = [self.history, self.joined(self.history, self.privileged)]
            for i, network in enumerate((self.network, self.other)):
                if (y := towards[i]) is None:
                    continue
                values, tape = network.forward(weights[i], episode, len(episode.actions))
                loss, d_values = squared(values, episode.actions, y)
                losses[i] = np.nan_to_num(losses[i]) + loss / len(episodes)
                share = 1 / len(episodes) / (2 if both else 1)
                gradient = network.backward(weights[i], tape, d_values * share)
                own = {name: value for name, value in gradient.items() if name in gradients[i]}
                add(gradients[i], own)
                add(gradients[0], {name: value for name, value in gradient.items() if name not in own})
        return losses[0], losses[1], gradients[0], gradients[1]

    def update(
        self,
        episodes: list[Episode],
        discount: float,
        rates: tuple[float, float],
        eps: float,
        *,
        clip_norm: float = np.inf,
        bootstrap_truncated: bool = False,
    ) -> tuple[float, float]:
        """A gradient step; gives the losses before it."""
        history_loss, privileged_loss, of_history, of_privileged = self.losses(
            episodes, discount, bootstrap_truncated=bootstrap_truncated
        )
        if self.shared:  # one optimiser for everything
            everything, gradient = merged(self.history, self.privileged), merged(of_history, of_privileged)
            self.adams[0].step(everything, gradient, rates[0], eps, clip_norm)
            self.history = {name: everything[f"h {name}"] for name in self.history}
            self.privileged = {name: everything[f"p {name}"] for name in self.privileged}
        else:
            self.adams[0].step(self.history, of_history, rates[0], eps, clip_norm)
            self.adams[1].step(self.privileged, of_privileged, rates[1], eps, clip_norm)
        return history_loss, privileged_loss


def merged(history: Weights, privileged: Weights) -> Weights:
    return {f"h {name}": value for name, value in history.items()} | {
        f"p {name}": value for name, value in privileged.items()
    }


def zeros(weights: Weights) -> Weights:
    return {name: np.zeros_like(value) for name, value in weights.items()}


def squared(values: np.ndarray, actions: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean squared error and its gradient: of the actions that were taken, or of all."""
    if y.ndim == 2:
        errors = values - y
        return float((errors**2).mean()), 2 * errors / errors.size
    errors = values[np.arange(len(y)), actions] - y
    gradient = np.zeros_like(values)
    gradient[np.arange(len(y)), actions] = 2 * errors / len(y)
    return float((errors**2).mean()), gradient
