"""Pictures among the observations and states of Gymnasium environments, and spaces that nobody can read."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces

from asymrl.envs.gymnasium_spaces import encoding_of_space, encoding_of_value
from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
from asymrl.worlds.spaces import Box, Image, Indices
from tests.learners.small import tiny_ppo


class Beacon(gymnasium.Env):
    """A light on the left or right half of a picture; go where it is. The state is a picture of another form."""

    observation_space = spaces.Box(0, 255, (3, 12, 12), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return self._shown()

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        reward = 1.0 if action == self.side else -1.0
        seen, info = self._shown()
        return seen, reward, False, False, info

    def _shown(self) -> tuple[np.ndarray, dict]:
        self.side = int(self.np_random.integers(2))
        picture = self.np_random.integers(60, size=(3, 12, 12), dtype=np.uint8)
        row, column = self.np_random.integers(10), self.np_random.integers(4) + 6 * self.side
        picture[:, row : row + 2, column : column + 2] = 255
        return picture, {"state": picture[0]}


def bytes_of(*shape: int) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8)


@pytest.mark.parametrize(
    ("shape", "ours"),
    [
        ((8, 8), (8, 8, 1)),
        ((210, 160, 3), (210, 160, 3)),
        ((3, 210, 160), (210, 160, 3)),
        ((84, 84, 4), (84, 84, 4)),
        ((4, 84, 84), (84, 84, 4)),
        ((12, 64, 64), (64, 64, 12)),
        ((8, 8, 8), (8, 8, 8)),
    ],
)
def test_arrays_of_bytes_are_pictures(shape: tuple[int, ...], ours: tuple[int, ...]):
    found = encoding_of_space(bytes_of(*shape), "it")
    assert found is not None
    assert found.space == Image(shape=ours)
    value = np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)
    read = found.read(value)
    assert (read.dtype, found.space.problem(read)) == (np.uint8, None)
    expected = value[..., None] if len(shape) == 2 else value if shape == ours else np.moveaxis(value, 0, -1)
    np.testing.assert_array_equal(read, expected)
    assert encoding_of_value(value, "it").space == Image(shape=ours)  # where no space is declared


@pytest.mark.parametrize(
    "space",
    [bytes_of(7, 7, 3), bytes_of(64), bytes_of(4, 8), spaces.Box(0, 10, (9, 9, 3), np.uint8), bytes_of(2, 3, 8, 8)],
)
def test_other_arrays_of_small_integers_are_symbols(space: spaces.Box):
    found = encoding_of_space(space, "it")
    assert found is not None
    assert type(found.space) is Indices


def test_integers_without_bounds_are_numbers():
    found = encoding_of_space(spaces.Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (2,), np.int64), "it")
    assert found is not None
    assert found.space == Box((2,))
    np.testing.assert_array_equal(found.read(np.array([-7, 1000])), [-7, 1000])
    unbounded = encoding_of_space(spaces.Box(-np.inf, np.inf, (3,)), "it")
    assert unbounded is not None
    assert unbounded.space.problem(unbounded.read(np.array([1e30, -5.0, 0.0]))) is None


@pytest.mark.parametrize(
    ("space", "advice"),
    [
        (spaces.Text(5), "is a Text space, .*FilterObservation"),
        (spaces.Sequence(spaces.Discrete(3)), "is a Sequence space, .*a fixed length"),
        (spaces.Graph(spaces.Box(0, 1, (2,)), None), "is a Graph space, .*Boxes of a fixed size"),
        (spaces.OneOf((spaces.Discrete(2), spaces.Discrete(3))), "is a OneOf space, .*which one it is"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place_and_a_way_out(space: spaces.Space, advice: str):
    whole = spaces.Dict({"arm": spaces.Tuple((spaces.Discrete(2), space))})
    with pytest.raises(ValueError, match=f"Odd: the observation 'arm' '1' {advice}"):
        encoding_of_space(whole, "Odd: the observation")


def test_minigrid_keeps_its_symbols():
    pytest.importorskip("minigrid")
    small = from_gymnasium("minigrid:MiniGrid-MemoryS13-v0")
    assert type(dict(small.observation_space.items())["image"]) is Indices  # pyright: ignore
    assert not any(isinstance(part, Image) for _, part in small.latent_space.items())  # pyright: ignore


@pytest.mark.slow
def test_a_light_in_a_picture_is_found():
    """By an actor that sees colours first, and a critic that reads a grey picture as the state."""
    env = from_gymnasium(Beacon, time_limit=8)
    assert (env.observation_space, env.latent_space) == (Image(shape=(12, 12, 3)), Image(shape=(12, 12, 1)))
    settings = tiny_ppo(
        method="ppo-asym-hs", world="beacon", time_limit=8, streams=16, rollout=16, minibatches=4, steps=100_000,
        learning_rate=1e-3, entropy_weight=0.01, memory_size=16, anneal=False,
    )  # fmt: skip
    program = Program(settings, env)
    trainer = program.open(1, jax.local_devices()[0])
    runs = trainer.train(program.start([0]), stack_numbers([settings]), 60)
    trainer.close()
    assert float(np.mean(np.asarray(runs.recent_returns))) > 6.0  # of 8; blind guesses earn 0
