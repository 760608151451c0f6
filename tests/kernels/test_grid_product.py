"""The convolutions of the cells that an agent visits, against a convolution for each step."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.kernels.grid_product import visits
from asymrl.nn.grid_state import GridState
from asymrl.nn.layers import project_episodes
from asymrl.worlds.registry import make
from asymrl.worlds.spaces import Record

T, E, BESIDE, WIDTH = 24, 2, 3, 4


def test_every_cell_is_a_row_once():
    """Two episodes in five cells that are numbers 10 to 14 of a larger grid."""
    walks = np.array([[0, 3], [2, 3], [0, 3], [4, 1]])
    found = visits(jnp.asarray(walks[..., None] == np.arange(5)), np.arange(10, 15))
    assert found.used == 3 + 2
    assert list(zip(found.episode[:5].tolist(), found.cell[:5].tolist(), strict=True)) == [
        (0, 10), (0, 12), (0, 14), (1, 11), (1, 13),
    ]  # fmt: skip
    np.testing.assert_array_equal(np.asarray(found.row).reshape(4, 2), [[0, 4], [1, 4], [0, 4], [2, 3]])


class Walks:
    """Episodes of several runs, some of which stay where they are, and features with weights of their own."""

    def __init__(self, lanes: int):
        self.env = make("memory-four-rooms-5x7")
        space = self.env.latent_space
        assert isinstance(space, Record)
        keys = jax.random.split(jax.random.key(0), lanes)
        self.phi = eqx.filter_vmap(lambda key: GridState(key, space))(keys)
        size = BESIDE + eqx.filter_eval_shape(GridState, keys[0], space).size
        self.weight = jax.random.normal(jax.random.key(1), (lanes, size, WIDTH)) / 30
        self.others = jax.random.normal(jax.random.key(2), (lanes, T, E, BESIDE))
        self.latents = jax.jit(jax.vmap(self.walk))(keys, jnp.arange(lanes) % 3 * 12)

    def walk(self, key: jax.Array, moves: jax.Array) -> Any:
        keys = jax.random.split(key, (T, E))

        def step(state: Any, given: Any) -> Any:
            t, keys = given
            actions = jax.vmap(lambda k: jax.random.randint(k, (), 0, 6))(keys)
            after = jax.vmap(self.env.step)(keys, state, actions).state
            return jax.tree.map(lambda x, y: jnp.where(t < moves, x, y), after, state), jax.vmap(self.env.latent)(state)

        return jax.lax.scan(step, jax.vmap(self.env.reset)(keys[0]), (jnp.arange(T), keys))[1]


@pytest.mark.parametrize("lanes", [1, 3, 16])
def test_values_and_gradients_are_those_of_a_convolution_for_each_step(lanes: int):
    """Runs that visit few cells and runs that visit many share the work; each gets what it would have got alone."""
    walks = Walks(lanes)

    def packed(phi: GridState, weight: jax.Array, others: jax.Array, latents: Any) -> jax.Array:
        return project_episodes(phi, others, latents, weight)

    def plain(phi: GridState, weight: jax.Array, others: jax.Array, latents: Any) -> jax.Array:
        return jnp.concatenate([others, phi(latents)], axis=-1) @ weight

    def both(project: Any) -> Any:
        def loss(given: Any, latents: Any) -> Any:
            y = project(*given, latents)
            return jnp.sum(jnp.sin(y)), y

        gradient = eqx.filter_vmap(lambda given, latents: eqx.filter_value_and_grad(loss, has_aux=True)(given, latents))
        return eqx.filter_jit(gradient)((walks.phi, walks.weight, walks.others), walks.latents)

    found, expected = both(packed), both(plain)
    cells = [len(np.unique(np.asarray(each).reshape(T, -1), axis=0)) for each in walks.latents["agent_id_grid"]]
    assert lanes == 1 or (min(cells) == 1 and max(cells) > 4)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=3e-5)


def test_streams_are_read_step_by_step():
    """Where another episode begins, the grid is another; only whole episodes have one grid."""
    walks = Walks(1)
    phi, latents = jax.tree.map(lambda leaf: leaf[0], (walks.phi, walks.latents))
    other = jax.tree.map(
        lambda leaf: leaf[0], jax.vmap(walks.walk)(jax.random.split(jax.random.key(9), 1), jnp.array([T]))
    )
    stream = jax.tree.map(lambda one, two: jnp.concatenate([one[: T // 2], two[: T // 2]]), latents, other)
    weight = walks.weight[0, BESIDE:]
    read = eqx.filter_jit(lambda phi: phi.project_beside(None, stream, weight))(phi)
    np.testing.assert_allclose(read, phi(stream) @ weight, rtol=1e-4, atol=1e-5)
