"""RockSample: a rover that may look at rocks from afar before it decides which ones are worth a visit."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.worlds.builtin.rock_terrain import CHECK, EAST, MOST_ROCKS, SAMPLE, WEST, Terrain, terrain_of
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.probability_tables import Rows
from asymrl.worlds.spaces import Box, Discrete
from asymrl.worlds.world import DEFAULT_TIME_LIMIT, Action, Signal, Step, World

NOTHING_SEEN, GOOD, BAD = range(3)  # observations
GOOD_ROCK, BAD_ROCK, EXIT = 10.0, -10.0, 10.0  # rewards

# Larger worlds have no tables. A critic has an embedding of each state of a finite world; beyond this many states, the
# embeddings outweigh all else it learns, while the simulation gives it place and rocks in fewer than 100 numbers.
MOST_STATES = 20_000


def rock_sample(
    n: int,
    k: int,
    *,
    position: bool = False,
    layout_seed: int | None = None,
    half_efficiency: float | int | None = None,
    simulated: bool = False,
    discount: float = 0.95,
    time_limit: int | None = DEFAULT_TIME_LIMIT,
) -> RockSample | SimulatedRockSample:
    """RockSample with k rocks on an n x n grid: with tables if it is small enough, as a simulation otherwise.

    Args:
        n: cells along a side.
        k: how many rocks.
        position: whether the agent observes its cell. It could always count its moves, so this changes what is easy to
            learn, not what can be reached.
        layout_seed: draws the rocks' cells, instead of the published ones.
        half_efficiency: the distance at which the sensor is half as good, instead of the published one.
        simulated: no tables, even where they would fit.
        discount: of the returns.
        time_limit: steps after which an episode is truncated.
    """
    terrain = terrain_of(n, k, layout_seed, half_efficiency)
    fits = terrain.cells * 2**k <= MOST_STATES
    build = RockSample if fits and not simulated else SimulatedRockSample
    return build(terrain, position=position, discount=discount, time_limit=time_limit)


class RockSample(FiniteWorld):
    """RockSample (Smith and Simmons, "Heuristic Search Value Iteration for POMDPs", UAI 2004) by its tables.

    The state is `cell * 2^k + rocks`, where bit i of `rocks` tells whether rock i is good. Each rock is good with
    probability 1/2. `sample` on a rock has the reward +10 if it is good, which makes it bad, and -10 if it is bad;
    elsewhere it does nothing. `check-i` shows whether rock i is good, less reliably from afar. Leaving to the east has
    the reward +10 and ends the episode; the other sides of the grid are walls.
    """

    terrain: Terrain = eqx.field(static=True)
    position: bool = eqx.field(static=True)

    def __init__(
        self,
        terrain: Terrain,
        *,
        position: bool = False,
        discount: float = 0.95,
        time_limit: int | None = DEFAULT_TIME_LIMIT,
    ):
        self.terrain = terrain
        self.position = position
        n, k = terrain.n, len(terrain.rocks)
        cell, rocks = np.divmod(np.arange(terrain.cells * 2**k), 2**k)
        S, A = cell.size, CHECK + k
        is_good = (rocks[:, None] >> np.arange(k)) & 1

        here = terrain.rock_at()[cell]
        digs = np.where(here >= 0, 1 << np.maximum(here, 0), 0)
        gains = (rocks & digs) > 0
        next_state = np.tile(np.arange(S)[:, None], A)
        next_state[:, :SAMPLE] = terrain.moves()[cell] * 2**k + rocks[:, None]
        next_state[:, SAMPLE] = cell * 2**k + (rocks & ~digs)
        rewards, ends = np.zeros((S, A)), np.zeros((S, A), bool)
        rewards[:, SAMPLE] = np.where(here < 0, 0.0, np.where(gains, GOOD_ROCK, BAD_ROCK))
        ends[:, EAST] = cell // n == n - 1
        rewards[ends] = EXIT

        right = terrain.accuracy()[cell]
        p_good = np.where(is_good == 1, right, 1 - right).T  # [k, S]
        shown = np.zeros((A, S, 3))
        shown[:CHECK, :, NOTHING_SEEN] = 1
        shown[CHECK:, :, GOOD], shown[CHECK:, :, BAD] = p_good, 1 - p_good
        names = terrain.observation_names(position)
        row, word = np.nonzero(shown.reshape(A * S, 3))
        column = cell[row % S] * 3 + word if position else word
        nothing = cell * 3 if position else 0 * cell
        super().__init__(
            name=terrain.name,
            transitions=Rows.deterministic(next_state, S),
            observations=Rows.from_entries(row, column, shown.reshape(A * S, 3)[row, word], A * S, len(names)),
            first_observations=Rows.deterministic(nothing, len(names)),
            rewards=rewards,
            ends=ends,
            start=np.where(cell == terrain.start, 0.5**k, 0.0),
            state_names=[
                f"{c // n}_{c % n}_{''.join('bg'[r >> i & 1] for i in range(k))}"
                for c, r in zip(cell, rocks, strict=True)
            ],
            action_names=terrain.action_names,
            observation_names=names,
            discount=discount,
            time_limit=time_limit,
        )

    def signals(self) -> dict[str, Signal]:
        k = len(self.terrain.rocks)

        def rocks(s: Int[Array, "*batch"]) -> Float[Array, "*batch k"]:
            return jnp.stack([(s >> i) & 1 for i in range(k)], axis=-1).astype(jnp.float32)

        return super().signals() | {
            "rocks": Signal(rocks, Box((k,), 0.0, 1.0), "which rocks are good"),
            "position": Signal(lambda s: s >> k, Discrete(self.terrain.cells), "the agent's cell"),
        }


class RoverState(NamedTuple):
    """Where the agent is, and which rocks are good."""

    cell: Int[Array, ""]
    good: Bool[Array, "k"]


class SimulatedRockSample(World):
    """RockSample without tables, for sizes too large for them. With the same keys it does what `RockSample` does.

    The latent has n + n + k numbers: the column and the row of the agent as unit vectors, and 1 for each good rock.
    """

    terrain: Terrain = eqx.field(static=True)
    position: bool = eqx.field(static=True)
    name: str = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    time_limit: int | None = eqx.field(static=True)

    def __init__(
        self,
        terrain: Terrain,
        *,
        position: bool = False,
        discount: float = 0.95,
        time_limit: int | None = DEFAULT_TIME_LIMIT,
    ):
        self.terrain = terrain
        self.position = position
        self.name = terrain.name
        self.discount = discount
        self.time_limit = time_limit

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.terrain.action_names

    @property
    def observation_space(self) -> Discrete:
        return Discrete(3 * self.terrain.cells if self.position else 3)

    @property
    def latent_space(self) -> Box:
        return Box((2 * self.terrain.n + len(self.terrain.rocks),), 0.0, 1.0)

    def signals(self) -> dict[str, Signal]:
        n, k = self.terrain.n, len(self.terrain.rocks)
        return super().signals() | {
            "rocks": Signal(lambda s: s[..., 2 * n :], Box((k,), 0.0, 1.0), "which rocks are good"),
            "position": Signal(lambda s: s[..., : 2 * n], Box((2 * n,), 0.0, 1.0), "the agent's column and row"),
        }

    def reset(self, key: PRNGKeyArray) -> RoverState:
        k = len(self.terrain.rocks)
        # The leading bits of a random number: the state that `RockSample` draws with the same key.
        rocks = jax.random.bits(key) >> (MOST_ROCKS - k)
        return RoverState(jnp.int32(self.terrain.start), (rocks >> jnp.arange(k, dtype=jnp.uint32)) & 1 == 1)

    def step(self, key: PRNGKeyArray, state: RoverState, action: Action) -> Step:
        k = len(self.terrain.rocks)
        moved = jnp.asarray(self.terrain.moves(), jnp.int32)[state.cell, jnp.minimum(action, WEST)]
        here = jnp.asarray(self.terrain.rock_at(), jnp.int32)[state.cell]
        sampled = (action == SAMPLE) & (jnp.arange(k) == here)
        gain = jnp.where(state.good[jnp.maximum(here, 0)], GOOD_ROCK, BAD_ROCK)
        leaves = self._leaves(state, action)
        reward = jnp.where(leaves, EXIT, jnp.where(jnp.any(sampled), gain, 0.0))
        cell = jnp.where(action < SAMPLE, moved, state.cell)
        return Step(RoverState(cell, state.good & ~sampled), reward.astype(jnp.float32), leaves)

    def first_observation(self, key: PRNGKeyArray, state: RoverState) -> Int[Array, ""]:
        return self._shown(state.cell, jnp.int32(NOTHING_SEEN))

    def observe(self, key: PRNGKeyArray, state: RoverState, action: Action, next_state: RoverState) -> Int[Array, ""]:
        rock = jnp.maximum(jnp.asarray(action) - CHECK, 0)
        right = jnp.asarray(self.terrain.accuracy(), jnp.float32)[next_state.cell, rock]
        p_good = jnp.where(next_state.good[rock], right, 1 - right)
        answer = jnp.where(jax.random.uniform(key) < p_good, GOOD, BAD)
        # The observation after the end belongs to the next episode.
        cell = jnp.where(self._leaves(state, action), self.terrain.start, next_state.cell)
        return self._shown(cell, jnp.where(action >= CHECK, answer, NOTHING_SEEN))

    def latent(self, state: RoverState) -> Float[Array, "latent"]:
        n = self.terrain.n
        x, y = jax.nn.one_hot(state.cell // n, n), jax.nn.one_hot(state.cell % n, n)
        return jnp.concatenate([x, y, state.good.astype(jnp.float32)])

    def from_latent(self, latent: Float[Array, "latent"]) -> RoverState:
        n, latent = self.terrain.n, jnp.asarray(latent)
        cell = jnp.argmax(latent[:n]) * n + jnp.argmax(latent[n : 2 * n])
        return RoverState(cell.astype(jnp.int32), latent[2 * n :] > 0.5)

    def latent_problem(self, latent: Any) -> str | None:
        if problem := super().latent_problem(latent):
            return problem
        n, numbers = self.terrain.n, np.asarray(latent)
        if not np.isin(numbers, (0, 1)).all():
            return "holds a value other than 0 and 1"
        if numbers[:n].sum() != 1 or numbers[n : 2 * n].sum() != 1:
            return "must mark exactly one column and one row"
        return None

    def _leaves(self, state: RoverState, action: Action) -> Bool[Array, ""]:
        return (action == EAST) & (state.cell // self.terrain.n == self.terrain.n - 1)

    def _shown(self, cell: Int[Array, ""], word: Int[Array, ""]) -> Int[Array, ""]:
        return cell * 3 + word if self.position else word
