"""The files: `policy.npz` for NumPy, `policy.onnx` for everything that reads ONNX."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asymrl.export.graph import MEAN, PREVIOUS_ACTION, Graph

NPZ_VERSION = 1
# Old enough for every runtime of the last years, new enough for all operators that are used.
OPSET, IR_VERSION = 18, 8


class About(NamedTuple):
    """Where a policy comes from; it stands in the file."""

    world: str
    method: str
    action_names: tuple[str, ...]
    settings: dict[str, Any]
    run_seed: int
    actions: dict[str, Any] = {}
    """What an action is to the environment; see `actions_of`."""
    reading: list[dict[str, Any]] = []
    """How what the environment shows becomes the inputs; see `reading_of`."""


def save_npz(path: Path, graph: Graph, about: About) -> None:
    """Writes the weights as NumPy arrays and the list of operators as JSON among them, under `about`."""
    description = {"format": "asymrl policy", "version": NPZ_VERSION, **_facts(graph, about), "nodes": graph.nodes}

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:  # given a name, NumPy would add an ending to it
            np.savez(file, allow_pickle=False, about=np.array(json.dumps(description)), **graph.weights)

    _replace(path, write)


def save_onnx(path: Path, graph: Graph, about: About) -> None:
    """Writes the graph as an ONNX model of one step; `about` becomes its metadata."""
    onnx = _import_onnx()
    model = onnx.helper.make_model(
        _onnx_graph(graph, about),
        producer_name="asymrl",
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        doc_string=f"One step of a policy. Before the first one, previous_action is {_nothing(graph)} and the memory "
        "is zeros; each next_memory is the memory of the step after. An axis called `past` begins with length 0.",
    )
    facts = _facts(graph, about).items()
    onnx.helper.set_model_props(model, {name: v if isinstance(v, str) else json.dumps(v) for name, v in facts})
    onnx.checker.check_model(model, full_check=True)
    _replace(path, lambda temporary: onnx.save_model(model, os.fspath(temporary), format="protobuf"))


def _nothing(graph: Graph) -> str:
    return "zeros" if MEAN in graph.results else "-1"


def _facts(graph: Graph, about: About) -> dict[str, Any]:
    """What a program must know to run the policy, and what a person may want to know about it."""
    return {**about._asdict(), "observation": graph.parts, "memory": [(slot.name, slot.shape) for slot in graph.slots]}


def _onnx_graph(graph: Graph, about: About) -> Any:
    onnx = _import_onnx()
    helper = onnx.helper

    def value(name: str, dtype: str, *shape: int | str) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, ["episode", *shape])

    def remembered(after: bool) -> list[Any]:
        grown = "past_and_now" if after else "past"
        return [
            value(slot.after if after else slot.name, "float32", *[grown] * slot.grows, *slot.shape[slot.grows :])
            for slot in graph.slots
        ]

    actions = len(about.action_names)
    return helper.make_graph(
        [helper.make_node(op, inputs, outputs, **attributes) for op, inputs, outputs, attributes in graph.nodes],
        f"{about.world} {about.method}",
        inputs=[
            *(value(part.name, part.dtype, *part.shape) for part in graph.parts),
            value(PREVIOUS_ACTION, "float32", actions) if MEAN in graph.results else value(PREVIOUS_ACTION, "int64"),
            *remembered(after=False),
        ],
        outputs=[
            *(value(name, "float32", actions) for name in graph.results),
            *remembered(after=True),
        ],
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
    """Writes to another name first: whoever reads `path` sees the old file or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.partial")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
