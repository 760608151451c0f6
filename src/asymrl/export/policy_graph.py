"""A policy as a graph: one step of pi(a; h), with what the memory carries from one step to the next.

Previous action and observation go in, the policy and the next memory come out. JAX traces the step, and `jaxpr.py`
translates the trace.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from asymrl.export.graph import (
    ACTION,
    LOGITS,
    MEAN,
    PREVIOUS_ACTION,
    PROBABILITIES,
    SPREAD,
    VALUES,
    OperatorGraph,
)
from asymrl.export.jaxpr import add_operators
from asymrl.nn.agent import Actor
from asymrl.nn.distributions import Distribution, Gaussian, Greedy, JointActions, MultiCategorical
from asymrl.nn.user_modules import UserFeatures, UserMemory, example
from asymrl.worlds.spaces import Box, Image, Record, Space


def build_graph(actor: Actor, observations: Space) -> OperatorGraph:
    """One step of an actor that is shown values of the space `observations`.

    Raises:
        ValueError: if something that it computes cannot be exported.
    """
    graph, history = OperatorGraph(), actor.history
    if isinstance(observations, Record) and history.seen_parts is not None:
        observations = Record(tuple((n, part) for n, part in observations.items() if n in history.seen_parts))
    nothing = np.asarray(actor.distribution.none(1))[0]
    graph.entries = nothing.size if nothing.ndim else None
    parts = _parts(graph, observations, ())
    carry, structure = jax.tree.flatten(history.memory.initial(1))
    # Where the axis of episodes is in each array of the memory; None if all episodes share it.
    axes = [
        next((axis for axis, (m, n) in enumerate(zip(one.shape, two.shape, strict=True)) if m != n), None)
        for one, two in zip(carry, jax.tree.leaves(history.memory.initial(2)), strict=True)
    ]
    starts = [np.asarray(x if axis is None else x.take(0, axis)) for x, axis in zip(carry, axes, strict=True)]
    names = ("hidden", "cell") if len(starts) <= 2 else map(str, range(len(starts)))
    slots = [graph.slot(f"memory/{name}", start.shape) for name, start in zip(names, starts, strict=False)]
    results: list[str] = []

    def step(previous: Array, observation: Any, memory: list[Array]) -> tuple[list[Array], list[Array]]:
        # Files keep the memory as a difference from that of a new episode, so that every policy begins with zeros.
        known = [(x + start).astype(start.dtype) if start.any() else x.astype(start.dtype)
                 for x, start in zip(memory, starts, strict=True)]  # fmt: skip
        known = [x if axis is None else jnp.expand_dims(x, axis) for x, axis in zip(known, axes, strict=True)]
        shown = jax.tree.map(lambda x: x[None], observation)
        after, features = history.step(jax.tree.unflatten(structure, known), previous[None], shown)
        leaves = [x if axis is None else x.squeeze(axis) for x, axis in zip(jax.tree.leaves(after), axes, strict=True)]
        leaves = [x - start if start.any() else x for x, start in zip(leaves, starts, strict=True)]
        described = _described(actor.distribution, actor.policy(features)[0])
        results[:] = described
        return list(described.values()), [x.astype(jnp.float32) for x in leaves]

    floats = [jax.ShapeDtypeStruct(start.shape, jnp.float32) for start in starts]
    examples = (jax.ShapeDtypeStruct(nothing.shape, nothing.dtype), example(observations), floats)
    modules = [each.name for each in (history.phi_o, history.memory) if isinstance(each, UserFeatures | UserMemory)]
    name = " and ".join(modules) or "these networks"
    outputs = add_operators(graph, name, step, (PREVIOUS_ACTION, parts, slots), examples)
    for result, (value, shape) in zip(results, outputs, strict=False):
        graph.name_result(value, result, *shape)
    for slot, (value, _) in zip(graph.slots, outputs[len(results) :], strict=True):
        graph.name_output(value, slot.after)
    return graph


def _parts(graph: OperatorGraph, space: Space, path: tuple[str, ...]) -> Any:
    """The parts of an observation as inputs of the graph."""
    if isinstance(space, Record):
        return {name: _parts(graph, part, (*path, name)) for name, part in space.items()}
    return graph.part(path, space.shape, "float32" if isinstance(space, Box | Image) else "int64")


def _described(kind: Distribution, parameters: Float[Array, "parameters"]) -> dict[str, Float[Array, "_"]]:
    """The results that describe the policy with these parameters, by name."""
    if isinstance(kind, JointActions):
        own = zip(kind.parts, kind.of_parts(parameters), strict=True)
        return {name: value for part, each in own for name, value in _described(part, each).items()}
    if isinstance(kind, Gaussian):
        mean, log_spread = jnp.split(parameters, 2)
        return {MEAN: mean, SPREAD: jnp.exp(log_spread), ACTION: kind.to_world(mean).reshape(-1)}
    if isinstance(kind, Greedy):
        return {VALUES: parameters}
    ends = np.cumsum(kind.sizes)[:-1] if isinstance(kind, MultiCategorical) else []
    shares = [jax.nn.softmax(logits) for logits in jnp.split(parameters, ends)]
    return {LOGITS: parameters, PROBABILITIES: jnp.concatenate(shares)}
