"""A trained actor as a policy that exact computations can follow."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int

from asymrl.agents.trained import TrainedRun, best_run
from asymrl.models.agent import NO_ACTION, Actor
from asymrl.models.memory import Carry, Window
from asymrl.theory.policies import Policy
from asymrl.worlds.finite import FiniteWorld

SMALLEST, LARGEST = 64, 8192  # histories at once; batches are padded to powers of two, so that few programs are needed
BEFORE = -2  # fills a window before the episode has begun


class Remembered(NamedTuple):
    """What the network remembers of each history, what it would do, and, with a window, what is in it."""

    carry: Carry
    logits: Float[np.ndarray, "n A"]
    window: Int[np.ndarray, "n k 2"]


class TrainedActor(Policy):
    """pi(a; h) of a network. Memories are carried from history to longer history, never computed again.

    An actor with a window can't tell histories with equal last pairs apart; any other remembers everything.
    """

    def __init__(self, actor: Actor):
        self.actor = actor
        memory = actor.history.memory
        self.length = memory.length if isinstance(memory, Window) else 0
        two, three = (eqx.filter_eval_shape(memory.initial, n) for n in (2, 3))
        # Memories differ in where the axis of histories stands; it is the one that grows with them.
        self.axes = jax.tree.map(
            lambda x, y: next((i for i, (m, n) in enumerate(zip(x.shape, y.shape, strict=True)) if m != n), -1),
            two,
            three,
        )

    def begin(self, o: Int[np.ndarray, "n"]) -> Remembered:
        carry = jax.tree.map(np.asarray, self.actor.history.memory.initial(1))
        window = np.full((1, self.length, 2), BEFORE)
        nothing = Remembered(carry, np.zeros((1, 0), np.float32), window)
        return self.advance(nothing, np.zeros(len(o), int), np.full(len(o), NO_ACTION), o)

    def advance(
        self, memory: Any, rows: Int[np.ndarray, "m"], a: Int[np.ndarray, "m"], o: Int[np.ndarray, "m"]
    ) -> Remembered:
        batches = [slice(i, i + LARGEST) for i in range(0, len(rows), LARGEST)]
        parts = [self._step(memory.carry, rows[batch], a[batch], o[batch]) for batch in batches]
        carries, logits = zip(*parts, strict=True)
        carry = self._concatenated(*carries)
        window = memory.window[rows]
        if self.length:
            window = np.concatenate([window[:, 1:], np.stack([a, o], -1)[:, None]], axis=1)
        return Remembered(carry, np.concatenate(logits), window)

    def act(self, memory: Any) -> Float64[np.ndarray, "n A"]:
        logits = memory.logits.astype(float)
        shares = np.exp(logits - logits.max(1, keepdims=True))
        return shares / shares.sum(1, keepdims=True)

    def keys(self, memory: Any) -> Int[np.ndarray, "n k"] | None:
        return memory.window.reshape(len(memory.window), -1) if self.length else None

    def rows(self, memory: Any, rows: Int[np.ndarray, "m"]) -> Remembered:
        return Remembered(self._taken(memory.carry, rows), memory.logits[rows], memory.window[rows])

    def joined(self, one: Any, other: Any) -> Remembered:
        carry = self._concatenated(one.carry, other.carry)
        logits, window = (np.concatenate(parts) for parts in zip(one[1:], other[1:], strict=True))
        return Remembered(carry, logits, window)

    def _concatenated(self, *carries: Carry) -> Carry:
        def join(axis: int, *leaves: np.ndarray) -> np.ndarray:
            return leaves[0] if axis < 0 else np.concatenate(leaves, axis)

        return jax.tree.map(join, self.axes, *carries)

    def _taken(self, carry: Carry, rows: Int[np.ndarray, "m"]) -> Carry:
        return jax.tree.map(lambda axis, leaf: leaf if axis < 0 else leaf.take(rows, axis), self.axes, carry)

    def _step(self, carry: Carry, rows: np.ndarray, a: np.ndarray, o: np.ndarray) -> tuple[Carry, np.ndarray]:
        size = max(SMALLEST, 1 << (len(rows) - 1).bit_length())
        padded = np.pad(np.stack([rows, a, o]), ((0, 0), (0, size - len(rows))), mode="edge")
        before, seen = padded[1].astype(np.int32), padded[2].astype(np.int32)
        carry, logits = _advance(self.actor, self._taken(carry, padded[0]), before, seen)
        carry = self._taken(jax.tree.map(np.asarray, carry), np.arange(len(rows)))
        return carry, np.asarray(logits)[: len(rows)]


def trained_actor(run: str | os.PathLike[str], seed: int | None = None) -> tuple[FiniteWorld, TrainedActor, TrainedRun]:
    """The world and the actor of a run folder, and the run itself: the best one, or the one with this seed.

    Raises:
        ValueError: if the folder holds no such run, or its world is not finite.
    """
    chosen = best_run(run, seed)
    if not isinstance(chosen.world, FiniteWorld):
        raise ValueError(f"{run}: was trained in {chosen.world.name}, which has no finite tables to compute with")
    return chosen.world, TrainedActor(chosen.state.actor), chosen


@eqx.filter_jit
def _advance(actor: Actor, carry: Carry, before: np.ndarray, seen: np.ndarray) -> tuple[Carry, Float[Array, "n A"]]:
    with jax.default_matmul_precision("highest"):
        carry, _, logits = actor.step(carry, jnp.asarray(before), jnp.asarray(seen))
    return carry, logits
