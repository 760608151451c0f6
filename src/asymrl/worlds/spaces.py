"""Spaces of actions, observations and latent states.

Spaces are plain frozen values that can be compared, hashed and read without a device, so that models are built and
errors raised before anything is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Discrete:
    """One index, `0 <= index < n`. With `blank`, the last one is a symbol without information."""

    n: int
    blank: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int32)

    def problem(self, value: Any) -> str | None:
        """Why `value` is not in the space, or None if it is."""
        return _index_problem(value, self.n, ())


@dataclass(frozen=True)
class MultiDiscrete:
    """A vector of indices, entry i with `0 <= index < sizes[i]`: several choices made at once."""

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        sizes = tuple(int(size) for size in self.sizes)
        if not sizes or min(sizes) < 1:
            raise ValueError(f"MultiDiscrete sizes {sizes}: at least one entry is needed, each with at least 1 value")
        object.__setattr__(self, "sizes", sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.sizes),)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int32)

    def problem(self, value: Any) -> str | None:
        """Why `value` is not in the space, or None if it is."""
        array = np.asarray(value)
        if problem := _integers_problem(array, self.shape):
            return problem
        outside = (array < 0) | (array >= np.asarray(self.sizes))
        if outside.any():
            at = int(outside.argmax())
            return f"has {array[at]} at ({at},), outside 0..{self.sizes[at] - 1}"
        return None


@dataclass(frozen=True)
class Indices:
    """An array of indices, each `0 <= index < n`: a grid of cell types, for example.

    `fixed` declares that this part of a latent does not change during an episode, which lets models compute less.
    """

    n: int
    shape: tuple[int, ...]
    fixed: bool = False

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.uint8 if self.n <= 256 else np.int32)

    def problem(self, value: Any) -> str | None:
        """Why `value` is not in the space, or None if it is."""
        return _index_problem(value, self.n, self.shape)


@dataclass(frozen=True)
class Place(Indices):
    """A grid, the last two axes of `shape`, of 0s and a single 1, at least `margin` cells from the border."""

    n: int = 2
    shape: tuple[int, ...] = (1, 1)
    margin: int = 0

    def problem(self, value: Any) -> str | None:
        """Why `value` is not in the space, or None if it is."""
        if problem := super().problem(value):
            return problem
        marked = np.asarray(value)
        if (marked.sum((-2, -1)) != 1).any():
            return "does not mark exactly one cell"
        if (self.inner(marked).sum((-2, -1)) != 1).any():
            return f"marks a cell less than {self.margin} from the border"
        return None

    def inner(self, marked: Any) -> Any:
        """The cells of a value, `[..., H, W]`, that may be marked."""
        H, W = self.shape[-2:]
        return marked[..., self.margin : H - self.margin, self.margin : W - self.margin]


@dataclass(frozen=True)
class Image(Indices):
    """A picture of bytes, `[height, width, channels]`."""

    n: int = 256
    shape: tuple[int, ...] = (1, 1, 1)


@dataclass(frozen=True)
class Box:
    """A float array with bounds, given once for all entries or once per entry of the last axis."""

    shape: tuple[int, ...]
    low: float | tuple[float, ...] = -np.inf
    high: float | tuple[float, ...] = np.inf

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float32)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bound, each an array of the space's shape."""
        low, high = (np.broadcast_to(np.asarray(b, np.float32), self.shape) for b in (self.low, self.high))
        return low, high

    def problem(self, value: Any) -> str | None:
        """Why `value` is not in the space, or None if it is."""
        array = np.asarray(value)
        if array.shape != self.shape:
            return f"has shape {array.shape}, expected {self.shape}"
        if not np.issubdtype(array.dtype, np.number):
            return f"has dtype {array.dtype}, expected numbers"
        if not np.all(np.isfinite(array)):
            return "holds a value that is not finite"
        low, high = self.bounds()
        # A float64 value on the bound may lie just outside the rounded float32 bound.
        outside = (array < low - 1e-6) | (array > high + 1e-6)
        if outside.any():
            at = tuple(int(i) for i in np.argwhere(outside)[0])
            return f"has {array[at]} at {at}, outside [{low[at]:g}, {high[at]:g}]"
        return None


@dataclass(frozen=True)
class Simplex(Box):
    """Probabilities of `shape[0]` states, which sum to 1: a belief."""

    low: float | tuple[float, ...] = 0.0
    high: float | tuple[float, ...] = 1.0

    def problem(self, value: Any) -> str | None:
        """Why `value` is not in the space, or None if it is."""
        if problem := super().problem(value):
            return problem
        total = float(np.sum(np.asarray(value, np.float64)))
        return None if abs(total - 1) <= 1e-5 else f"sums to {total:.6g}, expected 1"


