"""Memories as graphs: one step of each, and what it carries to the next."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from asymrl.export.module_graph import module_operators
from asymrl.export.operator_graph import OperatorGraph, linear_layer
from asymrl.nn.attention import Attention
from asymrl.nn.compound import Stack, Window
from asymrl.nn.memory import Memory
from asymrl.nn.recurrent import Feedforward, Gru, Lstm, Rnn
from asymrl.nn.user_modules import UserMemory

Carry = Any  # names of values, nested as in the memory's own carry


def carry_slots(memory: Memory, graph: OperatorGraph, name: str, inputs: int) -> Carry:
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
            return tuple(carry_slots(layer, graph, f"{name}/{i}", widths[i]) for i, layer in enumerate(memory.layers))
        case Feedforward():
            return ()
        case UserMemory():
            return tuple(graph.slot(f"{name}/{i}", leaf.shape) for i, leaf in enumerate(_initial(memory)))
    raise unsupported(memory)


def _initial(memory: UserMemory) -> list[np.ndarray]:
    """The state of a user's memory before its first input. Files keep the state as a difference from that."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(memory.module.initial())]
    if not all(np.issubdtype(leaf.dtype, np.floating) for leaf in leaves):
        raise ValueError(f"a policy with {memory.name} cannot be exported: its state has numbers that are not floats")
    return leaves


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
        case UserMemory():
            first = enumerate(_initial(memory))
            return tuple(graph.weight(f"{memory.name}/zeros/{i}", np.zeros((1, *x.shape), x.dtype)) for i, x in first)
    return _zeros(graph, memory.size)


def _zeros(graph: OperatorGraph, size: int) -> str:
    return graph.weight(f"zeros_{size}", np.zeros((1, size), np.float32))


@functools.singledispatch
def memory_step(memory: Memory, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    """What a memory carries after one more input, and the features of the history then."""
    raise unsupported(memory)


@memory_step.register
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


@memory_step.register
def _(memory: Rnn, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    h = graph.apply("Relu", _recurrent(graph, name, memory, carry, x))
    return h, h


@memory_step.register
def _(memory: Feedforward, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    return carry, graph.apply("Relu", _product(graph, name, "input", memory.input_weight, memory.bias, x))


@memory_step.register
def _(memory: Lstm, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    h, c = carry
    i, f, g, o = graph.split(_recurrent(graph, name, memory, h, x), 4)
    memory_part = graph.apply("Mul", graph.apply("Sigmoid", f), c)
    new = graph.apply("Mul", graph.apply("Sigmoid", i), graph.apply("Tanh", g))
    c = graph.apply("Add", memory_part, new)
    h = graph.apply("Mul", graph.apply("Sigmoid", o), graph.apply("Tanh", c))
    return (h, c), h


@memory_step.register
def _(memory: Attention, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    """Keeps the keys and values of all inputs so far; their number is not limited."""
    size, heads = memory.size, memory.heads
    layers = {"keys": memory.keys, "values": memory.values}
    new = [graph.reshape(linear_layer(graph, f"{name}/{n}", layer, x), 0, 1, size) for n, layer in layers.items()]
    if carry is not None:
        new = [graph.apply("Concat", past, now, axis=1) for past, now in zip(carry, new, strict=True)]
    keys, values = (graph.reshape(past, 0, 0, heads, size // heads) for past in new)
    queries = graph.reshape(linear_layer(graph, f"{name}/queries", memory.queries, x), 0, heads, 1, size // heads)
    scores = graph.apply("MatMul", queries, graph.apply("Transpose", keys, perm=[0, 2, 3, 1]))
    scale = graph.weight(f"{name}/scale", np.float32((size // heads) ** -0.5))
    shares = graph.apply("Softmax", graph.apply("Mul", scores, scale), axis=-1)
    attended = graph.reshape(
        graph.apply("MatMul", shares, graph.apply("Transpose", values, perm=[0, 2, 1, 3])), 0, size
    )
    mixed = graph.apply("Relu", linear_layer(graph, f"{name}/mix", memory.mix, attended))
    return tuple(new), graph.apply("Relu", linear_layer(graph, f"{name}/out", memory.out, mixed))


@memory_step.register
def _(memory: Window, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    """Keeps the inputs of the window; each step runs the inner memory over all of them, from an empty carry."""
    window = graph.apply("Concat", carry, graph.reshape(x, 0, 1, -1), axis=1)
    inner, features = _empty_carry(memory.inner, graph), x
    for i in range(memory.length):
        at = graph.weight(f"index_{i}", np.int64(i))
        inner, features = memory_step(memory.inner, graph, name, inner, graph.apply("Gather", window, at, axis=1))
    later = graph.weight(f"{name}/later", np.arange(1, memory.length, dtype=np.int64))
    return graph.apply("Gather", window, later, axis=1), features


@memory_step.register
def _(memory: UserMemory, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    first, structure = _initial(memory), jax.tree.structure(memory.module.initial())
    starts = [graph.weight(f"{memory.name}/initial/{i}", leaf[None]) for i, leaf in enumerate(first)]
    state = [graph.apply("Add", *pair) for pair in zip(carry, starts, strict=True)]
    x = linear_layer(graph, f"{name}/layer", memory.layer, x)
    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in first]
    inputs = jax.tree.unflatten(structure, state), x
    examples = jax.tree.unflatten(structure, shapes), jax.ShapeDtypeStruct((memory.size,), np.float32)
    *after, features = module_operators(graph, memory.name, memory.module.step, inputs, examples)
    return tuple(graph.apply("Sub", *pair) for pair in zip(after, starts, strict=True)), features


@memory_step.register
def _(memory: Stack, graph: OperatorGraph, name: str, carry: Carry, x: str) -> tuple[Carry, str]:
    after = []
    for i, (layer, part) in enumerate(zip(memory.layers, carry, strict=True)):
        part, x = memory_step(layer, graph, f"{name}/{i}", part, x)
        after.append(part)
    return tuple(after), x


def _product(graph: OperatorGraph, name: str, what: str, weight: Array, bias: Array, x: str) -> str:
    product = graph.apply("MatMul", x, graph.weight(f"{name}/{what}_weight", weight))
    return graph.apply("Add", product, graph.weight(f"{name}/{what}_bias", bias))


def _recurrent(graph: OperatorGraph, name: str, memory: Rnn | Lstm, hidden: str, x: str) -> str:
    """`x @ input_weight + hidden @ hidden_weight + bias`."""
    from_hidden = graph.apply("MatMul", hidden, graph.weight(f"{name}/hidden_weight", memory.hidden_weight))
    return graph.apply("Add", _product(graph, name, "input", memory.input_weight, memory.bias, x), from_hidden)


def unsupported(part: Any) -> ValueError:
    """The error for a part of a network that has no graph."""
    return ValueError(f"a policy with {type(part).__name__} cannot be exported; add it to asymrl/export/actor_graph.py")
