"""The numeric settings of runs as arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import jax
import numpy as np

from asymrl.settings import Settings


@jax.tree_util.register_pytree_with_keys_class
class Numbers:
    """Numeric settings as arrays, by their names in `Settings`; with several runs, one of each per run.

    What is None in the settings is infinite here. They come from the host as NumPy arrays.
    """

    def __init__(self, values: Mapping[str, Any]):
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"no number has the name {name!r}") from None

    def replaced(self, **values: Any) -> Numbers:
        """The same with other values for some of them."""
        return Numbers({**self._values, **values})

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], Hashable]:
        names = tuple(self._values)
        return [(jax.tree_util.GetAttrKey(name), self._values[name]) for name in names], names

    @classmethod
    def tree_unflatten(cls, names: Iterable[str], values: Iterable[Any]) -> Numbers:
        return cls(dict(zip(names, values, strict=True)))


def numbers_of(settings: Settings) -> Numbers:
    """The numbers of one run."""
    whole = {each.name for each in fields(settings) if each.type == "int"} | {"log_period"}
    values = settings.numbers()
    return Numbers({name: np.asarray(values[name], np.int32 if name in whole else np.float32) for name in values})


def stack_numbers(settings: Sequence[Settings]) -> Numbers:
    """The numbers of several runs, one of each per run."""
    return jax.tree.map(lambda *each: np.stack(each), *map(numbers_of, settings))
