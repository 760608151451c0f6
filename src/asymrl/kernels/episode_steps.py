"""The inside of `episode_kernel`, which plays whole episodes."""

from __future__ import annotations

import abc
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from asymrl.worlds.deterministic import ScalarRules

NOTHING = -1  # no action: the zero vector before the first of them
TILE = 4096  # numbers of a matrix that are read together
TILES = 4  # read one after the other before the first is used, so that the memory has enough to do


def power_of_two(n: int) -> int:
    """The smallest that is not below n."""
    return 1 << (n - 1).bit_length()


class _EpisodeNow(NamedTuple):
    """Where an episode stands between two steps."""

    before: tuple[Array, ...]  # the last actions, as many as the window has
    seen: tuple[Any, ...]  # likewise; before the first action anything
    place: Any
    alive: Array  # 0 or 1, as everything here that is true or false
    length: Array
    truncated: Array


class Consequence(NamedTuple):
    """What comes of an action."""

    place: Any
    seen: Any
    reward: Array
    ended: Array  # 0 or 1


class EpisodeSteps(abc.ABC):
    """The inside of the kernel. The policy, what the world is made of and the tape are references.

    Episodes are a list everywhere: a matrix that is multiplied with several vectors in turn stays where it was read to,
    while one that meets a matrix of vectors would be moved between threads.
    """

    def __init__(self, policy: Any, chance: Any, tape: Any, window: int | None, horizon: int, interpret: bool):
        self.policy, self.chance, self.tape = policy, chance, tape
        self.window, self.horizon, self.interpret = window, horizon, interpret
        self.episodes = range(tape.memory.shape[0])
        self.size = tape.memory.shape[1]
        self.actions = policy.taken.shape[0]

    @abc.abstractmethod
    def first(self, e: int) -> tuple[Any, Any]:
        """Where an episode starts, and what is seen there."""

    @abc.abstractmethod
    def after(self, e: int, place: Any, action: Array) -> Consequence:
        """What comes of an action of an episode in a place."""

    @abc.abstractmethod
    def write(self, t: Array, e: int, came: Consequence) -> None:
        """Writes where an episode is at a time, so that states and observations can be found again."""

    @abc.abstractmethod
    def seen_inputs(self, e: int, seen: Any) -> list[Float[Array, "size"]]:
        """What the memory takes in of what is seen, for each gate."""

    def go(self, active: Array) -> None:
        """All episodes, until the last has ended."""
        length, zero = self.window or 1, jnp.int32(0)
        start = []
        for e in self.episodes:
            place, seen = self.first(e)
            none = (jnp.int32(NOTHING),) * length
            start.append(_EpisodeNow(none, (seen,) * length, place, active, zero, zero))

        def any_alive(loop: tuple[Array, list[_EpisodeNow]]) -> Array:
            return sum((now.alive for now in loop[1]), zero) > 0

        _, ends = jax.lax.while_loop(any_alive, self.step, (zero, start))
        for e, end in enumerate(ends):
            self.tape.lengths[e] = end.length
            self.tape.truncated[e] = end.truncated

    def step(self, loop: tuple[Array, list[_EpisodeNow]]) -> tuple[Array, list[_EpisodeNow]]:
        """One step of every episode, also of those that have ended: others may be waiting."""
        t, nows = loop
        for e, features in enumerate(self.remember(nows)):
            self.tape.features[t, e, :] = features
        after = [self.act(t, e, now, action) for e, (now, action) in enumerate(zip(nows, self.choose(t), strict=True))]
        return t + 1, after

    def act(self, t: Array, e: int, now: _EpisodeNow, action: Array) -> _EpisodeNow:
        """One episode after an action, and the line of the tape about it."""
        came = self.after(e, now.place, action)
        self.tape.actions[t, e] = action
        self.tape.rewards[t, e] = jnp.where(now.alive > 0, came.reward, 0.0)
        self.write(t + 1, e, came)
        truncated = jnp.where(t + 1 >= self.horizon, 1 - came.ended, 0)
        return _EpisodeNow(
            before=(*now.before[1:], action),
            seen=(*now.seen[1:], came.seen),
            place=came.place,
            alive=now.alive * (1 - came.ended) * (1 - truncated),
            length=now.length + now.alive,
            truncated=jnp.where(now.alive > 0, truncated, now.truncated),
        )

    def remember(self, nows: list[_EpisodeNow]) -> list[Float[Array, "size"]]:
        """The features of the histories: one more input, or all of the window."""
        nothing, hs = jnp.zeros(self.size, jnp.float32), []
        for i in range(self.window or 1):
            if self.window is not None and i == 0:
                hs, of_memory = [nothing for _ in nows], [[nothing] * 3 for _ in nows]
            else:
                hs = [self.tape.memory[e, :] for e in self.episodes]
                of_memory = self.product(self.tape.memory, self.policy.hidden_weight, 3)
            inputs = [self.inputs(e, now, i) for e, now in enumerate(nows)]
            hs = [self.gates(*given) for given in zip(inputs, hs, of_memory, strict=True)]
            self.publish(self.tape.memory, hs)
        return hs

    def inputs(self, e: int, now: _EpisodeNow, i: int) -> list[Float[Array, "size"]]:
        """What the memory takes in of the action and the sight at a place of the window, for each gate."""
        acted, before = now.before[i] != NOTHING, jnp.maximum(now.before[i], 0)
        # Something was seen before every action, and last.
        saw = now.before[i + 1] != NOTHING if i + 1 < len(now.before) else None
        of_seen = self.seen_inputs(e, now.seen[i])
        return [
            jnp.where(acted, self.policy.taken[before, gate], 0.0)
            + (part if saw is None else jnp.where(saw, part, 0.0))
            + self.policy.bias[gate]
            for gate, part in zip(self.parts(), of_seen, strict=True)
        ]

    def parts(self) -> list[slice]:
        return [slice(i * self.size, (i + 1) * self.size) for i in range(3)]

    def gates(self, inputs: list[Array], h: Array, of_memory: list[Array]) -> Float[Array, "size"]:
        """The gated recurrent unit, as in `recurrence.gru_gates`."""
        biases = (self.policy.hidden_bias[gate] for gate in self.parts())
        h_r, h_z, h_n = (part + bias for part, bias in zip(of_memory, biases, strict=True))
        i_r, i_z, i_n = inputs
        r, z = jax.nn.sigmoid(i_r + h_r), jax.nn.sigmoid(i_z + h_z)
        n = jnp.tanh(i_n + r * h_n)
        return (1 - z) * n + z * h

    def choose(self, t: Array) -> list[Int[Array, ""]]:
        """An action for each episode."""
        inputs = self.tape.memory
        for (weight, bias), hidden in zip(self.policy.layers, self.tape.hidden, strict=True):
            outputs = self.product(inputs, weight)
            self.publish(hidden, [jnp.maximum(each + bias[:], 0.0) for (each,) in outputs])
            inputs = hidden
        return [self.draw(inputs[e, :], self.chance[t, e]) for e in self.episodes]

    def draw(self, x: Float[Array, "inputs"], u: Float[Array, ""]) -> Int[Array, ""]:
        """An action drawn by inversion, as in `distributions.Categorical.choose`."""
        logits = jnp.sum(self.policy.last[:, :] * x[None], axis=1) + self.policy.last_bias[:]
        shares = jnp.exp(logits - jnp.max(logits))
        shares = shares / jnp.sum(shares)
        n = jnp.arange(logits.shape[0])
        up_to = jnp.sum(jnp.where(n[None, :] <= n[:, None], shares[None, :], 0.0), axis=1)
        return jnp.sum(((up_to <= u) & (n < self.actions - 1)).astype(jnp.int32))

    def product(self, xs: Any, weight: Any, parts: int = 1) -> list[list[Float[Array, "outputs"]]]:
        """`x @ weight` for each row of a reference, the columns cut into parts of equal size."""
        K, N = weight.shape[0], weight.shape[1] // parts
        rows = max(1, min(K, TILE // weight.shape[1]))
        rows = rows if K % rows == 0 else power_of_two(rows) // 2
        tiles = min(TILES, K // rows)
        columns = [slice(i * N, (i + 1) * N) for i in range(parts)]

        def several(i: Array, sums: list[list[Array]]) -> list[list[Array]]:
            here = [_slice((i * tiles + k) * rows, rows) for k in range(tiles)]
            read = [([xs[e, some] for e in self.episodes], [weight[some, part] for part in columns]) for some in here]
            for vectors, matrices in read:
                matrices = [matrix.astype(jnp.float32) for matrix in matrices]
                sums = [
                    [total + x[:, None] * w for total, w in zip(totals, matrices, strict=True)]
                    for totals, x in zip(sums, vectors, strict=True)
                ]
            return sums

        zeros = [[jnp.zeros((rows, N), jnp.float32)] * parts for _ in self.episodes]
        sums = jax.lax.fori_loop(0, K // (rows * tiles), several, zeros)
        return [[jnp.sum(total, axis=0) for total in totals] for totals in sums]

    def publish(self, where: Any, values: list[Array]) -> None:
        """Writes vectors that all threads read next, once they have read what stood there."""
        self.wait()
        for e, value in enumerate(values):
            where[e, :] = value
        self.wait()

    def wait(self) -> None:
        if not self.interpret:
            from jax.experimental.pallas import triton

            triton.debug_barrier()


class TableSteps(EpisodeSteps):
    """Episodes that are walks on a table. Places and what is seen are indices."""

    def __init__(self, table: Any, *others: Any):
        super().__init__(*others)
        self.table = table

    def first(self, e: int) -> tuple[Array, Array]:
        return self.tape.places[0, e], self.tape.sights[0, e]

    def after(self, e: int, place: Array, action: Array) -> Consequence:
        row = place * self.actions + action
        return Consequence(*(column[(*self.own(column, 1, e), row)] for column in self.table))

    def write(self, t: Array, e: int, came: Consequence) -> None:
        self.tape.places[t, e] = came.place
        self.tape.sights[t, e] = came.seen

    def seen_inputs(self, e: int, seen: Array) -> list[Float[Array, "size"]]:
        own = self.own(self.policy.seen, 2, e)
        return [self.policy.seen[(*own, seen, gate)] for gate in self.parts()]

    @staticmethod
    def own(ref: Any, axes: int, e: int) -> tuple[int, ...]:
        """Where to look for an episode: at its own entry, if there is an axis more than all episodes would share."""
        return (e,) if len(ref.shape) > axes else ()


class RuleSteps(EpisodeSteps):
    """Episodes that are arithmetic on a few numbers. A place is these numbers; what is seen follows from them."""

    def __init__(self, rules: ScalarRules, tables: Any, *others: Any):
        super().__init__(*others)
        self.rules, self.tables = rules, tables

    def first(self, e: int) -> tuple[Any, Any]:
        numbers = tuple(column[0, e] for column in self.tape.places)
        return numbers, numbers

    def after(self, e: int, place: Any, action: Array) -> Consequence:
        numbers, reward, ended = self.rules.step(self.tables, place, action)
        return Consequence(numbers, numbers, reward, ended.astype(jnp.int32))

    def write(self, t: Array, e: int, came: Consequence) -> None:
        for column, number in zip(self.tape.places, came.place, strict=True):
            column[t, e] = number

    def seen_inputs(self, e: int, seen: Any) -> list[Float[Array, "size"]]:
        rows = self.rules.sight(self.tables, seen)
        return [
            functools.reduce(jnp.add, [weight * self.policy.seen[row, gate] for row, weight in rows])
            for gate in self.parts()
        ]


def _slice(start: Array, size: int) -> Any:
    from jax.experimental import pallas as pl

    return pl.ds(start, size)
