"""A trained policy in NumPy. This file needs nothing else: copy it next to `policy.npz` and go."""

import json

import numpy as np


def _softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


OPERATORS = {  # those of ONNX that a policy is made of
    "Add": np.add,
    "Concat": lambda *xs, axis: np.concatenate(xs, axis),
    "Gather": lambda x, index, axis: np.take(x, index, axis),
    "Identity": lambda x: x,
    "MatMul": np.matmul,
    "Mul": np.multiply,
    "Relu": lambda x: np.maximum(x, 0),
    "Reshape": lambda x, shape: x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)]),
    "Sigmoid": lambda x: 0.5 + 0.5 * np.tanh(0.5 * x),
    "Softmax": _softmax,
    "Split": lambda x, axis, num_outputs: np.split(x, num_outputs, axis),
    "Sub": np.subtract,
    "Tanh": np.tanh,
    "Transpose": lambda x, perm: x.transpose(perm),
}


class NumpyPolicy:
    """Acts as the exported agent does: `reset()` before each episode, then `act(observation)` until it ends.

    Actions are sampled with `generator`, a `numpy.random.Generator`; without one, the most likely action is taken.
    Should another action than that be taken, say so: `policy.previous_action = action`.
    """

    def __init__(self, path, generator=None):
        with np.load(path, allow_pickle=False) as file:
            self._weights = dict(file)
        if "about" not in self._weights:
            raise ValueError(f"{path}: is not a policy; write one with `asymrl export RUN -o policy.npz`")
        self.about = json.loads(str(self._weights.pop("about")))
        if self.about["version"] != 1:
            raise ValueError(f"{path}: has version {self.about['version']}, this program reads 1; export it again")
        self.action_names = self.about["action_names"]
        self.generator = generator
        self.reset()

    def reset(self):
        """Forgets the past: an episode begins."""
        self.previous_action = -1
        self._memory = {name: np.zeros((1, *shape), np.float32) for name, shape in self.about["memory"]}

    def act(self, observation):
        """The next action, as an index."""
        shares = self.observe(observation)
        if self.generator is None:
            action = shares.argmax()
        else:
            action = np.sum(np.cumsum(shares)[:-1] <= self.generator.random())
        self.previous_action = int(action)
        return self.previous_action

    def observe(self, observation):
        """Takes in what is seen now, after `previous_action`; the probabilities of the next action."""
        values = {**self._weights, **self._read(observation)}
        for operator, inputs, outputs, attributes in self.about["nodes"]:
            result = OPERATORS[operator](*(values[name] for name in inputs), **attributes)
            values.update(zip(outputs, result if operator == "Split" else [result], strict=True))
        self._memory = {name: values["next_" + name] for name in self._memory}
        return values["probabilities"][0]

    def _read(self, observation):
        """The inputs of a step, each with an axis for the one episode."""
        values = {"previous_action": np.array([self.previous_action]), **self._memory}
        for name, path, shape, dtype in self.about["observation"]:
            part = observation
            for key in path:
                part = part[key]
            values[name] = np.asarray(part).astype(dtype, casting="same_kind").reshape(1, *shape)
        return values
