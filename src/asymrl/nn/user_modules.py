"""User-defined features and memories: Equinox modules, given by their class.

A class of features is constructed with a space and a key; its objects map one value of the space to a vector. A class
of memories is constructed with a number of features and a key; `initial()` gives the state before the first input, and
`step(state, x)` takes in that many numbers and gives the next state and as many features.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from asymrl.nn.architecture import Architecture
from asymrl.nn.layers import Features, Linear
from asymrl.nn.memory import Carry, Memory
from asymrl.worlds.spaces import Record, Space


class UserFeatures(Features):
    """Features that a user's module computes, one value at a time."""

    arrays: Any
    rest: Any = eqx.field(static=True)
    space: Space = eqx.field(static=True)
    count: int = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, space: Space, made_by: Any, name: str):
        """`made_by`: the class; `name`: where it comes from, for messages."""
        module = _build(name, made_by, space, key)
        if not callable(module):
            raise ValueError(f"{name}: its objects cannot be called; give it a __call__(self, value)")
        result = _call(name, "__call__", module, example(space))
        if not hasattr(result, "shape") or len(result.shape) != 1 or not jnp.issubdtype(result.dtype, jnp.floating):
            raise ValueError(f"{name}: __call__ gives {_shown(result)}, expected a vector of floats")
        self.arrays, self.rest = _taken_apart(name, module)
        self.space, self.count, self.name = space, result.shape[0], name

    @property
    def size(self) -> int:
        return self.count

    @property
    def module(self) -> Any:
        return eqx.combine(self.arrays, self.rest)

    def __call__(self, value: Any) -> Float[Array, "*batch size"]:
        value = only(self.space, value)
        leaf, shape = jax.tree.leaves(value)[0], jax.tree.leaves(example(self.space))[0].shape
        leading = leaf.shape[: leaf.ndim - len(shape)]
        rows = jax.tree.map(lambda part: part.reshape(-1, *part.shape[len(leading) :]), value)
        features = jax.vmap(self.module)(rows)
        return features.reshape(*leading, self.size).astype(jnp.float32)


def user_features(key: PRNGKeyArray, space: Space, architecture: Architecture, setting: str) -> UserFeatures | None:
    """The user-defined features that a setting of the architecture names; None if it names none."""
    name = getattr(architecture, setting)
    return None if name is None else UserFeatures(key, space, architecture.made_by(setting, name), name)


class UserMemory(Memory):
    """A memory that a user's module computes, after a linear layer with one output per feature."""

    layer: Linear
    arrays: Any
    rest: Any = eqx.field(static=True)
    size: int = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, inputs: int, size: int, made_by: Any, name: str):
        layer_key, module_key = jax.random.split(key)
        module = _build(name, made_by, size, module_key)
        for method in ("initial", "step"):
            if not callable(getattr(module, method, None)):
                raise ValueError(f"{name}: a memory needs the method {method}")
        state = _call(name, "initial", lambda module: module.initial(), module)
        x = jax.ShapeDtypeStruct((size,), jnp.float32)
        result = _call(name, "step", lambda module, state, x: module.step(state, x), module, state, x)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ValueError(f"{name}: step gives {_shown(result)}, expected (state, features)")
        after, features = result
        if _form(after) != _form(state):
            raise ValueError(
                f"{name}: step gives another kind of state than initial: {_form(after)} and {_form(state)}"
            )
        if getattr(features, "shape", None) != (size,):
            raise ValueError(f"{name}: step gives features {_shown(features)}, expected {size} numbers (memory_size)")
        self.layer = Linear(layer_key, inputs, size)
        self.arrays, self.rest = _taken_apart(name, module)
        self.size, self.name = size, name

    @property
    def module(self) -> Any:
        return eqx.combine(self.arrays, self.rest)

    def projection(self) -> tuple[Float[Array, "inputs size"], Float[Array, "size"]]:
        return self.layer.weight, self.layer.bias

    def initial(self, episodes: int) -> Carry:
        state = jax.tree.map(jnp.asarray, self.module.initial())
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (episodes, *leaf.shape)), state)

    def advance(
        self, carry: Carry, projected: Float[Array, "episode size"]
    ) -> tuple[Carry, Float[Array, "episode size"]]:
        return jax.vmap(lambda state, x: self.module.step(state, x))(carry, projected)


def only(space: Space, value: Any) -> Any:
    """The value without the parts that are not in the space."""
    if isinstance(space, Record):
        return {name: only(part, value[name]) for name, part in space.items()}
    return value


def example(space: Space) -> Any:
    """Shapes and dtypes of a value."""
    if isinstance(space, Record):
        return {name: example(part) for name, part in space.items()}
    return jax.ShapeDtypeStruct(space.shape, space.dtype)


def _build(name: str, module_class: Any, *arguments: Any) -> Any:
    try:
        return module_class(*arguments)
    except Exception as error:
        what = " and ".join(type(each).__name__ if isinstance(each, Space) else "a number" for each in arguments[:1])
        raise ValueError(f"{name}: cannot be made from {what} and a key: {type(error).__name__}: {error}") from error


def _call(name: str, method: str, function: Any, *arguments: Any) -> Any:
    """The shapes that a method returns. Computes nothing."""
    try:
        return eqx.filter_eval_shape(function, *arguments)
    except Exception as error:
        text = " ".join(str(error).split())
        raise ValueError(f"{name}: {method} fails: {type(error).__name__}: {text}") from error


def _taken_apart(name: str, module: Any) -> tuple[Any, Any]:
    """What is learned, and the rest, which must be the same in all runs."""
    if not isinstance(module, eqx.Module):
        raise ValueError(f"{name}: is a {type(module).__name__}, expected an equinox.Module")
    for path, leaf in jax.tree.leaves_with_path(module):
        where = f"{name}: {jax.tree_util.keystr(path).lstrip('.')}"
        if isinstance(leaf, np.ndarray):
            raise ValueError(
                f"{where} is an array of NumPy; make it one of JAX to learn it, or make it where it is used"
            )
        if eqx.is_array(leaf) and not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"{where} is an array of {leaf.dtype}, and only floats are learned; make it where it is used"
            )
    return eqx.partition(module, eqx.is_array)


def _form(tree: Any) -> str:
    return str(jax.tree.map(_shown, tree))


def _shown(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return f"a {type(value).__name__}"
