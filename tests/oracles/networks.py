"""The networks of actor and critic a second time: one episode, float64, gradients by hand.

Weights are dictionaries of arrays. `phi_a`, `phi_o` and `phi_s` are tables of embeddings; where one is absent,
the features are those of a feature-vector world: actions one-hot, observations and states as they are. The others are
`gru.input_weight`, `gru.hidden_weight` (both [inputs, 3 * size], gates in the order reset, update, new), their biases,
and the layers of the head, `head.0.weight` [inputs, outputs], `head.0.bias` and so on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Weights = dict[str, np.ndarray]


class Episode(NamedTuple):
    """T steps. Observations and signals have one more entry: what there was after the last action."""

    observations: np.ndarray
    signals: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    truncated: bool


@dataclass(frozen=True)
class Network:
    """What a network reads ("h", "s" or "hs") and how many of the last pairs it remembers (None: all)."""

    reads: str
    window: int | None
    actions: int
    blank: int | None
    """The observation that says nothing: its embedding is zero and is not trained."""

    def forward(self, w: Weights, episode: Episode, times: int) -> tuple[np.ndarray, Any]:
        """The outputs at the first `times` times, and what the backward pass needs."""
        parts, walks = [], []
        if "h" in self.reads:
            features, walks = self._history(w, episode, times)
            parts.append(features)
        if "s" in self.reads:
            signals = episode.signals[:times]
            parts.append(w["phi_s"][signals] if "phi_s" in w else signals)
        outputs, layers = mlp_forward(w, np.concatenate(parts, axis=1))
        return outputs, (episode, times, walks, layers)

    def backward(self, w: Weights, tape: Any, d_outputs: np.ndarray) -> Weights:
        """The gradient of every weight, from that of the outputs."""
        episode, times, walks, layers = tape
        gradient = {name: np.zeros_like(value) for name, value in w.items()}
        d_features = mlp_backward(w, layers, d_outputs, gradient)
        size = w["gru.hidden_weight"].shape[0] if "h" in self.reads else 0
        if "phi_s" in w:
            for t in range(times):
                gradient["phi_s"][episode.signals[t]] += d_features[t, size:]
        for walk in walks:
            self._walk_backward(w, walk, d_features[:, :size], episode, gradient)
        if "phi_o" in w and self.blank is not None:
            gradient["phi_o"][self.blank] = 0.0
        return gradient

    def _inputs(self, w: Weights, episode: Episode, times: int) -> np.ndarray:
        rows = []
        for t in range(times):
            actions = w.get("phi_a", np.eye(self.actions))
            taken = actions[episode.actions[t - 1]] if t > 0 else np.zeros(actions.shape[1])
            seen = episode.observations[t]
            if "phi_o" in w:
                seen = np.zeros(w["phi_o"].shape[1]) if seen == self.blank else w["phi_o"][seen]
            rows.append(np.concatenate([taken, seen]))
        return np.array(rows)

    def _history(self, w: Weights, episode: Episode, times: int) -> tuple[np.ndarray, list]:
        """The features at each time, and the walks of the unit that gave them.

        With the whole history there is one walk, and every step of it gives a feature. With a window there is
        a walk for each time, from an empty memory, and only its last step counts.
        """
        inputs = self._inputs(w, episode, times)
        if self.window is None:
            ways = [list(range(times))]
        else:
            ways = [list(range(t - self.window + 1, t + 1)) for t in range(times)]
        features, walks = {}, []
        for way in ways:
            h, steps = np.zeros(w["gru.hidden_weight"].shape[0]), []
            for t in way:
                x = inputs[t] if t >= 0 else np.zeros(inputs.shape[1])
                h, step = gru_forward(w, x, h)
                counts = self.window is None or t == way[-1]
                if counts:
                    features[t] = h
                steps.append((t, step, counts))
            walks.append(steps)
        return np.array([features[t] for t in range(times)]), walks

    def _walk_backward(self, w: Weights, walk: list, d_features: np.ndarray, episode: Episode, gradient: Weights):
        dh = np.zeros(d_features.shape[1])
        for t, step, counts in reversed(walk):
            dx, dh = gru_backward(w, step, dh + d_features[t] if counts else dh, gradient)
            if t < 0:
                continue
            size = w["phi_a"].shape[1] if "phi_a" in w else self.actions
            if "phi_a" in w and t > 0:
                gradient["phi_a"][episode.actions[t - 1]] += dx[:size]
            if "phi_o" in w:
                gradient["phi_o"][episode.observations[t]] += dx[size:]


def gru_forward(w: Weights, x: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, tuple]:
    from_input = np.split(x @ w["gru.input_weight"] + w["gru.input_bias"], 3)
    from_memory = np.split(h @ w["gru.hidden_weight"] + w["gru.hidden_bias"], 3)
    reset = sigmoid(from_input[0] + from_memory[0])
    update = sigmoid(from_input[1] + from_memory[1])
    new = np.tanh(from_input[2] + reset * from_memory[2])
    return (1 - update) * new + update * h, (x, h, reset, update, new, from_memory[2])


def gru_backward(w: Weights, step: tuple, dh: np.ndarray, gradient: Weights) -> tuple[np.ndarray, np.ndarray]:
    x, h, reset, update, new, memory_new = step
    d_new = dh * (1 - update) * (1 - new**2)
    d_update = dh * (h - new) * update * (1 - update)
    d_reset = d_new * memory_new * reset * (1 - reset)
    from_input = np.concatenate([d_reset, d_update, d_new])
    from_memory = np.concatenate([d_reset, d_update, d_new * reset])
    gradient["gru.input_weight"] += np.outer(x, from_input)
    gradient["gru.input_bias"] += from_input
    gradient["gru.hidden_weight"] += np.outer(h, from_memory)
    gradient["gru.hidden_bias"] += from_memory
    return w["gru.input_weight"] @ from_input, w["gru.hidden_weight"] @ from_memory + dh * update


def mlp_forward(w: Weights, x: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Linear layers with a ReLU between them; also the input of each."""
    layers = [x]
    count = sum(name.startswith("head.") for name in w) // 2
    for i in range(count):
        x = x @ w[f"head.{i}.weight"] + w[f"head.{i}.bias"]
        if i < count - 1:
            x = relu(x)
            layers.append(x)
    return x, layers


def mlp_backward(w: Weights, layers: list[np.ndarray], d: np.ndarray, gradient: Weights) -> np.ndarray:
    for i, x in reversed(list(enumerate(layers))):
        gradient[f"head.{i}.weight"] += x.T @ d
        gradient[f"head.{i}.bias"] += d.sum(axis=0)
        d = d @ w[f"head.{i}.weight"].T
        if i > 0:
            d = d * (x > 0)
    return d


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
