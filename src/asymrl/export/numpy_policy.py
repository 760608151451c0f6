"""A trained policy in NumPy. This file needs nothing else: copy it next to `policy.npz`."""

import json
import math
import zipfile
from typing import Any

import numpy as np


def _softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _average_pool(x, kernel_shape, strides):
    (h, w), (n, c, height, width) = kernel_shape, x.shape
    assert list(strides) == list(kernel_shape)
    even = x[:, :, : height // h * h, : width // w * w]
    return even.reshape(n, c, height // h, h, width // w, w).mean((3, 5))


def _convolution(x, kernel, bias, strides):
    down, right = strides
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel.shape[2:], (2, 3))[:, :, ::down, ::right]
    y = np.tensordot(windows, kernel, ((1, 4, 5), (1, 2, 3)))  # [episode, height, width, channel]
    return (y + bias).transpose(0, 3, 1, 2)


OPERATORS = {  # the ONNX operators that policies consist of
    "Add": np.add,
    "Clip": np.clip,
    "AveragePool": _average_pool,
    "Cast": lambda x, to: x.astype({1: np.float32, 7: np.int64, 9: bool}[to]),
    "Conv": _convolution,
    "Concat": lambda *xs, axis: np.concatenate(xs, axis),
    "Expand": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))),
    "Gather": lambda x, index, axis: np.take(x, index, axis),
    "Identity": lambda x: x,
    "MatMul": np.matmul,
    "Max": np.maximum,
    "Min": np.minimum,
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
    # Only in modules of the user's own.
    "Abs": np.abs,
    "And": np.logical_and,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Div": np.divide,
    "Equal": np.equal,
    "Erf": lambda x: np.vectorize(math.erf, otypes=[np.float32])(x),
    "Exp": np.exp,
    "Floor": np.floor,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Log": np.log,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Pow": np.power,
    "ReduceMax": lambda x, axes, keepdims: x.max(tuple(axes), keepdims=bool(keepdims)),
    "ReduceMin": lambda x, axes, keepdims: x.min(tuple(axes), keepdims=bool(keepdims)),
    "ReduceSum": lambda x, axes, keepdims: x.sum(tuple(axes), keepdims=bool(keepdims)),
    "Sign": np.sign,
    "Sin": np.sin,
    "Sqrt": np.sqrt,
    "Where": np.where,
}


