"""The only door to the fast paths: which functions of the library have one, and where it is.

A function with a fast path is marked with `@replaceable` and written as if there were none. What is called in its place
stands in `FAST_PATHS`: a function of this package that gets the plain function and its arguments. It decides by shapes,
and with `jax.lax.platform_dependent` by device, which of the two computes the result. Nothing else in the library knows
of it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

FAST_PATHS = {
    "asymrl.learners.rollout.step_by_step": "asymrl.kernels.kernel_rollout.play_episodes",
    "asymrl.nn.layers.project_episodes": "asymrl.kernels.grid_product.project_episodes",
    "asymrl.nn.gru.forward_steps": "asymrl.kernels.gru_steps.forward_steps",
    "asymrl.nn.gru.backward_steps": "asymrl.kernels.gru_steps.backward_steps",
}


def replaceable(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function, or where it has one, its fast path. `plain` gives it without."""

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        return fast_path(f"{function.__module__}.{function.__qualname__}")(function, *arguments, **named)

    return call


def plain(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function without its fast path."""
    return inspect.unwrap(function)


@functools.cache
def fast_path(name: str) -> Callable[..., Any]:
    """The fast path of the function with this name. Imported when it is first called: it may import its caller."""
    module, _, function = FAST_PATHS[name].rpartition(".")
    return getattr(importlib.import_module(module), function)
