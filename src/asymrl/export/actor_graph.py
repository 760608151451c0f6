"""An actor as a graph: one step of pi(a; h), with the history in a memory.

Observation and previous action become features, the memory takes them in, and the head gives the policy. There is one
function for each class of features and of memories, which says in operators what the class says in JAX.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

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
)
from asymrl.models.agent import Actor
from asymrl.models.distributions import NO_ACTION, Categorical, Gaussian, Greedy, JointActions, MultiCategorical
from asymrl.models.features import EntryFeatures, Flat, Indexed, MixedFeatures, OneHot, Parts
from asymrl.models.layers import Embedding, Linear
from asymrl.models.memories.attention import Attention
from asymrl.models.memories.compound import Stack, Window
from asymrl.models.memories.memory import Feedforward, Gru, Lstm, Memory, Rnn
from asymrl.models.normalised import LARGEST, Normalised
from asymrl.models.pictures import PictureFeatures
from asymrl.models.symbols import SymbolFeatures
from asymrl.models.user_modules import UserFeatures, UserMemory

Carry = Any  # names of values, nested as in the memory's own carry


def build_graph(actor: Actor) -> OperatorGraph:
    """One step of an actor: observation, previous action and memory go in, the policy and the next memory come out."""
    graph = OperatorGraph()
    phi_a, phi_o, memory = actor.history.phi_a, actor.history.phi_o, actor.history.memory
    inputs = graph.apply("Concat", _previous_action(graph, phi_a), _observed(phi_o, graph, ()), axis=-1)
    carry = _carried(memory, graph, "memory", phi_a.size + phi_o.size)
    after, x = _step(memory, graph, "memory", carry, inputs)
    for i, layer in enumerate(actor.head.layers):
        x = _linear(graph, f"head/{i}", layer, x if i == 0 else graph.apply("Relu", x))
    _policy(graph, actor, x)
    for slot, value in zip(graph.slots, jax.tree.leaves(after), strict=True):
        graph.name_output(value, slot.after)
    return graph


def _policy(graph: OperatorGraph, actor: Actor, x: str) -> None:
    """Names the policy that the head's outputs `x` parametrise."""
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


def _linear(graph: OperatorGraph, name: str, layer: Linear, x: str) -> str:
    product = graph.apply("MatMul", x, graph.weight(f"{name}/weight", layer.weight))
    return graph.apply("Add", product, graph.weight(f"{name}/bias", layer.bias))


def _previous_action(graph: OperatorGraph, phi: Any) -> str:
    """Features of the previous action. "No action" is the index -1, which reads the last row of the table: zeros.

    Of a vector of indices each entry is read like that. A vector of numbers is its own features; before the first
    action it is zeros.
    """
    assert NO_ACTION == -1
    if isinstance(phi, Flat):
        return PREVIOUS_ACTION
    if isinstance(phi, MixedFeatures):
        first = len(phi.choices.parts)
        chosen = graph.apply("Cast", graph.columns(PREVIOUS_ACTION, "actions/chosen", 0, first), to=INT64)
        numbers = graph.columns(PREVIOUS_ACTION, "actions/taken", first, phi.numbers)
        return graph.apply("Concat", _indices_taken(graph, phi.choices, chosen), numbers, axis=-1)
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
        raise _unknown(phi)
    table = np.concatenate([rows, np.zeros_like(rows[:1])])
    return graph.apply("Gather", graph.weight(name, table), index, axis=0)


@functools.singledispatch
def _observed(phi: Any, graph: OperatorGraph, path: tuple[str, ...]) -> str:
    """Features of the part of the observation at `path`."""
    raise _unknown(phi)


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
    return graph.apply("Relu", _linear(graph, f"{part}/layer", phi.layer, normalised))


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
            raise _unknown(part)
        table = graph.weight(f"{value}/{i}/table", part.vectors())
        features.append(graph.apply("Gather", table, graph.columns(value, f"{value}/{i}/place", i), axis=0))
    return graph.apply("Concat", *features, axis=-1)


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


def _carried(memory: Memory, graph: OperatorGraph, name: str, inputs: int) -> Carry:
    """Inputs of the graph for what a memory of `inputs` numbers carries from the previous step."""
    match memory:
        case Gru() | Rnn():
            return graph.slot(f"{name}/hidden", (memory.size,))
        case Lstm():
            return tuple(graph.slot(f"{name}/{part}", (memory.size,)) for part in ("hidden", "cell"))
        case Attention():
            return tuple(graph.slot(f"{name}/{part}", (0, memory.size), grows=True) for part in ("keys", "values"))
        case Window():
            return graph.slot(f"{name}/inputs", (memory.length - 1, inputs))
        case Stack():
            widths = [inputs, *(layer.size for layer in memory.layers)]
            return tuple(_carried(layer, graph, f"{name}/{i}", widths[i]) for i, layer in enumerate(memory.layers))
        case Feedforward():
            return ()
    raise _unknown(memory)


def _empty_carry(memory: Memory, graph: OperatorGraph) -> Carry:
    """What a memory carries before its first input, for one that starts empty within a step."""
    match memory:
        case Stack():
            return tuple(_empty_carry(layer, graph) for layer in memory.layers)
        case Attention():
            return None
        case Feedforward():
            return ()
        case Lstm():
            return (_zeros(graph, memory.size),) * 2
    return _zeros(graph, memory.size)


