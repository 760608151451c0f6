"""The fast paths of the gated recurrent unit, see `nn.gru`: kernels that keep its matrix in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array

from asymrl.kernels import gru_on_tensor_cores, network_kernels
from asymrl.kernels.tensor_cores import use_tensor_cores
from asymrl.nn.gru import Gates, Stream, gru_gates, previous_memory


def forward_steps(
    plain: Callable[..., Any], projected: Array, weight: Array, bias: Array, stream: Stream | None, inputs: Array | None
) -> tuple[Array, Gates]:
    """Memories and gates. The kernel computes the memories; all gates follow from them at once."""

    def on_gpu(*arguments: Any) -> tuple[Array, Gates]:
        projected, weight, bias, stream, _ = arguments
        hs = _kernels().gru_forward(*arguments)
        return hs, gru_gates(projected, previous_memory(hs, stream), weight, bias)[1]

    arguments = projected, weight, bias, stream, inputs
    if not network_kernels.suits_recurrence(projected.shape[1], weight.shape[0]):
        return plain(*arguments)
    return jax.lax.platform_dependent(*arguments, cuda=on_gpu, default=plain)


def backward_steps(
    plain: Callable[..., Any],
    gradient: Array,
    gates: Gates,
    previous: Array,
    weight: Array,
    keep: Array | None,
    inputs: Array | None,
) -> Array:
    """The gradient of the projected inputs."""
    arguments = gradient, gates, previous, weight, keep, inputs
    if not network_kernels.suits_recurrence(gradient.shape[1], weight.shape[0]):
        return plain(*arguments)
    kernel = _kernels().gru_backward
    on_gpu = lambda gradient, gates, *others: kernel(gradient, *gates, *others)  # noqa: E731
    return jax.lax.platform_dependent(*arguments, cuda=on_gpu, default=plain)


def _kernels() -> Any:
    """The module with the kernels for the precision of products."""
    return gru_on_tensor_cores if use_tensor_cores() else network_kernels
