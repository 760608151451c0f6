"""How programs are compiled: options, precision, memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import SingleDeviceSharding

from asymrl.settings import Settings

SCHEDULING = "xla_gpu_command_buffer_scheduling_mode"  # left as it is if XLA_FLAGS names it


def placed(tree: Any, lanes: int, device: Any) -> Any:
    """Shapes with an axis of lanes in front, on a device, to compile for."""
    sharding = SingleDeviceSharding(device)
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((lanes, *leaf.shape), leaf.dtype, sharding=sharding), tree)


def bytes_of(executable: Any) -> int | None:
    """Memory for the arguments, results and temporary arrays of a compiled function, if the compiler says."""
    analysis = executable.memory_analysis()
    if analysis is None:
        return None
    # Donated memory counts once: it is argument and output at the same time.
    own = analysis.argument_size_in_bytes + analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    return int(own + analysis.temp_size_in_bytes)


def compiler_options(platform: str, settings: Settings | None = None) -> dict[str, Any]:
    """Options of the compiler for training on a platform; with the settings of a program, those of its learner too."""
    if platform == "cpu":
        # The products are too small to share among threads; several lanes or pools use the cores better.
        return {"xla_cpu_multi_thread_eigen": False}
    if platform in ("gpu", "cuda"):
        # Searching for the best Triton product of every shape makes compilation ten times longer, training no faster.
        options: dict[str, Any] = {"xla_gpu_enable_triton_gemm": False}
        if settings is not None and _runs_concurrently(platform, settings):
            options[SCHEDULING] = "CONCURRENT"
        return options
    return {}


def _runs_concurrently(platform: str, settings: Settings) -> bool:
    """Whether independent kernels of a compiled program run at the same time."""
    # An update of 20 runs takes 0.89 of the time or less. Tried on 1 G steps of A2C in the memory rooms; of V(h, s)
    # only briefly since its head has inputs that are zero. A trial of DQN, and one of V(h, s) with a `lax.cond` inside
    # that for the length of episodes, stopped in their first updates for unknown reasons.
    is_gpu, flags = platform in ("gpu", "cuda"), os.environ.get("XLA_FLAGS", "")
    return is_gpu and settings.how.learner == "a2c" and SCHEDULING not in flags


def compile_lowered(lowered: Any, options: Mapping[str, Any]) -> Any:
    """A lowered function, compiled with the options that this version of XLA knows: they come and go."""
    known = dict(options)
    while True:
        try:
            return lowered.compile(compiler_options=known)
        except jax.errors.JaxRuntimeError as error:
            refused = [name for name in known if f"option: '{name}'" in str(error) or f"option {name}," in str(error)]
            if not refused:
                raise
            warnings.warn(f"this version of XLA refuses {', '.join(refused)}; training may be slower", stacklevel=2)
            known = {name: value for name, value in known.items() if name not in refused}


def precision(settings: Settings) -> Any:
    """A context in which matrix products are as exact as the settings require."""
    return jax.default_matmul_precision("tensorfloat32" if settings.precision == "tf32" else "highest")
