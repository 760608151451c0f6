"""One step of a network as a list of ONNX operators.

Every kind of file is made from this list: an ONNX file holds it unchanged, and NumPy needs one line for each kind of
operator. All values have a leading axis for episodes that are played side by side, `[episode, ...]`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

PREVIOUS_ACTION, LOGITS, PROBABILITIES = "previous_action", "logits", "probabilities"
MEAN, SPREAD = "mean", "spread"  # of actions that are vectors of numbers, where -1 and 1 are the bounds
ACTION = "action"  # the means in the units of the environment, within its bounds
FLOAT, INT64, BOOL = 1, 7, 9  # the numbers of these types in ONNX
VALUES = "values"  # of the actions, for a policy that takes the best one


class Node(NamedTuple):
    """An operator of ONNX, applied to named values."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, int | list[int]]


class Part(NamedTuple):
    """A part of the observation that the network reads."""

    name: str
    path: tuple[str, ...]  # the keys that lead to it, where observations are dictionaries
    shape: tuple[int, ...]  # without the axis of episodes
    dtype: str


class Slot(NamedTuple):
    """A value that is kept from one step to the next. Before the first step it is zero."""

    name: str
    shape: tuple[int, ...]  # without the axis of episodes

    @property
    def after(self) -> str:
        """The name of the same value after the step."""
        return f"next_{self.name}"


class OperatorGraph:
    """Operators in the order of their computation, with the weights, inputs and memory that they refer to."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.weights: dict[str, np.ndarray] = {}
        self.parts: list[Part] = []
        self.slots: list[Slot] = []
        self.results: dict[str, int] = {}  # the outputs that describe the policy, and how many numbers each has
        self.entries: int | None = None  # how many entries an action has, if it is a vector
        self._values = 0

    def weight(self, name: str, numbers: ArrayLike) -> str:
        """A constant. A name that is used again must stand for the same numbers, which are stored once."""
        array = np.asarray(numbers)
        stored_weight = self.weights.setdefault(name, array)
        assert np.array_equal(stored_weight, array), f"two weights are called {name}"
        return name

    def part(self, path: tuple[str, ...], shape: tuple[int, ...], dtype: str) -> str:
        """The part of the observation at these keys, as an input."""
        name = "/".join(("observation", *path))
        self.parts.append(Part(name, path, shape, dtype))
        return name

    def slot(self, name: str, shape: tuple[int, ...]) -> str:
        """A value of the memory, as an input."""
        self.slots.append(Slot(name, shape))
        return name

    def apply(self, operator: str, *inputs: str, **attributes: int | list[int]) -> str:
        """The result of an operator."""
        output, self._values = f"value_{self._values}", self._values + 1
        self.nodes.append(Node(operator, inputs, (output,), attributes))
        return output

    def reshape(self, x: str, *shape: int) -> str:
        """A value in another shape; 0 keeps the length of an axis."""
        name = "shape_" + "_".join("any" if n < 0 else str(n) for n in shape)
        return self.apply("Reshape", x, self.weight(name, np.array(shape, np.int64)))

    def name_output(self, x: str, name: str) -> None:
        """Makes a value an output of the step."""
        self.nodes.append(Node("Identity", (x,), (name,), {}))

    def name_result(self, x: str, name: str, count: int) -> None:
        """Makes a value an output that describes the policy, with `count` numbers."""
        self.results[name] = count
        self.name_output(x, name)
