"""A function as operators: translates what JAX traces of it, one primitive after the other.

The function is traced for one episode; in the graph every value that depends on the input has a leading axis of
episodes. Values that do not depend on it are computed now and become weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from asymrl.export.graph import BOOL, FLOAT, INT64, OperatorGraph

Value = Any  # the name of a value of the graph, or an array that is known already

UNARY = {
    "abs": "Abs",
    "ceil": "Ceil",
    "cos": "Cos",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "logistic": "Sigmoid",
    "neg": "Neg",
    "not": "Not",
    "sign": "Sign",
    "sin": "Sin",
    "sqrt": "Sqrt",
    "tanh": "Tanh",
}
BINARY = {
    "add": "Add",
    "add_any": "Add",
    "and": "And",
    "div": "Div",
    "eq": "Equal",
    "ge": "GreaterOrEqual",
    "gt": "Greater",
    "le": "LessOrEqual",
    "lt": "Less",
    "max": "Max",
    "min": "Min",
    "mul": "Mul",
    "or": "Or",
    "pow": "Pow",
    "sub": "Sub",
}
REDUCTIONS = {"reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_sum": "ReduceSum"}
CALLS = ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")  # possible names of the parameter with the program of a call
SAME = ("copy", "copy_p", "reduce_precision", "stop_gradient", "optimization_barrier")


def add_operators(
    graph: OperatorGraph, name: str, function: Callable[..., Any], inputs: Sequence[Any], examples: Sequence[Any]
) -> list[tuple[str, tuple[int, ...]]]:
    """Adds the operators of a function to the graph.

    Args:
        graph: to add to.
        name: of what the function computes, for errors.
        function: of trees of arrays, without an axis of episodes.
        inputs: the same trees of the names of values, with that axis.
        examples: shapes and dtypes of the inputs, without it.

    Returns:
        The names of its results, in the order of the leaves, and their shapes without the axis of episodes.

    Raises:
        ValueError: if a primitive of it has no operator, naming the primitive.
    """
    traced = jax.make_jaxpr(function)(*examples)
    translation, names = _Translation(graph, name), jax.tree.leaves(list(inputs))
    results = translation.run(traced.jaxpr, traced.consts, names)
    shapes = [variable.aval.shape for variable in traced.jaxpr.outvars]
    pairs = zip(results, shapes, strict=True)
    return [(translation.for_each_episode(each, shape, names[0]), shape) for each, shape in pairs]


class _Translation:
    """The translation of one function."""

    def __init__(self, graph: OperatorGraph, name: str):
        self.graph, self.name, self._count = graph, name, itertools.count(len(graph.weights))  # for unused names

    def run(self, jaxpr: Any, consts: Sequence[Value], inputs: Sequence[Value]) -> list[Value]:
        """The results of a traced program."""
        environment: dict[Any, Value] = {}

        def read(variable: Any) -> Value:
            return variable.val if hasattr(variable, "val") else environment[variable]

        environment.update(zip(jaxpr.constvars, consts, strict=True))
        environment.update(zip(jaxpr.invars, inputs, strict=True))
        for equation in jaxpr.eqns:
            results = self._results(equation, [read(variable) for variable in equation.invars])
            environment.update(zip(equation.outvars, results, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def weight(self, value: Any) -> str:
        """A constant; integers have 64 bits in the graph."""
        array = np.asarray(value)
        name = f"weight_{next(self._count)}"
        self.graph.weights[name] = array.astype(np.int64) if np.issubdtype(array.dtype, np.integer) else array
        return name

    def named(self, value: Value) -> str:
        return value if isinstance(value, str) else self.weight(value)

    def _aligned(self, value: Value, shape: Sequence[int], whole: Sequence[int]) -> str:
        """A value for an operator with a result of another shape: one number per episode goes with all its entries."""
        name = self.named(value)
        return (
            self.graph.reshape(name, 0, *[1] * len(whole)) if isinstance(value, str) and not shape and whole else name
        )

    def for_each_episode(self, value: Value, shape: Sequence[int], some: str) -> str:
        """A value with an axis of episodes, as long as that of the value `some`."""
        if isinstance(value, str):
            return value
        flat = self.graph.apply("Cast", self.graph.reshape(some, 0, -1), to=FLOAT)
        zero = self.graph.apply("ReduceSum", flat, self.weight(np.array([1], np.int64)), keepdims=0)  # [episode]
        zero = self.graph.apply("Mul", zero, self.weight(np.float32(0)))
        column = self.graph.reshape(zero, 0, *[1] * len(shape))
        return self.graph.apply("Add", column, self.weight(np.asarray(value, np.float32)[None]))

    def _results(self, equation: Any, values: list[Value]) -> list[Value]:
        """The results of one primitive."""
        primitive, parameters = equation.primitive.name, equation.params
        if primitive in CALLS:
            inner = next(parameters[name] for name in INNER if name in parameters)
            return self.run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), values)
        if primitive == "cond" and not isinstance(values[0], str):  # of `platform_dependent`, or decided already
            platforms = parameters.get("branches_platforms") or ()
            which = platforms.index(None) if None in platforms else int(values[0])
            branch = parameters["branches"][which]
            return self.run(branch.jaxpr, branch.consts, values[1:])
        if not any(isinstance(value, str) for value in values):
            result = equation.primitive.bind(*values, **parameters)
            return list(result) if equation.primitive.multiple_results else [result]
        shapes = [variable.aval.shape for variable in equation.invars]
        if primitive == "split":
            ends, axis = np.cumsum(parameters["sizes"]), parameters["axis"] + 1
            which = [np.arange(end - size, end) for end, size in zip(ends, parameters["sizes"], strict=True)]
            return [self.graph.apply("Gather", values[0], self.weight(each), axis=axis) for each in which]
        return [self._result(primitive, values, shapes, equation.outvars[0].aval, parameters)]

    def _result(
        self, primitive: str, values: list[Value], shapes: list[tuple[int, ...]], out: Any, parameters: Any
    ) -> Value:
        apply, graph = self.graph.apply, self.graph
        if primitive in UNARY:
            return apply(UNARY[primitive], self.named(values[0]))
        if primitive in BINARY:
            pairs = zip(values, shapes, strict=True)
            return apply(BINARY[primitive], *(self._aligned(value, shape, out.shape) for value, shape in pairs))
        if primitive in REDUCTIONS:
            axes = self.weight(np.array([axis + 1 for axis in parameters["axes"]], np.int64))
            return apply(REDUCTIONS[primitive], self.named(values[0]), axes, keepdims=0)
        if primitive == "dynamic_update_slice":
            return self._updated(values, shapes)
        if primitive in ("gather", "dynamic_slice", "dot_general"):  # whose constants are stored in another form
            return self._table_or_product(primitive, values, shapes, out, parameters)
        x = self.named(values[0])
        match primitive:
            case each if each in SAME:
                return x
            case "integer_pow":
                return apply("Pow", x, self.weight(np.float32(parameters["y"])))
            case "square":
                return apply("Mul", x, x)
            case "rsqrt":
                return apply("Div", self.weight(np.float32(1)), apply("Sqrt", x))
            case "log1p":
                return apply("Log", apply("Add", x, self.weight(np.float32(1))))
            case "expm1":
                return apply("Sub", apply("Exp", x), self.weight(np.float32(1)))
            case "reshape" | "squeeze" | "expand_dims":
                return graph.reshape(x, 0, *out.shape)
            case "transpose":
                return apply("Transpose", x, perm=[0, *(axis + 1 for axis in parameters["permutation"])])
            case "broadcast_in_dim":
                return self._broadcast(x, shapes[0], out, parameters["broadcast_dimensions"])
            case "convert_element_type":
                return apply("Cast", x, to=self._type(out.dtype))
            case "concatenate":
                parts = zip(values, shapes, strict=True)
                some = next(value for value in values if isinstance(value, str))
                named = [self.for_each_episode(value, shape, some) for value, shape in parts]
                return apply("Concat", *named, axis=parameters["dimension"] + 1)
            case "ne":
                return apply("Not", apply("Equal", x, self.named(values[1])))
            case "select_n" if len(values) == 3:
                condition = self._aligned(values[0], shapes[0], out.shape)
                return apply("Where", condition, self.named(values[2]), self.named(values[1]))
            case "stack":
                axis = parameters["axis"]
                shape = (*out.shape[:axis], 1, *out.shape[axis + 1 :])
                some = next(value for value in values if isinstance(value, str))
                each = zip(values, shapes, strict=True)
                named = [graph.reshape(self.for_each_episode(value, own, some), 0, *shape) for value, own in each]
                return apply("Concat", *named, axis=axis + 1)
            case "clamp":
                return apply("Min", apply("Max", self.named(values[1]), x), self.named(values[2]))
            case "erfc":
                return apply("Sub", self.weight(np.float32(1)), apply("Erf", x))
            case "rev":
                for axis in parameters["dimensions"]:
                    backwards = self.weight(np.arange(shapes[0][axis])[::-1].copy())
                    x = apply("Gather", x, backwards, axis=axis + 1)
                return x
            case "slice":
                return self._slice(x, shapes[0], parameters)
        raise self._unknown(primitive)

    def _table_or_product(
        self, primitive: str, values: list[Value], shapes: list[tuple[int, ...]], out: Any, parameters: Any
    ) -> str:
        if primitive == "dot_general":
            return self._product(values, shapes, out, parameters["dimension_numbers"])
        if primitive == "gather":
            return self._gather(values, shapes, out, parameters)
        return self._row(values, shapes, out, parameters["slice_sizes"])

    def _unknown(self, primitive: str) -> ValueError:
        return ValueError(
            f"a policy with {self.name} cannot be exported: {primitive}, which JAX makes of it, has no operator; only "
            "asymrl.Policy, which needs the file of the module, can act with it"
        )

    def _type(self, dtype: Any) -> int:
        if np.issubdtype(dtype, np.floating):
            return FLOAT
        return BOOL if np.issubdtype(dtype, np.bool_) else INT64

    def _broadcast(self, x: str, shape: Sequence[int], out: Any, dimensions: Sequence[int]) -> str:
        spread = [1] * len(out.shape)
        for axis, length in zip(dimensions, shape, strict=True):
            spread[axis] = length
        x = self.graph.reshape(x, 0, *spread)
        if tuple(spread) == tuple(out.shape):
            return x
        return self.graph.apply("Expand", x, self.weight(np.array([1, *out.shape], np.int64)))

    def _slice(self, x: str, shape: Sequence[int], parameters: Any) -> str:
        strides = parameters["strides"] or (1,) * len(shape)
        each = zip(parameters["start_indices"], parameters["limit_indices"], strides, strict=True)
        for axis, (first, last, stride) in enumerate(each):
            if (first, last, stride) != (0, shape[axis], 1):
                x = self.graph.apply("Gather", x, self.weight(np.arange(first, last, stride)), axis=axis + 1)
        return x

    def _gather(self, values: list[Value], shapes: list[tuple[int, ...]], out: Any, parameters: Any) -> str:
        """Rows of a table at indices that depend on the input, as `table[index]` reads them."""
        numbers, (table, rows) = parameters["dimension_numbers"], values
        whole = tuple(parameters["slice_sizes"]) == (1, *shapes[0][1:])
        # The indices of further axes, which are read as a whole, are zeros.
        by_rows = numbers.start_index_map[0] == 0 and not numbers.operand_batching_dims
        behind = tuple(range(len(out.shape) - len(numbers.offset_dims), len(out.shape)))
        if isinstance(table, str) or not (whole and by_rows and numbers.offset_dims == behind):
            raise self._unknown("gather")
        rows = self.graph.apply("Gather", self.named(rows), self.weight(np.int64(0)), axis=len(shapes[1]))
        return self.graph.reshape(self.graph.apply("Gather", self.weight(table), rows, axis=0), 0, *out.shape)

    def _row(self, values: list[Value], shapes: list[tuple[int, ...]], out: Any, sizes: Sequence[int]) -> str:
        """A row of a table, as `table[index]` reads it where the index is a single number."""
        table, index, *others = values
        is_row = tuple(sizes) == (1, *shapes[0][1:]) and not any(isinstance(each, str) or int(each) for each in others)
        if isinstance(table, str) or not isinstance(index, str) or not is_row:
            raise self._unknown("dynamic_slice")
        return self.graph.reshape(self.graph.apply("Gather", self.weight(table), index, axis=0), 0, *out.shape)

    def _updated(self, values: list[Value], shapes: list[tuple[int, ...]]) -> str:
        """An array with a new row at an index along its first axis."""
        (old, new, index, *others), whole, row = values, shapes[0], shapes[1]
        if row != (1, *whole[1:]) or any(isinstance(each, str) or int(each) for each in others):
            raise self._unknown("dynamic_update_slice")
        places = self.weight(np.arange(whole[0]).reshape(-1, *[1] * (len(whole) - 1)))
        here = self.graph.apply("Equal", places, self._aligned(index, (), whole))
        return self.graph.apply("Where", here, self.named(new), self.named(old))

    def _product(self, values: list[Value], shapes: list[tuple[int, ...]], out: Any, numbers: Any) -> str:
        """A product over the axes `numbers`, as one of matrices `[episode, free, summed] @ [episode, summed, free]`.

        Axes that both have, as the heads of attention, come between the episodes and the matrices.
        """
        summed, batched = numbers
        free = [[axis for axis in range(len(shapes[i])) if axis not in (*summed[i], *batched[i])] for i in range(2)]
        both = tuple(shapes[0][axis] for axis in batched[0])
        sizes = [math.prod(shapes[i][axis] for axis in free[i]) for i in range(2)]
        count = math.prod(shapes[0][axis] for axis in summed[0])
        left = self._matrix(values[0], [*batched[0], *free[0], *summed[0]], (*both, sizes[0], count))
        right = self._matrix(values[1], [*batched[1], *summed[1], *free[1]], (*both, count, sizes[1]))
        return self.graph.reshape(self.graph.apply("MatMul", left, right), 0, *out.shape)

    def _matrix(self, value: Value, order: list[int], shape: tuple[int, ...]) -> str:
        if not isinstance(value, str):
            return self.weight(np.asarray(value).transpose(order).reshape(shape)[None])
        if order != sorted(order):
            value = self.graph.apply("Transpose", value, perm=[0, *(axis + 1 for axis in order)])
        return self.graph.reshape(value, 0, *shape)
