"""A trained policy in NumPy. This file needs nothing else: copy it next to `policy.npz`."""

import json

import numpy as np


def _softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


OPERATORS = {  # the ONNX operators that policies consist of
    "Add": np.add,
    "Clip": np.clip,
    "Concat": lambda *xs, axis: np.concatenate(xs, axis),
    "Expand": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))),
    "Gather": lambda x, index, axis: np.take(x, index, axis),
    "Identity": lambda x: x,
    "MatMul": np.matmul,
    "Mul": np.multiply,
    "Relu": lambda x: np.maximum(x, 0),
    "Reshape": lambda x, shape: x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)]),
    "Sigmoid": lambda x: 0.5 + 0.5 * np.tanh(0.5 * x),
    "Shape": np.shape,
    "Softmax": _softmax,
    "Split": lambda x, axis, num_outputs: np.split(x, num_outputs, axis),
    "Sub": np.subtract,
    "Tanh": np.tanh,
    "Transpose": lambda x, perm: x.transpose(perm),
}


class NumpyPolicy:
    """Acts as the exported agent does: `reset()` before each episode, then `act(observation)` until it ends.

    Actions are sampled with `generator`, a `numpy.random.Generator`; without one, the most likely action is taken.
    If another action is taken instead, set `policy.previous_action = action`; there, vectors of numbers are in
    coordinates where -1 and 1 are their bounds, and indices count from 0.
    """

    def __init__(self, path, generator=None):
        with np.load(path, allow_pickle=False) as file:
            self._weights = dict(file)
        if "about" not in self._weights:
            raise ValueError(f"{path}: not a policy; write one with `asymrl export RUN -o policy.npz`")
        self.about = json.loads(str(self._weights.pop("about")))
        if self.about["version"] not in (1, 2):
            raise ValueError(
                f"{path}: version {self.about['version']}, but this program reads versions 1 and 2; export it again"
            )
        self._begin(generator)

    def _begin(self, generator):
        self.action_names = self.about["action_names"]
        self.actions = self.about.get("actions", {})
        self._reading = {tuple(each["path"]): each for each in self.about.get("reading", [])}
        self.is_vector = "low" in self.actions
        self.sizes = self.actions.get("sizes")
        self.is_greedy = "values" in self.about.get("results", ())
        self._shown = ["mean", "spread"] if self.is_vector else ["values"] if self.is_greedy else ["probabilities"]
        self.generator = generator
        self.reset()

    def reset(self):
        """Clears the memory: an episode begins."""
        if self.is_vector:
            self.previous_action = np.zeros(len(self.action_names), np.float32)
        else:
            self.previous_action = -1 if self.sizes is None else np.full(len(self.sizes), -1)
        self._memory = {name: np.zeros((1, *shape), np.float32) for name, shape in self.about["memory"]}

    def act(self, observation):
        """The next action, as the environment takes it: an index, a vector of indices, or one within its bounds."""
        self.previous_action = self.draw(self.observe(observation), self.generator)
        return self.to_env(self.previous_action)

    def draw(self, shown, generator):
        """An action from what `observe` returns: sampled, or without a generator the most likely one."""
        if self.is_vector:
            mean, spread = np.split(shown, 2)
            noise = 0 if generator is None else generator.normal(size=mean.shape)
            return (mean + spread * noise).astype(np.float32)
        if self.sizes is None:
            return self._draw_index(shown, generator)
        entries = np.split(shown, np.cumsum(self.sizes)[:-1])
        return np.array([self._draw_index(shares, generator) for shares in entries])

    def _draw_index(self, shares, generator):
        if generator is None or self.is_greedy:
            return int(shares.argmax())
        return int(np.sum(np.cumsum(shares)[:-1] <= generator.random()))

    def to_env(self, action):
        """An action of the policy as the environment takes it."""
        if self.sizes is not None:
            return np.add(action, self.actions["first"]).astype(self.actions["dtype"]).reshape(self.actions["shape"])
        if not self.is_vector:
            return int(action) + self.actions.get("first", 0)
        pairs = zip(self.actions["low"], self.actions["high"], strict=True)
        # An entry without a bound is not scaled.
        ends = np.array([(-1, 1) if None in pair else pair for pair in pairs], np.float32).T
        placed = (ends[0] + ends[1]) / 2 + (ends[1] - ends[0]) / 2 * action
        dtype = self.actions.get("dtype", "float32")
        low, high = (
            np.array([sign * np.inf if bound is None else bound for bound in self.actions[name]], dtype)
            for name, sign in (("low", -1), ("high", 1))
        )
        return np.clip(placed.astype(dtype), low, high).reshape(self.actions["shape"])

    def observe(self, observation):
        """Takes in an observation, made after `previous_action`. Returns the probabilities of the next action.

        If actions are vectors of indices, returns the probabilities of each entry, one after the other; if they are
        vectors of numbers, the means of the entries and then their spreads. Of a policy that takes the best action, it
        returns the action values.
        """
        values = {**self._weights, **self._read(observation)}
        for operator, inputs, outputs, attributes in self.about["nodes"]:
            result = OPERATORS[operator](*(values[name] for name in inputs), **attributes)
            values.update(zip(outputs, result if operator == "Split" else [result], strict=True))
        self._memory = {name: values["next_" + name] for name in self._memory}
        return np.concatenate([values[name][0] for name in self._shown])

    def _read(self, observation):
        """The inputs of a step, each with a leading axis of one episode."""
        previous = np.array([self.previous_action], np.float32 if self.is_vector else np.int64)
        values = {"previous_action": previous, **self._memory}
        for name, path, shape, dtype in self.about["observation"]:
            how = self._reading.get(tuple(path), {"keys": path, "first": 0, "scale": 1})
            part = observation
            for key in how["keys"]:
                part = part[key]
            part = np.asarray(part).astype(dtype, casting="same_kind").reshape(shape)
            values[name] = ((part - np.array(how["first"], dtype)) * np.array(how["scale"], dtype))[None]
        return values
