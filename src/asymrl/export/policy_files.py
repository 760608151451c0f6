"""The files: `policy.npz` for NumPy, `policy.onnx` for everything that reads ONNX."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from asymrl.export.graph import MEAN, PREVIOUS_ACTION, PROBABILITIES, OperatorGraph
from asymrl.nn.distributions import distribution_over
from asymrl.settings import Settings
from asymrl.worlds.spaces import Box, Discrete, Record, Space, choice_sizes, number_box
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World

NPZ_VERSION = 3
# Old enough for every runtime of recent years, new enough for all operators in use.
OPSET, IR_VERSION = 18, 8


class PolicyFacts(NamedTuple):
    """Where a policy comes from, and how it connects to the environment. The file records all of it."""

    world: str
    method: str
    action_names: tuple[str, ...]
    settings: dict[str, Any]
    run_seed: int
    actions: dict[str, Any] = {}
    """How an action of the policy becomes one of the environment; see `actions_of`."""
    reading: list[dict[str, Any]] = []
    """How an observation of the environment becomes the inputs; see `reading_of`."""

    @classmethod
    def of(cls, env: World, settings: Settings, run_seed: int) -> PolicyFacts:
        """The facts about a policy of a run in its world."""
        origin = (settings.world, settings.method, env.action_names, asdict(settings), run_seed)
        return cls(*origin, actions_of(env), reading_of(env))


def actions_of(env: World) -> dict[str, Any]:
    """The number of the first action; or where actions are vectors, their shape and dtype, and more.

    For numbers, the bounds of each (None: no bound); for choices, how many values each has, and the number of the
    first. An action with parts has these lists for all parts together, and in `parts` which entries each part takes.
    """
    space: Space = env.action_space
    taken = jax.tree.map(np.asarray, distribution_over(space).to_world(distribution_over(space).mode(_zeros(space))))
    taken = env.act(taken) if isinstance(env, SteppedWorld) else taken
    if isinstance(space, Discrete):
        return {"first": int(taken)}
    numbers = number_box(space)
    ends = (np.broadcast_to(np.asarray(end, np.float64), numbers.shape) for end in (numbers.low, numbers.high))
    low, high = ([_finite(bound) for bound in end] for end in ends)
    bounds = {"low": low, "high": high} if low else {}
    sizes = {"sizes": list(choice_sizes(space))} if choice_sizes(space) else {}
    form = _form(space, taken, {"choices": 0, "numbers": 0})
    if isinstance(space, Record):
        return {**sizes, **bounds, "parts": form}
    return {**sizes, **bounds, **{name: form[name] for name in ("first", "shape", "dtype") if name in form}}


def _zeros(space: Space) -> Any:
    kind = distribution_over(space)
    return jnp.zeros(kind.outputs + kind.spreads)


def _form(space: Space, taken: Any, at: dict[str, int]) -> dict[str, Any]:
    """How an action is put together, from an example of one that the environment takes: the first of each choice."""
    if isinstance(space, Record):
        is_dict = isinstance(taken, Mapping)
        by_name = {str(key): (key, value) for key, value in (taken.items() if is_dict else enumerate(taken))}
        keys = [by_name[name][0] for name, _ in space.items()] if is_dict else None
        return {"keys": keys, "parts": [_form(part, by_name[name][1], at) for name, part in space.items()]}
    what, count = "numbers" if isinstance(space, Box) else "choices", math.prod(space.shape)
    at[what], start = at[what] + count, at[what]
    array = np.asarray(taken)
    own: dict[str, Any] = {
        "shape": None if isinstance(space, Discrete) else list(array.shape),
        "dtype": str(array.dtype),
    }
    return (
        {"take": what, "at": start, "count": count}
        | ({} if what == "numbers" else {"first": array.ravel().tolist()})
        | own
    )


def reading_of(env: World) -> list[dict[str, Any]]:
    """How parts of an observation become the network's inputs; see `Conversion`. Other parts are read unchanged."""
    return [part._asdict() for part in env.conversions] if isinstance(env, SteppedWorld) else []


def _finite(bound: float) -> float | None:
    return float(bound) if np.isfinite(bound) else None


def save_npz(path: Path, graph: OperatorGraph, facts: PolicyFacts) -> None:
    """Writes the weights as NumPy arrays and the list of operators as JSON among them, under `about`."""
    description = {
        "format": "asymrl policy",
        "version": NPZ_VERSION,
        **_description(graph, facts),
        "nodes": graph.nodes,
    }

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:  # NumPy adds an ending to a name
            np.savez(file, allow_pickle=False, about=np.array(json.dumps(description)), **graph.weights)

    _replace(path, write)


def save_onnx(path: Path, graph: OperatorGraph, facts: PolicyFacts) -> None:
    """Writes the graph as an ONNX model of one step; the description becomes its metadata."""
    onnx = _import_onnx()
    model = onnx.helper.make_model(
        _onnx_graph(graph, facts),
        producer_name="asymrl",
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        doc_string=f"One step of a policy. At the first step, previous_action is {_no_action(graph)} and the memory is "
        "zeros; each next_memory is the memory of the following step.",
    )
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in _description(graph, facts).items()
    }
    onnx.helper.set_model_props(model, texts)
    onnx.checker.check_model(model, full_check=True)
    _replace(path, lambda temporary: onnx.save_model(model, os.fspath(temporary), format="protobuf"))


def _no_action(graph: OperatorGraph) -> str:
    if graph.entries is None:
        return "-1"
    if MEAN not in graph.results:
        return "-1 in each entry"
    return "-1 in each entry that is a choice and 0 in the others" if PROBABILITIES in graph.results else "zeros"


def _description(graph: OperatorGraph, facts: PolicyFacts) -> dict[str, Any]:
    """What a program needs to run the policy, and what a person may want to know about it."""
    memory = [(slot.name, slot.shape) for slot in graph.slots]
    return {**facts._asdict(), "observation": graph.parts, "memory": memory, "results": list(graph.results)}


def _onnx_graph(graph: OperatorGraph, facts: PolicyFacts) -> Any:
    onnx = _import_onnx()
    helper = onnx.helper

    def value(name: str, dtype: str, *shape: int | str) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, ["episode", *shape])

    def remembered(after: bool) -> list[Any]:
        return [value(slot.after if after else slot.name, "float32", *slot.shape) for slot in graph.slots]

    entries = [] if graph.entries is None else [graph.entries]
    return helper.make_graph(
        [helper.make_node(op, inputs, outputs, **attributes) for op, inputs, outputs, attributes in graph.nodes],
        f"{facts.world} {facts.method}",
        inputs=[
            *(value(part.name, part.dtype, *part.shape) for part in graph.parts),
            value(PREVIOUS_ACTION, "float32" if MEAN in graph.results else "int64", *entries),
            *remembered(after=False),
        ],
        outputs=[*(value(name, "float32", n) for name, n in graph.results.items()), *remembered(after=True)],
        initializer=[onnx.numpy_helper.from_array(array, name) for name, array in graph.weights.items()],
    )


def _import_onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise ImportError('an .onnx file needs the package onnx: pip install "asymrl[onnx]"') from error
    return onnx


def _replace(path: Path, write: Callable[[Path], None]) -> None:
    """Writes to a temporary name first: a reader of `path` sees the old file or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.partial")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
