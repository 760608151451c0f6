"""An actor as a graph: one step of pi(a; h), with the history in a memory.

Observation and previous action become features, the memory takes them in, and the head gives the policy. There is one
function for each class of features and of memories, which does with operators what the class does in JAX.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from asymrl.export.memory_graph import carry_slots, memory_step, unsupported
from asymrl.export.module_graph import module_operators
from asymrl.export.operator_graph import (
    ACTION,
    INT64,
    LOGITS,
    MEAN,
    PREVIOUS_ACTION,
    PROBABILITIES,
    SPREAD,
    VALUES,
    OperatorGraph,
    linear_layer,
)
from asymrl.nn.agent import Actor
from asymrl.nn.distributions import NO_ACTION, Categorical, Gaussian, Greedy, JointActions, MultiCategorical
from asymrl.nn.features import EntryFeatures, Flat, Indexed, MixedFeatures, OneHot, Parts
from asymrl.nn.layers import Embedding
from asymrl.nn.normalised import LARGEST, Normalised
from asymrl.nn.pictures import PictureFeatures
from asymrl.nn.symbols import SymbolFeatures
from asymrl.nn.user_modules import UserFeatures, example
from asymrl.worlds.spaces import Box, Image, Record, Space


def build_graph(actor: Actor) -> OperatorGraph:
    """One step of an actor: observation, previous action and memory go in, the policy and the next memory come out."""
    graph = OperatorGraph()
    phi_a, phi_o, memory = actor.history.phi_a, actor.history.phi_o, actor.history.memory
    inputs = graph.apply("Concat", _previous_action(graph, phi_a), _observed(phi_o, graph, ()), axis=-1)
    carry = carry_slots(memory, graph, "memory", phi_a.size + phi_o.size)
    after, x = memory_step(memory, graph, "memory", carry, inputs)
    for i, layer in enumerate(actor.head.layers):
        x = linear_layer(graph, f"head/{i}", layer, x if i == 0 else graph.apply("Relu", x))
    _policy(graph, actor, x)
    for slot, value in zip(graph.slots, jax.tree.leaves(after), strict=True):
        graph.name_output(value, slot.after)
    return graph


def _policy(graph: OperatorGraph, actor: Actor, x: str) -> None:
    """Names the results that describe the policy, from the outputs `x` of the head."""
    match actor.distribution:
        case Greedy() as kind:
            graph.name_result(x, VALUES, kind.n)
        case Categorical() as kind:
            graph.name_result(x, LOGITS, kind.n)
            graph.name_result(graph.apply("Softmax", x, axis=-1), PROBABILITIES, kind.n)
        case MultiCategorical() as kind:
            graph.entries = len(kind.sizes)
            _choices(graph, kind, x)
        case Gaussian() as kind:
            graph.entries = kind.size
            _numbers(graph, kind, actor, x)
        case JointActions() as kind:
            graph.entries, first = kind.first_number, 0
            if kind.choices is not None:
                first = kind.choices.outputs
                _choices(graph, kind.choices, graph.columns(x, "actions/choices", 0, first))
            if kind.numbers is not None:
                graph.entries += kind.numbers.size
                _numbers(graph, kind.numbers, actor, graph.columns(x, "actions/numbers", first, kind.numbers.size))


def _choices(graph: OperatorGraph, kind: MultiCategorical, x: str) -> None:
    """Several choices, whose logits are `x`."""
    shares, first = [], 0
    for i, size in enumerate(kind.sizes):
        shares.append(graph.apply("Softmax", graph.columns(x, f"actions/{i}/logits", first, size), axis=-1))
        first += size
    graph.name_result(x, LOGITS, first)
    graph.name_result(graph.apply("Concat", *shares, axis=-1), PROBABILITIES, first)


def _numbers(graph: OperatorGraph, kind: Gaussian, actor: Actor, x: str) -> None:
    """Numbers, whose means are `x`."""
    spread = graph.weight("spread/of_each", np.exp(np.asarray(actor.log_spread)))
    graph.name_result(x, MEAN, kind.size)
    graph.name_result(graph.apply("Expand", spread, graph.apply("Shape", x)), SPREAD, kind.size)
    middle, half = (np.asarray(each, np.float32).ravel() for each in kind.scale())
    placed = graph.apply("Mul", x, graph.weight("units/half", half))
    placed = graph.apply("Add", placed, graph.weight("units/middle", middle))
    for operator, name, end in zip(("Max", "Min"), ("low", "high"), kind.space.bounds(), strict=True):
        placed = graph.apply(operator, placed, graph.weight(f"units/{name}", np.asarray(end, np.float32).ravel()))
    graph.name_result(placed, ACTION, kind.size)


def _previous_action(graph: OperatorGraph, phi: Any) -> str:
    """Features of the previous action. "No action" is the index -1, which reads the last row of the table: zeros.

    Each entry of a vector of indices is read like that. A vector of numbers is its own features; before the first
    action it is zeros.
    """
    assert NO_ACTION == -1
    if isinstance(phi, Flat):
        return PREVIOUS_ACTION
    if isinstance(phi, MixedFeatures):
        first = len(phi.choices.parts)
        indices = graph.apply("Cast", graph.columns(PREVIOUS_ACTION, "actions/chosen", 0, first), to=INT64)
        numbers = graph.columns(PREVIOUS_ACTION, "actions/taken", first, phi.numbers)
        return graph.apply("Concat", _indices_taken(graph, phi.choices, indices), numbers, axis=-1)
    if isinstance(phi, EntryFeatures):
        return _indices_taken(graph, phi, PREVIOUS_ACTION)
    return _index_taken(graph, phi, PREVIOUS_ACTION, "actions/table")


def _indices_taken(graph: OperatorGraph, phi: EntryFeatures, indices: str) -> str:
    entries = [graph.columns(indices, f"actions/{i}/place", i) for i in range(len(phi.parts))]
    pairs = enumerate(zip(phi.parts, entries, strict=True))
    features = [_index_taken(graph, part, entry, f"actions/{i}/table") for i, (part, entry) in pairs]
    return graph.apply("Concat", *features, axis=-1)


def _index_taken(graph: OperatorGraph, phi: Any, index: str, name: str) -> str:
    if isinstance(phi, OneHot):
        rows = np.eye(phi.size, dtype=np.float32)
    elif isinstance(phi, Embedding):
        rows = np.asarray(phi.vectors())
    else:
        raise unsupported(phi)
    table = np.concatenate([rows, np.zeros_like(rows[:1])])
    return graph.apply("Gather", graph.weight(name, table), index, axis=0)


@functools.singledispatch
def _observed(phi: Any, graph: OperatorGraph, path: tuple[str, ...]) -> str:
    """Features of the part of the observation at `path`."""
    raise unsupported(phi)


@_observed.register
def _(phi: Embedding, graph: OperatorGraph, path: tuple[str, ...]) -> str:
    return _embedded(graph, phi, path, ())


@_observed.register
def _(phi: Flat, graph: OperatorGraph, path: tuple[str, ...]) -> str:
    return graph.reshape(graph.part(path, phi.shape, "float32"), 0, phi.size)


@_observed.register
def _(phi: Normalised, graph: OperatorGraph, path: tuple[str, ...]) -> str:
    part = graph.part(path, phi.shape, "float32")
    return _normalised(graph, phi, part, graph.reshape(part, 0, phi.size))


@_observed.register
def _(phi: SymbolFeatures, graph: OperatorGraph, path: tuple[str, ...]) -> str:
    part = graph.part(path, phi.symbols.shape, "int64")
    table = graph.weight(f"{part}/one_hot", np.eye(phi.symbols.n, dtype=np.float32))
    one_hot = graph.reshape(graph.apply("Gather", table, part, axis=0), 0, phi.symbols.size)
    normalised = _normalised(graph, phi.symbols, part, one_hot)
    return graph.apply("Relu", linear_layer(graph, f"{part}/layer", phi.layer, normalised))


def _normalised(graph: OperatorGraph, phi: Normalised, part: str, numbers: str) -> str:
    centred = graph.apply("Sub", numbers, graph.weight(f"{part}/mean", phi.mean))
    scaled = graph.apply("Mul", centred, graph.weight(f"{part}/scale", phi.scale))
    ends = graph.weight("smallest_input", np.float32(-LARGEST)), graph.weight("largest_input", np.float32(LARGEST))
    return graph.apply("Clip", scaled, *ends)


@_observed.register
def _(phi: PictureFeatures, graph: OperatorGraph, path: tuple[str, ...]) -> str:
    part, stack = graph.part(path, phi.shape, "float32"), phi.stack
    x = graph.apply("Mul", part, graph.weight("pixel", np.float32(1 / 255)))
    x = graph.apply("Transpose", x, perm=[0, 3, 1, 2])
    for _ in range(stack.halvings):
        x = graph.apply("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    inputs = phi.shape[2]
    for i, (layer, kernel, bias) in enumerate(zip(stack.layers, phi.kernels, phi.biases, strict=True)):
        square = np.asarray(kernel).reshape(layer.width, layer.width, inputs, layer.channels).transpose(3, 2, 0, 1)
        weights = graph.weight(f"{part}/{i}/kernel", square), graph.weight(f"{part}/{i}/bias", bias)
        x = graph.apply("Relu", graph.apply("Conv", x, *weights, strides=[layer.stride] * 2))
        inputs = layer.channels
    return graph.reshape(graph.apply("Transpose", x, perm=[0, 2, 3, 1]), 0, phi.size)


@_observed.register
def _(phi: Indexed, graph: OperatorGraph, path: tuple[str, ...]) -> str:
    return graph.reshape(_embedded(graph, phi.embedding, path, phi.shape), 0, phi.size)


@_observed.register
def _(phi: EntryFeatures, graph: OperatorGraph, path: tuple[str, ...]) -> str:
    value = graph.part(path, (len(phi.parts),), "int64")
    features = []
    for i, part in enumerate(phi.parts):
        if not isinstance(part, Embedding):
            raise unsupported(part)
        table = graph.weight(f"{value}/{i}/table", part.vectors())
        features.append(graph.apply("Gather", table, graph.columns(value, f"{value}/{i}/place", i), axis=0))
    return graph.apply("Concat", *features, axis=-1)


@_observed.register
def _(phi: UserFeatures, graph: OperatorGraph, path: tuple[str, ...]) -> str:
    inputs = _parts_of(phi.space, graph, path)
    (features,) = module_operators(graph, phi.name, phi.module, [inputs], [example(phi.space)])
    return features


def _parts_of(space: Space, graph: OperatorGraph, path: tuple[str, ...]) -> Any:
    """The parts of the observation that a user's module reads."""
    if isinstance(space, Record):
        return {name: _parts_of(part, graph, (*path, name)) for name, part in space.items()}
    return graph.part(path, space.shape, "float32" if isinstance(space, Box | Image) else "int64")


@_observed.register
def _(phi: Parts, graph: OperatorGraph, path: tuple[str, ...]) -> str:
    return graph.apply(
        "Concat",
        *(_observed(part, graph, (*path, name)) for name, part in zip(phi.names, phi.parts, strict=True)),
        axis=-1,
    )


def _embedded(graph: OperatorGraph, embedding: Embedding, path: tuple[str, ...], shape: tuple[int, ...]) -> str:
    index = graph.part(path, shape, "int64")
    return graph.apply("Gather", graph.weight(f"{index}/table", embedding.vectors()), index, axis=0)
