"""The inside of `episode_kernel`, which plays whole episodes."""

from __future__ import annotations

import abc
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from asymrl.kernels.policy_products import Parts, PlainProducts, TensorProducts
from asymrl.kernels.tensor_cores import use_tensor_cores
from asymrl.kernels.world_rules import ScalarRules

NO_ACTION = -1  # before the first action; its features are zeros


class _EpisodeState(NamedTuple):
    """The state of an episode between two steps."""

    before: Array  # the last action
    seen: Any
    place: Any
    memories: list[Float[Array, "size"]]  # of the whole history; in a window, of its last input, its last two ...
    alive: Array  # 0 or 1, like all truth values here
    length: Array
    truncated: Array


class Consequence(NamedTuple):
    """The result of an action."""

    place: Any
    seen: Any
    reward: Array
    ended: Array  # 0 or 1


class EpisodeSteps(abc.ABC):
    """The inside of the kernel. The policy, the world's tables and the tape are references.

    Episodes are a list throughout, and their products with a matrix are computed together (`policy_products`).
    """

    def __init__(
        self, policy: Any, chance: Any, tape: Any, window: int | None, greedy: bool, horizon: int, interpret: bool
    ):
        self.policy, self.chance, self.tape = policy, chance, tape
        self.window, self.greedy, self.horizon, self.interpret = window, greedy, horizon, interpret
        self.episodes = range(tape.memory.shape[0])
        self.size = tape.memory.shape[1]
        self.actions = policy.taken.shape[0]
        plain = PlainProducts(policy, tape, window, interpret)
        self.products = TensorProducts(policy) if use_tensor_cores() else plain

    @abc.abstractmethod
    def first(self, e: int) -> tuple[Any, Any]:
        """Where an episode starts, and what is seen there."""

    @abc.abstractmethod
    def consequence_of(self, e: int, place: Any, action: Array) -> Consequence:
        """The result of an action that an episode takes in a place."""

    @abc.abstractmethod
    def write(self, t: Array, e: int, consequence: Consequence) -> None:
        """Records where an episode is at time `t`; states and observations are recovered from it."""

    @abc.abstractmethod
    def seen_inputs(self, e: int, seen: Any) -> list[Float[Array, "size"]]:
        """The memory's input from what is seen, for each gate."""

    def play(self, active: Array) -> None:
        """Plays all episodes until the last has ended."""
        zero, start, memories = jnp.int32(0), [], self.first_memories()
        for e in self.episodes:
            place, sight = self.first(e)
            start.append(_EpisodeState(jnp.int32(NO_ACTION), sight, place, memories, active, zero, zero))

        def any_alive(loop: tuple[Array, list[_EpisodeState]]) -> Array:
            return sum((state.alive for state in loop[1]), zero) > 0

        _, ends = jax.lax.while_loop(any_alive, self.step, (zero, start))
        for e, end in enumerate(ends):
            self.tape.lengths[e] = end.length
            self.tape.truncated[e] = end.truncated

    def step(self, loop: tuple[Array, list[_EpisodeState]]) -> tuple[Array, list[_EpisodeState]]:
        """One step of every episode, even if it has ended: others may still be running."""
        t, states = loop
        self.products.begin_step()
        memories = self.remember([self.inputs(e, state) for e, state in enumerate(states)], states)
        features = [of_episode[-1] for of_episode in memories]
        for e, each in enumerate(features):
            self.tape.features[t, e, :] = each
        # A memory that has taken in a full window is not used again.
        memories = memories if self.window is None else [of_episode[:-1] for of_episode in memories]
        pairs = enumerate(zip(states, memories, self.choose(t, features), strict=True))
        return t + 1, [self.act(t, e, *pair) for e, pair in pairs]

    def act(self, t: Array, e: int, state: _EpisodeState, memories: list[Array], action: Array) -> _EpisodeState:
        """The state of one episode after an action, which is recorded on the tape."""
        consequence = self.consequence_of(e, state.place, action)
        self.tape.actions[t, e] = action
        self.tape.rewards[t, e] = jnp.where(state.alive > 0, consequence.reward, 0.0)
        self.write(t + 1, e, consequence)
        truncated = jnp.where(t + 1 >= self.horizon, 1 - consequence.ended, 0)
        return _EpisodeState(
            before=action,
            seen=consequence.seen,
            place=consequence.place,
            memories=memories,
            alive=state.alive * (1 - consequence.ended) * (1 - truncated),
            length=state.length + state.alive,
            truncated=jnp.where(state.alive > 0, truncated, state.truncated),
        )

    def first_memories(self) -> list[Float[Array, "size"]]:
        """Memories before the first input: empty; with a window, those after one empty input, after two and so on."""
        nothing = jnp.zeros(self.size, jnp.float32)
        if self.window is None:
            return [nothing]
        memories, empty = [], [self.policy.bias[gate] for gate in self.parts()]
        for i in range(self.window - 1):
            self.products.begin_step()
            before = memories[-1] if i > 0 else nothing
            (of_memory,) = self.products.product([[before]], 0) if i > 0 else ([nothing] * 3,)
            memories.append(self.gates(empty, before, of_memory))
        return memories

    def remember(self, inputs: list[list[Array]], states: list[_EpisodeState]) -> list[list[Float[Array, "size"]]]:
        """The memories of each episode after one more input; the last of them are the features of its history.

        With a window, each input begins a memory of its own, which continues until it has taken in a full window. On
        tensor cores all memories are multiplied at once; window by window, the products would run one after another.
        """
        nothing = jnp.zeros(self.size, jnp.float32)
        so_far = [h for state in states for h in state.memories]
        products = iter(self.products.product([[h] for h in so_far], 0) if so_far else [])
        begun = [] if self.window is None else [(nothing, [nothing] * 3)]
        return [
            [
                self.gates(inputs[e], h, of_memory)
                for h, of_memory in [*begun, *((h, next(products)) for h in state.memories)]
            ]
            for e, state in enumerate(states)
        ]

    def inputs(self, e: int, state: _EpisodeState) -> list[Float[Array, "size"]]:
        """The memory's input from the last action and from what is seen, for each gate."""
        acted, action = state.before != NO_ACTION, jnp.maximum(state.before, 0)
        return [
            jnp.where(acted, self.policy.taken[action, gate], 0.0) + part + self.policy.bias[gate]
            for gate, part in zip(self.parts(), self.seen_inputs(e, state.seen), strict=True)
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

    def choose(self, t: Array, memories: list[Float[Array, "size"]]) -> list[Int[Array, ""]]:
        """An action for each episode."""
        vectors = [[h] for h in memories]
        for i, (_, bias) in enumerate(self.policy.layers):
            outputs = self.products.product(vectors, 1 + i)
            vectors = [
                [jnp.maximum(part + bias[place], 0.0) for part, place in zip(parts, _places(parts), strict=True)]
                for parts in outputs
            ]
        return [self.draw(parts, self.chance[t, e]) for e, parts in enumerate(vectors)]

    def draw(self, x: Parts, u: Float[Array, ""]) -> Int[Array, ""]:
        """An action, as in `choices.Greedy.choose` or `choices.Categorical.choose`."""
        products = [self.policy.last[:, place] * part[None] for part, place in zip(x, _places(x), strict=True)]
        # Summed over threads only once.
        outputs = jnp.sum(functools.reduce(jnp.add, products), axis=1) + self.policy.last_bias[:]
        return self.best_or_any(outputs, u) if self.greedy else self.by_inversion(outputs, u)

    def by_inversion(self, logits: Float[Array, "outputs"], u: Float[Array, ""]) -> Int[Array, ""]:
        """An action drawn by inversion with a uniform number."""
        shares = jnp.exp(logits - jnp.max(logits))
        shares = shares / jnp.sum(shares)
        n = jnp.arange(logits.shape[0])
        up_to = jnp.sum(jnp.where(n[None, :] <= n[:, None], shares[None, :], 0.0), axis=1)
        return jnp.sum(((up_to <= u) & (n < self.actions - 1)).astype(jnp.int32))

    def best_or_any(self, values: Float[Array, "outputs"], u: Float[Array, ""]) -> Int[Array, ""]:
        """The first of the best actions, or if `u` is below 1, the random action that it encodes."""
        n = jnp.arange(values.shape[0])
        best = jnp.min(jnp.where(values == jnp.max(values), n, values.shape[0]))
        best = jnp.minimum(best, self.actions - 1)  # if values are NaN, none equals the maximum
        explored = jnp.minimum((u * self.actions).astype(jnp.int32), self.actions - 1)
        return jnp.where(u < 1, explored, best)


class TableSteps(EpisodeSteps):
    """Episodes that are walks on a table. Places and sights are indices."""

    def __init__(self, table: Any, *others: Any):
        super().__init__(*others)
        self.table = table

    def first(self, e: int) -> tuple[Array, Array]:
        return self.tape.places[0, e], self.tape.sights[0, e]

    def consequence_of(self, e: int, place: Array, action: Array) -> Consequence:
        row = place * self.actions + action
        return Consequence(*(column[(*self.own_index(column, 1, e), row)] for column in self.table))

    def write(self, t: Array, e: int, consequence: Consequence) -> None:
        self.tape.places[t, e] = consequence.place
        self.tape.sights[t, e] = consequence.seen

    def seen_inputs(self, e: int, seen: Array) -> list[Float[Array, "size"]]:
        own = self.own_index(self.policy.seen, 2, e)
        return [self.policy.seen[(*own, seen, gate)] for gate in self.parts()]

    @staticmethod
    def own_index(ref: Any, axes: int, e: int) -> tuple[int, ...]:
        """The index of an episode in an array with an entry for each; an array that all share has only `axes` axes."""
        return (e,) if len(ref.shape) > axes else ()


class RuleSteps(EpisodeSteps):
    """Episodes that are arithmetic on a few numbers. A place is these numbers; what is seen follows from them."""

    def __init__(self, rules: ScalarRules, tables: Any, *others: Any):
        super().__init__(*others)
        self.rules, self.tables = rules, tables

    def first(self, e: int) -> tuple[Any, Any]:
        numbers = tuple(column[0, e] for column in self.tape.places)
        return numbers, numbers

    def consequence_of(self, e: int, place: Any, action: Array) -> Consequence:
        numbers, reward, ended = self.rules.step(self.tables, place, action)
        return Consequence(numbers, numbers, reward, ended.astype(jnp.int32))

    def write(self, t: Array, e: int, consequence: Consequence) -> None:
        for column, number in zip(self.tape.places, consequence.place, strict=True):
            column[t, e] = number

    def seen_inputs(self, e: int, seen: Any) -> list[Float[Array, "size"]]:
        rows = self.rules.sight(self.tables, seen)
        return [
            functools.reduce(jnp.add, [weight * self.policy.seen[row, gate] for row, weight in rows])
            for gate in self.parts()
        ]


def _places(parts: Parts) -> list[slice]:
    """Where each part is in the whole vector."""
    size = parts[0].shape[0]
    return [slice(i * size, (i + 1) * size) for i in range(len(parts))]