@dataclass(frozen=True)
class Record:
    """Named parts, each with a space of its own. Values are dictionaries with exactly these keys."""

    fields: tuple[tuple[str, Space], ...]

    def items(self) -> tuple[tuple[str, Space], ...]:
        return self.fields

    def __getitem__(self, name: str) -> Space:
        return dict(self.fields)[name]

    def problem(self, value: Any) -> str | None:
        """Why `value` is not in the space, or None if it is."""
        names = [name for name, _ in self.fields]
        if not isinstance(value, Mapping):
            return f"is a {type(value).__name__}, expected a dictionary with the keys {', '.join(names)}"
        if set(value) != set(names):
            return f"has the keys {sorted(value)}, expected {sorted(names)}"
        for name, space in self.fields:
            if problem := space.problem(value[name]):
                return f"{name!r} {problem}"
        return None


Leaf = Discrete | MultiDiscrete | Indices | Box
Space = Leaf | Record
ActionSpace = Discrete | MultiDiscrete | Box | Record


def leaves(space: Space, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    """The parts of a space that are not records, each with the names that lead to it."""
    if isinstance(space, Record):
        for name, part in space.items():
            yield from leaves(part, (*path, name))
    else:
        yield path, space


def size_of(space: Space) -> int:
    """How many numbers a value of the space has."""
    return sum(math.prod(leaf.shape) for _, leaf in leaves(space))


def choice_sizes(actions: Space) -> tuple[int, ...]:
    """How many values each choice of an action has: its index or each index of its vector, for all of its parts."""
    sizes: list[int] = []
    for _, leaf in leaves(actions):
        sizes += [leaf.n] if isinstance(leaf, Discrete) else leaf.sizes if isinstance(leaf, MultiDiscrete) else []
    return tuple(sizes)


def number_box(actions: Space) -> Box:
    """The space of the numbers of an action, those of all its parts in one vector."""
    low: list[float] = []
    high: list[float] = []
    for _, leaf in leaves(actions):
        if isinstance(leaf, Box):
            for bounds, end in ((low, leaf.low), (high, leaf.high)):
                bounds += np.broadcast_to(np.asarray(end, np.float64), leaf.shape).ravel().tolist()
    return Box((len(low),), tuple(low), tuple(high))


def entry_names(actions: Space) -> tuple[str, ...]:
    """A name for each choice of an action of several parts, then for each of its numbers, such as `arm.0`."""
    choices: list[str] = []
    numbers: list[str] = []
    for path, leaf in leaves(actions):
        name, count = ".".join(path), math.prod(leaf.shape)
        own = [name] if count == 1 and path else [f"{name}.{i}" if path else f"a{i}" for i in range(count)]
        (numbers if isinstance(leaf, Box) else choices).extend(own)
    return (*choices, *numbers)


def action_problem(actions: Space, path: tuple[str, ...] = ()) -> str | None:
    """Why actions of this space have no policy, or None if they do."""
    for names, leaf in leaves(actions, path):
        if not isinstance(leaf, Discrete | MultiDiscrete | Box):
            where = f"its part {'.'.join(names)!r} is" if names else "they are"
            return f"{where} of the kind {type(leaf).__name__}; use Discrete, MultiDiscrete, Box or a Record of these"
    return None if next(leaves(actions), None) else "they have no parts"


def in_order(space: Space, value: Any) -> Any:
    """A value with the parts of dictionaries in the order of the space; JAX sorts them by name."""
    if isinstance(space, Record):
        return {name: in_order(part, value[name]) for name, part in space.items()}
    return value


def value_text(value: Any, *, inside: bool = False) -> str:
    """A value for people: numbers with three digits, and the name before each part of a dictionary."""
    if isinstance(value, Mapping):
        text = ", ".join(f"{name} {value_text(part, inside=True)}" for name, part in value.items())
        return f"({text})" if inside else text
    if isinstance(value, tuple):
        text = ", ".join(value_text(part, inside=True) for part in value)
        return f"({text})" if inside else text
    array = np.ravel(np.asarray(value))
    exact = array.dtype.kind in "iub"
    return (" " if inside else ", ").join(str(int(x)) if exact else f"{x:.3g}" for x in array.tolist())


def _index_problem(value: Any, n: int, shape: tuple[int, ...]) -> str | None:
    array = np.asarray(value)
    if problem := _integers_problem(array, shape):
        return problem
    outside = (array < 0) | (array >= n)
    if outside.any():
        return f"is {array[outside].flat[0]}, outside 0..{n - 1}"
    return None


def _integers_problem(array: np.ndarray, shape: tuple[int, ...]) -> str | None:
    if array.shape != shape:
        return f"has shape {array.shape}, expected {shape}"
    if not np.issubdtype(array.dtype, np.integer):
        return f"has dtype {array.dtype}, expected integers"
    return None
