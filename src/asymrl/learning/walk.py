"""Whole episodes in one kernel, for NVIDIA GPUs and worlds that leave nothing to chance after their start.

Step by step, acting is a dozen kernels for each time, all of them waiting for each other. Where a world is no more
than a table, one program per run can do it all: it reads the weights of the policy once per step, and stops when the
episodes of its run have ended. `rollout.roll_out` is the plain version that it must agree with.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asymrl.envs.certain import Certain, Table
from asymrl.models.agent import ReadyActor
from asymrl.models.distributions import NO_ACTION, Categorical
from asymrl.models.kernels import suits_recurrence, triton_call
from asymrl.models.memory import Gru, Memory, Window

NOTHING_SEEN = -1  # stands for the zero vectors of a window that reaches back beyond the start
WARPS = 8
TILE = 4096  # numbers of a matrix that are read together
TILES = 4  # read one after the other before the first is used, so that the memory has enough to do
WIDTHS = (32, 64, 128, 256, 512)  # of hidden layers
MOST_SIGHTS = 1024  # what the policy makes of each is found before the first step
NEVER = -1e30  # logit of the actions that only fill up a power of two


class Policy(NamedTuple):
    """The numbers of a recurrent policy. Gates are in the order reset, update, new."""

    taken: Float[Array, "actions gates"]  # by the action before: what the memory takes in of it
    seen: Float[Array, "*episode sights gates"]  # by what is seen
    bias: Float[Array, "gates"]
    hidden_weight: Float[Array, "size gates"]
    hidden_bias: Float[Array, "gates"]
    layers: tuple[tuple[Float[Array, "inputs outputs"], Float[Array, "outputs"]], ...]
    last: Float[Array, "logits inputs"]
    last_bias: Float[Array, "logits"]


class Tape(NamedTuple):
    """What is kept of the episodes of a run, and room for what the layers of the policy tell each other."""

    sights: Int[Array, "time+1 episode"]
    places: Int[Array, "time+1 episode"]
    actions: Int[Array, "time episode"]
    rewards: Float[Array, "time episode"]
    features: Float[Array, "time episode size"]
    lengths: Int[Array, "episode"]
    truncated: Int[Array, "episode"]
    memory: Float[Array, "episode size"]
    hidden: tuple[Float[Array, "episode outputs"], ...]


def suits_walk(actor: ReadyActor, episodes: int, certain: Certain, states: Any) -> bool:
    """Whether the kernel knows such policies, and their episodes have few enough sights.

    Of the actor, with or without an axis of runs, and the states `[run, episode, ...]` only shapes are looked at.
    """
    memory = _recurrent(actor)
    sights = jax.eval_shape(certain.sights, jax.tree.map(lambda leaf: leaf[0, 0], states))
    return (
        isinstance(actor.distribution, Categorical)
        and isinstance(memory, Gru)
        and suits_recurrence(episodes, memory.size)
        and all(layer.bias.shape[-1] in WIDTHS for layer in actor.head.layers[:-1])
        and jax.tree.leaves(sights)[0].shape[0] <= MOST_SIGHTS
    )


def _recurrent(actor: ReadyActor) -> Memory:
    memory = actor.history.memory
    return memory.inner if isinstance(memory, Window) else memory


def policy_of(actor: ReadyActor, sights: Any) -> Policy:
    """The numbers that the kernel reads, from one run's actor and all that its episodes may see."""
    history, memory = actor.history, _recurrent(actor)
    assert isinstance(memory, Gru)
    assert isinstance(actor.distribution, Categorical)
    *layers, last = actor.head.layers
    missing = _power_of_two(last.bias.shape[0]) - last.bias.shape[0]
    return Policy(
        taken=history.phi_a(jnp.arange(actor.distribution.n)),
        seen=history.phi_o(sights),
        bias=history.bias,
        hidden_weight=memory.hidden_weight,
        hidden_bias=memory.hidden_bias,
        layers=tuple((layer.weight, layer.bias) for layer in layers),
        last=jnp.pad(last.weight.T, ((0, missing), (0, 0))),
        last_bias=jnp.pad(last.bias, (0, missing), constant_values=NEVER),
    )


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def walk(
    policy: Policy,
    table: Table,
    places: Int[Array, "episode"],
    sights: Int[Array, "episode"],
    chance: Float[Array, "time episode"],
    active: Bool[Array, ""],
    *,
    rows: int,
    window: int | None,
    interpret: bool = False,
) -> Tape:
    """The episodes of one run, until the last has ended or as many steps as `chance` has.

    Args:
        policy: of the run.
        table: what comes of its actions; with an axis in front, one for each episode.
        places: to start from.
        sights: the first.
        chance: a uniform number for every action.
        active: whether to act at all.
        rows: of the tape, at least as many as there may be steps.
        window: how many last inputs the memory knows, or None for all.
        interpret: run without a GPU, slowly.
    """
    horizon, E = chance.shape
    H = policy.hidden_weight.shape[0]
    ints, floats = (lambda *shape: jnp.zeros(shape, jnp.int32)), (lambda *shape: jnp.zeros(shape, jnp.float32))
    empty = Tape(
        sights=ints(rows + 1, E).at[0].set(sights),
        places=ints(rows + 1, E).at[0].set(places),
        actions=ints(rows, E),
        rewards=floats(rows, E),
        features=floats(rows, E, H),
        lengths=ints(E),
        truncated=ints(E),
        memory=floats(E, H),
        hidden=tuple(floats(E, bias.shape[0]) for _, bias in policy.layers),
    )

    def kernel(empty: Any, policy: Any, table: Any, active: Any, chance: Any, *tape: Any) -> None:
        del empty  # the tape begins as a copy of it
        _Walk(policy, table, chance, Tape(*tape), window, horizon, interpret).go(active[0])

    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), empty)
    count = len(jax.tree.leaves(empty))
    return triton_call(
        kernel, shapes, warps=WARPS, interpret=interpret, input_output_aliases={i: i for i in range(count)}
    )(empty, policy, table, active.astype(jnp.int32)[None], chance)


