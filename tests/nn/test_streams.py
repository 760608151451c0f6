"""Memories over streams: pieces in which one episode follows the other are the episodes, one by one."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.kernels import gru_on_tensor_cores, network_kernels as kernels
from asymrl.nn.gru import FEW, Stream, gru_gates, gru_sequence
from asymrl.nn.memory import Memory
from tests.nn.memories import inputs
from tests.nn.memories.test_memory import INPUTS, MEMORIES

T, N = 7, 2
PIECES = (slice(0, 4), slice(4, 5), slice(5, 7))
# The episodes of each stream: steps from one start to the next. The last ones go on beyond the streams.
EPISODES = (((0, 2), (2, 6), (6, 7)), ((0, 5), (5, 7)))
FIRST = np.zeros((T, N), bool)
for n, episodes in enumerate(EPISODES):
    FIRST[[start for start, _ in episodes], n] = True
XS = jnp.asarray(np.random.default_rng(1).normal(size=(T, N, INPUTS)), jnp.float32)


SIMPLE = ("gru", "the last 3", "none")
SOME = [name if name in SIMPLE else pytest.param(name, marks=pytest.mark.slow) for name in MEMORIES]


@pytest.fixture(params=MEMORIES)
def memory(request: pytest.FixtureRequest) -> Memory:
    return MEMORIES[request.param]


@eqx.filter_jit
def by_episode(memory: Memory, xs: jax.Array) -> list[list[jax.Array]]:
    return [[inputs.sequence(memory, xs[a:b, n : n + 1])[:, 0] for a, b in EPISODES[n]] for n in range(N)]


@eqx.filter_jit
def in_pieces(memory: Memory, xs: jax.Array) -> jax.Array:
    carry, features = memory.begin_streams(N), []
    for piece in PIECES:
        carry, found = memory.follow_from(carry, jnp.asarray(FIRST[piece]), inputs.project(memory, xs[piece]))
        features.append(found)
    return jnp.concatenate(features)


@eqx.filter_jit
def step_by_step(memory: Memory, xs: jax.Array) -> jax.Array:
    def step(carry: Any, at: Any) -> Any:
        first, x = at
        return memory.advance_from(carry, first, inputs.project(memory, x))

    return jax.lax.scan(step, memory.begin_streams(N), (jnp.asarray(FIRST), xs))[1]


def test_a_stream_is_its_episodes_one_after_the_other(memory: Memory):
    expected = np.stack([np.concatenate(parts) for parts in by_episode(memory, XS)], axis=1)
    np.testing.assert_allclose(in_pieces(memory, XS), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(step_by_step(memory, XS), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SOME)
def test_what_would_come_next(name: str):
    """After each input of the streams another one that could have followed in the same episode."""
    memory = MEMORIES[name]
    following = XS[::-1]

    @eqx.filter_jit
    def both(memory: Memory) -> tuple[jax.Array, jax.Array]:
        projected = inputs.project(memory, XS), inputs.project(memory, following)
        _, features, after = memory.follow_with_next(memory.begin_streams(N), jnp.asarray(FIRST), *projected)
        return features, after

    features, after = both(memory)
    np.testing.assert_allclose(features, in_pieces(memory, XS), rtol=1e-5, atol=1e-6)
    for n, t, begun in ((0, 3, 2), (1, 4, 0), (1, 5, 5)):
        episode = jnp.concatenate([XS[begun : t + 1, n], following[t : t + 1, n]])
        expected = inputs.sequence(memory, episode[:, None])[-1, 0]
        np.testing.assert_allclose(after[t, n], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SOME)
def test_gradients_of_a_whole_stream_are_those_of_its_episodes(name: str):
    """From an empty start, so that both know the same past."""
    memory = MEMORIES[name]
    weights = jnp.asarray(np.random.default_rng(2).normal(size=(T, N, memory.size)), jnp.float32)

    @eqx.filter_jit
    def gradients(memory: Memory, xs: jax.Array) -> Any:
        def whole(given: Any) -> jax.Array:
            memory, xs = given
            _, features = memory.follow_from(memory.begin_streams(N), jnp.asarray(FIRST), inputs.project(memory, xs))
            return jnp.sum(weights * features)

        def single(given: Any) -> jax.Array:
            parts = by_episode(*given)
            return sum(jnp.sum(weights[:, n] * jnp.concatenate(parts[n])) for n in range(N))  # pyright: ignore[reportReturnType]

        return eqx.filter_grad(whole)((memory, xs)), eqx.filter_grad(single)((memory, xs))

    one, other = (jax.tree.leaves(g) for g in gradients(memory, XS))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["gru", "lstm", "the last 3"])
def test_no_gradient_reaches_what_was_carried_here(name: str):
    memory = MEMORIES[name]

    def total(memory: Memory, xs: jax.Array) -> jax.Array:
        carry, _ = memory.follow_from(memory.begin_streams(N), jnp.asarray(FIRST[:4]), inputs.project(memory, xs[:4]))
        return jnp.sum(memory.follow_from(carry, jnp.asarray(FIRST[4:]), inputs.project(memory, xs[4:]))[1])

    gradient = np.asarray(eqx.filter_jit(jax.grad(total, 1))(memory, XS))
    assert (gradient[:4] == 0).all()
    assert (gradient[4:] != 0).any(axis=-1).all()


def stream(steps: int, episodes: int, size: int, dtype: Any) -> tuple[Any, ...]:
    """Projected inputs, weight and bias of a recurrent unit, and a stream that begins inside an episode."""
    rng = np.random.default_rng(0)
    shapes = [(steps, episodes, 3 * size), (size, 3 * size), (3 * size,), (episodes, size)]
    projected, weight, bias, start = (jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes)
    keep = np.ones((steps, episodes))
    keep[steps // 2, 0] = keep[steps - 1, -1] = 0
    return projected, weight / size**0.5, bias, Stream(start, jnp.asarray(keep, dtype))


def plain_steps(projected: jax.Array, weight: jax.Array, bias: jax.Array, stream: Stream) -> jax.Array:
    """The same unit with the gradient of automatic differentiation."""

    def step(h: jax.Array, at: Any) -> Any:
        x, keep = at
        h, _ = gru_gates(x, jnp.where(keep[:, None] > 0, h, 0.0), weight, bias)
        return h, h

    return jax.lax.scan(step, stream.start, (projected, stream.keep))[1]


@pytest.mark.parametrize("steps", [1, 3, FEW + 3])
def test_the_gradient_of_a_stream_is_that_of_automatic_differentiation(steps: int):
    with jax.enable_x64(True):
        *given, pieces = stream(steps, 3, 4, jnp.float64)
        hs, pull = jax.vjp(lambda *given: gru_sequence(*given, None, pieces), *given)
        expected, pull_plain = jax.vjp(lambda p, w, b: plain_steps(p, w, b, pieces), *given)
        np.testing.assert_allclose(hs, expected, rtol=1e-10, atol=1e-12)
        above = jnp.asarray(np.random.default_rng(5).normal(size=hs.shape))
        for one, other in zip(pull(above), pull_plain(above), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


# In float16 the largest error here is 7e-4, as the memories that a stream begins with are not below one.
@pytest.mark.parametrize(("unit", "rtol", "atol"), [(kernels, 1e-5, 1e-6), (gru_on_tensor_cores, 2e-3, 1e-3)])
@pytest.mark.parametrize("episodes", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_the_kernels_follow_streams(unit: ModuleType, rtol: float, atol: float, episodes: int):
    """Interpreted, so that any machine can run them."""
    size = 32
    projected, weight, bias, pieces = stream(5, episodes, size, jnp.float32)
    hs, pull = jax.vjp(lambda *given: gru_sequence(*given, None, pieces), projected, weight, bias)
    by_kernel = unit.gru_forward(projected, weight, bias, pieces, interpret=True)
    np.testing.assert_allclose(by_kernel, hs, rtol=rtol, atol=atol)

    before = jnp.concatenate([pieces.start[None], hs[:-1]]) * pieces.keep[..., None]
    gates = gru_gates(projected, before, weight, bias)[1]
    above = jnp.asarray(np.random.default_rng(3).normal(size=hs.shape), jnp.float32)
    gradient = unit.gru_backward(above, *gates, before, weight, pieces.keep, interpret=True)
    np.testing.assert_allclose(gradient, pull(above)[0], rtol=1e-5, atol=1e-5)
