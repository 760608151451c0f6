"""Modules of the user's own as operators: NumPy and ONNX compute what JAX does."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

from asymrl.export.graph import OperatorGraph
from asymrl.export.jaxpr import BINARY, UNARY, add_operators
from asymrl.export.numpy_policy import OPERATORS
from asymrl.export.policy_files import IR_VERSION, OPSET

KEY = jax.random.key(0)
SHAPE = (2, 3)
TABLE = jax.random.normal(KEY, (5, 4))


def mixed(x: Any) -> Any:
    """Products over one and two axes, of known and unknown matrices, with results in several orders."""
    known = jax.random.normal(KEY, (3, 4, 2))
    one = jnp.einsum("ij,jkl->kil", x, known)
    two = jnp.einsum("kij,ij->k", jax.random.normal(KEY, (5, 2, 3)), x)
    return jnp.concatenate([one.reshape(-1), two, (x @ x.T).reshape(-1), jnp.ones(2)])


FUNCTIONS = {
    "linear": lambda x: eqx.nn.Linear(3, 4, key=KEY)(x[0]),
    "perceptron": lambda x: eqx.nn.MLP(3, 4, 5, 2, activation=jax.nn.gelu, key=KEY)(x[1]),
    "norm": lambda x: eqx.nn.LayerNorm(SHAPE)(x),
    "gru": lambda x: eqx.nn.GRUCell(3, 4, key=KEY)(x[0], x[1, :1] * jnp.ones(4)),
    "softmax": lambda x: jax.nn.softmax(x, axis=0) + jax.nn.log_softmax(x, axis=1),
    "activations": lambda x: jax.nn.silu(x) + jax.nn.elu(x) + jax.nn.softplus(x) + jax.nn.leaky_relu(x),
    "exact gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "mixed": mixed,
    "attention": lambda x: eqx.nn.MultiheadAttention(num_heads=3, query_size=3, key=KEY)(x, x, x),
    "products side by side": lambda x: jnp.einsum("ijk,jl->lji", jax.random.normal(KEY, (4, 2, 5)), x),
    "choices": lambda x: jnp.where(x > 0, jnp.exp(-x), jnp.sign(x)) + jnp.where(x[0, 0] > 0, x, 2 * x),
    "bounds": lambda x: jnp.clip(x, -0.5, 0.5) + jnp.maximum(x, 0.1) ** 1.5 + x**3 + jax.lax.rsqrt(1 + x**2),
    "parts": lambda x: jnp.concatenate([x[:, 1:], x[:, ::2] * 2], axis=1).T[::-1][1:],
    "reductions": lambda x: jnp.stack([x.max(), x.min(), x.mean(), jnp.linalg.norm(x), x.std()]),
    "angles": lambda x: jnp.sin(x) * jnp.cos(x) + jnp.floor(x) + jnp.ceil(x) + jnp.log1p(jnp.abs(x)) + jnp.expm1(x),
    "constant": lambda x: jnp.arange(4.0),
}


def computed(graph: OperatorGraph, inputs: dict[str, np.ndarray], results: list[str]) -> list[list[np.ndarray]]:
    """The results, by NumPy and by ONNX."""
    values = {**graph.weights, **inputs}
    for operator, names, outputs, attributes in graph.nodes:
        values[outputs[0]] = OPERATORS[operator](*(values[name] for name in names), **attributes)
    helper: Any = onnx.helper
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()
    ]
    wanted = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * values[name].ndim) for name in results
    ]
    nodes = [helper.make_node(o, i, out, **attributes) for o, i, out, attributes in graph.nodes]
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in graph.weights.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "module", given, wanted, weights),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    outputs: Any = session.run(results, inputs)
    return [[values[name] for name in results], outputs]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_numpy_and_onnx_compute_what_jax_does(name: str):
    graph, function = OperatorGraph(), FUNCTIONS[name]
    x = np.random.default_rng(0).normal(size=(7, *SHAPE)).astype(np.float32)
    results = add_operators(graph, "own.py:Own", function, ["x"], [jax.ShapeDtypeStruct(SHAPE, jnp.float32)])
    names = [name for name, _ in results]
    expected = jax.vmap(function)(x)
    for (given,) in computed(graph, {"x": x}, names):
        assert given.shape == expected.shape
        np.testing.assert_allclose(given, expected, atol=2e-6, rtol=2e-5)


@pytest.mark.parametrize(
    "function",
    [lambda i: TABLE[i], lambda i: jax.nn.one_hot(i, 5), lambda i: eqx.nn.Embedding(weight=TABLE)(i) * (i == 3)],
)
def test_indices_are_looked_up(function: Any):
    graph, indices = OperatorGraph(), np.array([0, 3, 4])
    results = add_operators(graph, "own.py:Own", function, ["i"], [jax.ShapeDtypeStruct((), jnp.int32)])
    for (given,) in computed(graph, {"i": indices}, [name for name, _ in results]):
        np.testing.assert_allclose(given, jax.vmap(function)(jnp.asarray(indices)), atol=1e-6)


def test_what_has_no_operator_is_named():
    with pytest.raises(ValueError, match=r"a policy with own\.py:Own cannot be exported: sort, which JAX makes of it"):
        add_operators(OperatorGraph(), "own.py:Own", jnp.sort, ["x"], [jax.ShapeDtypeStruct((3,), jnp.float32)])


def test_numpy_knows_every_operator():
    assert {*UNARY.values(), *BINARY.values()} <= set(OPERATORS)