def _zeros(graph: OperatorGraph, size: int) -> str:
    return graph.weight(f"zeros_{size}", np.zeros((1, size), np.float32))


@functools.singledispatch
def _step(memory: Memory, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    """What a memory carries after one more input, and the features of the history then."""
    raise _unknown(memory)


@_step.register
def _(memory: Gru, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    inputs = _product(graph, name, "input", memory.input_weight, memory.input_bias, x)
    hidden = _product(graph, name, "hidden", memory.hidden_weight, memory.hidden_bias, carry)
    i_r, i_z, i_n = graph.split(inputs, 3)
    h_r, h_z, h_n = graph.split(hidden, 3)
    r = graph.apply("Sigmoid", graph.apply("Add", i_r, h_r))
    z = graph.apply("Sigmoid", graph.apply("Add", i_z, h_z))
    n = graph.apply("Tanh", graph.apply("Add", i_n, graph.apply("Mul", r, h_n)))
    # (1 - z) n + z h
    h = graph.apply("Add", n, graph.apply("Mul", z, graph.apply("Sub", carry, n)))
    return h, h


@_step.register
def _(memory: Rnn, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    h = graph.apply("Relu", _recurrent(graph, name, memory, carry, x))
    return h, h


@_step.register
def _(memory: Feedforward, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    return carry, graph.apply("Relu", _product(graph, name, "input", memory.input_weight, memory.bias, x))


@_step.register
def _(memory: Lstm, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    h, c = carry
    i, f, g, o = graph.split(_recurrent(graph, name, memory, h, x), 4)
    kept = graph.apply("Mul", graph.apply("Sigmoid", f), c)
    new = graph.apply("Mul", graph.apply("Sigmoid", i), graph.apply("Tanh", g))
    c = graph.apply("Add", kept, new)
    h = graph.apply("Mul", graph.apply("Sigmoid", o), graph.apply("Tanh", c))
    return (h, c), h


@_step.register
def _(memory: Attention, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    """Keeps the keys and values of all inputs so far; their number is not limited."""
    size, heads = memory.size, memory.heads
    layers = {"keys": memory.keys, "values": memory.values}
    new = [graph.reshape(_linear(graph, f"{name}/{n}", layer, x), 0, 1, size) for n, layer in layers.items()]
    if carry is not None:
        new = [graph.apply("Concat", past, now, axis=1) for past, now in zip(carry, new, strict=True)]
    keys, values = (graph.reshape(past, 0, 0, heads, size // heads) for past in new)
    queries = graph.reshape(_linear(graph, f"{name}/queries", memory.queries, x), 0, heads, 1, size // heads)
    scores = graph.apply("MatMul", queries, graph.apply("Transpose", keys, perm=[0, 2, 3, 1]))
    scale = graph.weight(f"{name}/scale", np.float32((size // heads) ** -0.5))
    shares = graph.apply("Softmax", graph.apply("Mul", scores, scale), axis=-1)
    attended = graph.reshape(
        graph.apply("MatMul", shares, graph.apply("Transpose", values, perm=[0, 2, 1, 3])), 0, size
    )
    mixed = graph.apply("Relu", _linear(graph, f"{name}/mix", memory.mix, attended))
    return tuple(new), graph.apply("Relu", _linear(graph, f"{name}/out", memory.out, mixed))


@_step.register
def _(memory: Window, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    """Keeps the inputs of the window; each step runs the inner memory over all of them, from an empty carry."""
    window = graph.apply("Concat", carry, graph.reshape(x, 0, 1, -1), axis=1)
    inner, features = _empty_carry(memory.inner, graph), x
    for i in range(memory.length):
        at = graph.weight(f"index_{i}", np.int64(i))
        inner, features = _step(memory.inner, graph, name, inner, graph.apply("Gather", window, at, axis=1))
    later = graph.weight(f"{name}/later", np.arange(1, memory.length, dtype=np.int64))
    return graph.apply("Gather", window, later, axis=1), features


@_step.register
def _(memory: Stack, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    after = []
    for i, (layer, part) in enumerate(zip(memory.layers, carry, strict=True)):
        part, x = _step(layer, graph, f"{name}/{i}", part, x)
        after.append(part)
    return tuple(after), x


def _product(graph: OperatorGraph, name: str, what: str, weight: Array, bias: Array, x: str) -> str:
    product = graph.apply("MatMul", x, graph.weight(f"{name}/{what}_weight", weight))
    return graph.apply("Add", product, graph.weight(f"{name}/{what}_bias", bias))


def _recurrent(graph: OperatorGraph, name: str, memory: Rnn | Lstm, hidden: str, x: str) -> str:
    """`x @ input_weight + hidden @ hidden_weight + bias`."""
    from_hidden = graph.apply("MatMul", hidden, graph.weight(f"{name}/hidden_weight", memory.hidden_weight))
    return graph.apply("Add", _product(graph, name, "input", memory.input_weight, memory.bias, x), from_hidden)


def _unknown(part: Any) -> ValueError:
    if isinstance(part, UserFeatures | UserMemory):
        how = "only asymrl.Policy, which needs that file, can act with it"
        return ValueError(f"a policy with {part.name}, a module of your own, cannot be exported; {how}")
    return ValueError(f"a policy with {type(part).__name__} cannot be exported; add it to asymrl/export/actor_graph.py")