class _Now(NamedTuple):
    """Where an episode stands between two steps."""

    before: tuple[Array, ...]  # the last actions, as many as the window has
    seen: tuple[Array, ...]
    place: Array
    alive: Array  # 0 or 1, as everything here that is true or false
    length: Array
    truncated: Array


class _Walk:
    """The inside of the kernel. The policy, the table and the tape are references.

    Episodes are a list everywhere: a matrix that is multiplied with several vectors in turn stays where it was read to,
    while one that meets a matrix of vectors would be moved between threads.
    """

    def __init__(
        self, policy: Any, table: Any, chance: Any, tape: Any, window: int | None, horizon: int, interpret: bool
    ):
        self.policy, self.table, self.chance, self.tape = policy, table, chance, tape
        self.window, self.horizon, self.interpret = window, horizon, interpret
        self.episodes = range(tape.memory.shape[0])
        self.size = tape.memory.shape[1]
        self.actions = policy.taken.shape[0]

    def go(self, active: Array) -> None:
        length, zero = self.window or 1, jnp.int32(0)
        none, nothing = (jnp.int32(NO_ACTION),) * length, (jnp.int32(NOTHING_SEEN),) * (length - 1)
        start = [
            _Now(none, (*nothing, self.tape.sights[0, e]), self.tape.places[0, e], active, zero, zero)
            for e in self.episodes
        ]

        def any_alive(loop: tuple[Array, list[_Now]]) -> Array:
            return sum((now.alive for now in loop[1]), zero) > 0

        _, ends = jax.lax.while_loop(any_alive, self.step, (zero, start))
        for e, end in enumerate(ends):
            self.tape.lengths[e] = end.length
            self.tape.truncated[e] = end.truncated

    def step(self, loop: tuple[Array, list[_Now]]) -> tuple[Array, list[_Now]]:
        t, nows = loop
        for e, features in enumerate(self.remember(nows)):
            self.tape.features[t, e, :] = features
        after = [self.act(t, e, now, action) for e, (now, action) in enumerate(zip(nows, self.choose(t), strict=True))]
        return t + 1, after

    def act(self, t: Array, e: int, now: _Now, action: Array) -> _Now:
        """One episode after an action, and the line of the tape about it."""
        tape, row = self.tape, now.place * self.actions + action
        place, seen, reward, ended = (column[(*self.own(column, 1, e), row)] for column in self.table)
        tape.actions[t, e] = action
        tape.rewards[t, e] = jnp.where(now.alive > 0, reward, 0.0)
        tape.places[t + 1, e] = place
        tape.sights[t + 1, e] = seen
        truncated = jnp.where(t + 1 >= self.horizon, 1 - ended, 0)
        return _Now(
            before=(*now.before[1:], action),
            seen=(*now.seen[1:], seen),
            place=place,
            alive=now.alive * (1 - ended) * (1 - truncated),
            length=now.length + now.alive,
            truncated=jnp.where(now.alive > 0, truncated, now.truncated),
        )

    def remember(self, nows: list[_Now]) -> list[Float[Array, "size"]]:
        """The features of the histories: one more input, or all of the window."""
        nothing, hs = jnp.zeros(self.size, jnp.float32), []
        for i in range(self.window or 1):
            if self.window is not None and i == 0:
                hs, of_memory = [nothing for _ in nows], [[nothing] * 3 for _ in nows]
            else:
                hs = [self.tape.memory[e, :] for e in self.episodes]
                of_memory = self.product(self.tape.memory, self.policy.hidden_weight, 3)
            inputs = [self.inputs(e, now.before[i], now.seen[i]) for e, now in enumerate(nows)]
            hs = [self.gates(*given) for given in zip(inputs, hs, of_memory, strict=True)]
            self.publish(self.tape.memory, hs)
        return hs

    def inputs(self, e: int, before: Array, seen: Array) -> list[Float[Array, "size"]]:
        """What the memory takes in, for each gate."""
        acted, saw = before != NO_ACTION, seen != NOTHING_SEEN
        before, seen = jnp.maximum(before, 0), jnp.maximum(seen, 0)
        own = self.own(self.policy.seen, 2, e)
        return [
            jnp.where(acted, self.policy.taken[before, gate], 0.0)
            + jnp.where(saw, self.policy.seen[(*own, seen, gate)], 0.0)
            + self.policy.bias[gate]
            for gate in self.parts()
        ]

    @staticmethod
    def own(ref: Any, axes: int, e: int) -> tuple[int, ...]:
        """Where to look for an episode: at its own entry, if there is an axis more than all episodes would share."""
        return (e,) if len(ref.shape) > axes else ()

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
        rows = rows if K % rows == 0 else _power_of_two(rows) // 2
        tiles = min(TILES, K // rows)
        columns = [slice(i * N, (i + 1) * N) for i in range(parts)]

        def several(i: Array, sums: list[list[Array]]) -> list[list[Array]]:
            here = [_rows((i * tiles + k) * rows, rows) for k in range(tiles)]
            read = [([xs[e, some] for e in self.episodes], [weight[some, part] for part in columns]) for some in here]
            for vectors, matrices in read:
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


def _rows(start: Array, size: int) -> Any:
    from jax.experimental import pallas as pl

    return pl.ds(start, size)