class NumpyPolicy:
    """Acts as the exported agent does: `reset()` before each episode, then `act(observation)` until it ends.

    Actions are sampled with `generator`, a `numpy.random.Generator`; without one, the most likely action is taken.
    If another action is taken instead, set `policy.previous_action = action`; there, numbers are in coordinates where
    -1 and 1 are their bounds, indices count from 0, and in actions with parts all indices come before all numbers.
    """

    def __init__(self, path, generator=None):
        self._weights = {}
        with open(path, "rb") as file:
            if zipfile.is_zipfile(file):
                file.seek(0)
                try:
                    self._weights = dict(np.load(file, allow_pickle=False))
                except zipfile.BadZipFile as error:
                    raise ValueError(f"{path}: damaged: {error}; export it again") from None
        if "about" not in self._weights:
            raise ValueError(f"{path}: not a policy; write one with `asymrl export RUN -o policy.npz`")
        self.about = json.loads(str(self._weights.pop("about")))
        if self.about["version"] not in (1, 2, 3):
            raise ValueError(
                f"{path}: version {self.about['version']}, but this program reads versions 1 to 3; export it again"
            )
        self._begin(generator)

    def _begin(self, generator):
        self.action_names = self.about["action_names"]
        self.actions = self.about.get("actions", {})
        self._reading = {tuple(each["path"]): each for each in self.about.get("reading", [])}
        self.sizes = self.actions.get("sizes")  # of the choices, if actions are more than one index
        self.has_numbers = bool(self.actions.get("low"))
        self.is_greedy = "values" in self.about.get("results", ())
        shares = [] if self.has_numbers and not self.sizes else ["values" if self.is_greedy else "probabilities"]
        self._shown = shares + (["mean", "spread"] if self.has_numbers else [])
        self.generator = generator
        self.reset()

    def reset(self):
        """Clears the memory: an episode begins."""
        if self.has_numbers:
            choices = [-1] * len(self.sizes or ())
            self.previous_action = np.array([*choices, *([0] * len(self.actions["low"]))], np.float32)
        else:
            self.previous_action = -1 if self.sizes is None else np.full(len(self.sizes), -1)
        self._memory = {name: np.zeros((1, *shape), np.float32) for name, shape in self.about["memory"]}

    def act(self, observation) -> Any:
        """The next action as the environment takes it, in its own units: an index, an array, or a dict or tuple."""
        self.previous_action = self.draw(self.observe(observation), self.generator)
        return self.to_env(self.previous_action)

    def draw(self, shown, generator):
        """An action from what `observe` returns: sampled, or without a generator the most likely one."""
        if self.sizes is None and not self.has_numbers:
            return self._draw_index(shown, generator)
        ends = np.cumsum(self.sizes or [0])
        entries = np.split(shown[: ends[-1]], ends[:-1]) if self.sizes else []
        indices = np.array([self._draw_index(shares, generator) for shares in entries], np.int64)
        if not self.has_numbers:
            return indices
        mean, spread = np.split(shown[ends[-1] :], 2)
        noise = 0 if generator is None else generator.normal(size=mean.shape)
        return np.concatenate([indices, mean + spread * noise]).astype(np.float32)

    def _draw_index(self, shares, generator):
        if generator is None or self.is_greedy:
            return int(shares.argmax())
        return int(np.sum(np.cumsum(shares)[:-1] <= generator.random()))

    def to_env(self, action) -> Any:
        """An action of the policy as the environment takes it."""
        if self.sizes is None and not self.has_numbers:
            return int(action) + self.actions.get("first", 0)
        action = np.asarray(action)
        first = len(self.sizes or ())
        numbers = self._placed(action[first:]) if self.has_numbers else action[first:]
        if "parts" in self.actions:
            return self._assembled(self.actions["parts"], action[:first].astype(np.int64), numbers)
        form = {"take": "choices" if self.sizes else "numbers", "at": 0, "count": len(action), **self.actions}
        return self._assembled(form, action[:first], numbers)

    def _placed(self, numbers):
        """Numbers in the units of the environment; an entry without a bound is not scaled."""
        bounds = list(zip(self.actions["low"], self.actions["high"], strict=True))
        ends = np.array([(-1, 1) if None in pair else pair for pair in bounds], np.float32).T
        return (ends[0] + ends[1]) / 2 + (ends[1] - ends[0]) / 2 * numbers

    def _assembled(self, form, choices, numbers):
        """A part of an action, as its form says: a dict or tuple of parts, some of the choices, or of the numbers."""
        if "take" not in form:
            parts = [self._assembled(part, choices, numbers) for part in form["parts"]]
            return tuple(parts) if form["keys"] is None else dict(zip(form["keys"], parts, strict=True))
        own = slice(form["at"], form["at"] + form["count"])
        if form["take"] == "choices":
            taken = np.add(choices[own], form["first"])
            return int(taken[0]) if form["shape"] is None else taken.astype(form["dtype"]).reshape(form["shape"])
        dtype = np.dtype(form.get("dtype", "float32"))
        exact = dtype if dtype.kind == "f" else np.dtype("float64")
        low, high = (
            np.array([sign * np.inf if bound is None else bound for bound in self.actions[name][own]], exact)
            for name, sign in (("low", -1), ("high", 1))
        )
        placed = numbers[own] if dtype.kind == "f" else np.rint(numbers[own])
        return np.clip(placed.astype(exact), low, high).astype(dtype).reshape(form["shape"])

    def observe(self, observation):
        """Takes in an observation, made after `previous_action`. Returns the probabilities of the next action.

        If actions have several choices, returns the probabilities of each, one after the other; then, for numbers,
        their means and their spreads. For a policy that takes the best action, returns the action values.
        """
        values = {**self._weights, **self._read(observation)}
        for operator, inputs, outputs, attributes in self.about["nodes"]:
            try:
                result = OPERATORS[operator](*(values[name] for name in inputs), **attributes)
            except IndexError as error:  # a row of a table, by an index that it does not have
                raise ValueError(f"{observation!r} is not one of the environment's observations: {error}") from error
            values.update(zip(outputs, result if operator == "Split" else [result], strict=True))
        self._memory = {name: values["next_" + name] for name in self._memory}
        return np.concatenate([values[name][0] for name in self._shown])

    def _read(self, observation):
        """The inputs of a step, each with a leading axis of one episode."""
        previous = np.array([self.previous_action], np.float32 if self.has_numbers else np.int64)
        values = {"previous_action": previous, **self._memory}
        for name, path, shape, dtype in self.about["observation"]:
            how = self._reading.get(tuple(path), {"keys": path, "first": 0, "scale": 1})
            part = observation
            for key in how["keys"]:
                part = part[key]
            part = np.asarray(part).astype(dtype, casting="same_kind")
            part = part.transpose(how.get("axes")).reshape(shape) if how.get("axes") else part.reshape(shape)
            values[name] = ((part - np.array(how["first"], dtype)) * np.array(how["scale"], dtype))[None]
        return values
