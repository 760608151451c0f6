"""A finite POMDP as a `.pomdp` file describes it, and its conversion from and to worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64

from asymrl.worlds.finite import FiniteWorld, OutcomeWorld
from asymrl.worlds.pomdp import Pomdp
from asymrl.worlds.probability_tables import Joint, Rows, joint
from asymrl.worlds.world import DEFAULT_TIME_LIMIT

SAME = 1e-12  # probabilities obtained by division count as equal if they differ by less than this


@dataclass(frozen=True)
class Problem:
    """The contents of a file. `pomdp()` is for exact computations, `world()` to act and train in.

    Where an action ends the episode (a `reset` row), `T` holds the start distribution, or merely the state itself if
    nothing depends on the next state.
    """

    name: str
    T: Rows  # row s * A + a
    O: Rows  # row a * S + s', or one row for each entry of T if observations depend on the previous state
    previous: bool  # whether they do
    rewards: Float64[np.ndarray, "S A"] | Float64[np.ndarray, "outcomes"]
    """By state and action, or for each outcome of `joint()` if they depend on more than that."""
    ends: Bool[np.ndarray, "S A"]
    start: Float64[np.ndarray, "S"]
    discount: float
    cost: bool
    """Whether the file gives costs. They are stored as rewards in any case."""
    state_names: Sequence[str] = field(repr=False)
    action_names: Sequence[str] = field(repr=False)
    observation_names: Sequence[str] = field(repr=False)

    def joint(self) -> Joint:
        """Every transition combined with every observation that can follow it."""
        return joint(self.T, self.O, len(self.action_names), self.previous)

    def pomdp(self, *, time_limit: int | None = None) -> Pomdp:
        """The problem as sparse outcomes; the first observation is a constant symbol."""
        return self.world(time_limit=time_limit).pomdp()

    def world(self, *, discount: float | None = None, time_limit: int | None = DEFAULT_TIME_LIMIT) -> FiniteWorld:
        """The problem as a world; an `OutcomeWorld` where plain tables cannot express it."""
        shared = {
            "name": self.name,
            "transitions": self.T,
            "observations": self.O,
            "ends": self.ends,
            "start": self.start,
            "state_names": self.state_names,
            "action_names": self.action_names,
            "observation_names": self.observation_names,
            "discount": self.discount if discount is None else discount,
            "time_limit": time_limit,
        }
        if self.rewards.ndim == 2 and not self.previous:
            return FiniteWorld(rewards=self.rewards, **shared)
        rewards = self.rewards.ravel()[self.joint().row] if self.rewards.ndim == 2 else self.rewards
        return OutcomeWorld(rewards=rewards, previous=self.previous, **shared)


def by_state_and_action(
    rewards: Float64[np.ndarray, "outcomes"], outcomes: Joint, states: int, actions: int
) -> Float64[np.ndarray, "S A"] | Float64[np.ndarray, "outcomes"]:
    """The rewards as a table `[S, A]` if they depend on nothing else; otherwise unchanged."""
    first = np.searchsorted(outcomes.row, np.arange(states * actions))
    alike = np.array_equal(rewards, rewards[first][outcomes.row])
    return rewards[first].reshape(states, actions) if alike else rewards


def problem_from_world(world: FiniteWorld) -> Problem:
    """The same problem with the same numbers. The first observation of the world is left out."""
    T, O, previous, rewards = world.transitions, world.observations, False, world.rewards
    if isinstance(world, OutcomeWorld):
        previous, rewards = world.previous, world.outcome_reward
    else:
        S, A = world.ends.shape
        row, column, probability = O.entries()
        a, s_next = np.divmod(row, S + 1)
        real = s_next < S  # the row after the last state holds the observations after an end
        O = Rows.from_entries(a[real] * S + s_next[real], column[real], probability[real], A * S, O.columns)
    return _problem(world, T, O, previous, rewards, world.ends)


def problem_from_pomdp(pomdp: Pomdp) -> Problem:
    """The same problem. Joint probabilities are factored into T and O; the products differ by rounding only.

    Raises:
        ValueError: if it is random whether an action in a state ends the episode, or if an outcome has several rewards.
    """
    ends, end_reward = _ends(pomdp)
    outcomes, reward = _merged(pomdp)
    T, O, previous = _divided(pomdp, outcomes, ends)
    order = joint(T, O, pomdp.actions, previous)
    S, A, count = pomdp.states, pomdp.actions, pomdp.observations
    key = (order.row * S + order.next_state) * count + order.observation
    outcome_keys = (outcomes.row * S + outcomes.next_state) * count + outcomes.observation
    at = np.minimum(np.searchsorted(outcome_keys, key), max(outcome_keys.size - 1, 0))
    ended = ends.ravel()[order.row]
    rewards = np.where(ended, end_reward[order.row], reward[at] if outcome_keys.size else 0.0)
    if not previous:
        rewards = by_state_and_action(rewards, order, S, A)
    return _problem(pomdp, T, O, previous, rewards, ends)


def _problem(
    like: FiniteWorld | Pomdp, T: Rows, O: Rows, previous: bool, rewards: np.ndarray, ends: np.ndarray
) -> Problem:
    """A problem with these tables, and the names, start and discount of a world or POMDP."""
    return Problem(
        name=like.name,
        T=T,
        O=O,
        previous=previous,
        rewards=rewards,
        ends=ends,
        start=like.start,
        discount=like.discount,
        cost=False,
        state_names=like.state_names,
        action_names=like.action_names,
        observation_names=like.observation_names,
    )


def _ends(pomdp: Pomdp) -> tuple[np.ndarray, np.ndarray]:
    """Which actions end the episode, `[S, A]`, and the reward of each row `s * A + a` at the end."""
    S, A = pomdp.states, pomdp.actions
    s, a = pomdp.rows()
    row = s * A + a
    ending, total = np.bincount(row[pomdp.done], minlength=S * A), np.diff(pomdp.first)
    reward_at_end = np.zeros(S * A)
    reward_at_end[row[pomdp.done]] = pomdp.reward[pomdp.done]
    for problem, wrong in (
        ("may end the episode or not", np.flatnonzero((ending > 0) & (ending < total))),
        ("ends the episode with several rewards", row[pomdp.done & (pomdp.reward != reward_at_end[row])]),
    ):
        if wrong.size:
            i, j = divmod(int(wrong[0]), A)
            where = f"action {pomdp.action_names[j]!r} in state {pomdp.state_names[i]!r}"
            raise ValueError(f"{pomdp.name}: {where} {problem}, which a .pomdp file cannot express")
    return (ending > 0).reshape(S, A), reward_at_end


def _merged(pomdp: Pomdp) -> tuple[Joint, np.ndarray]:
    """The outcomes that do not end the episode, each pair of next state and observation once, and their rewards."""
    s, a = pomdp.rows()
    on = ~pomdp.done
    key = ((s[on] * pomdp.actions + a[on]) * pomdp.states + pomdp.next_state[on]) * pomdp.observations
    key, first, group = np.unique(key + pomdp.observation[on], return_index=True, return_inverse=True)
    reward = pomdp.reward[on][first]
    if (wrong := np.flatnonzero(pomdp.reward[on] != reward[group])).size:
        i = np.flatnonzero(on)[wrong[0]]
        where = f"action {pomdp.action_names[int(a[i])]!r} in state {pomdp.state_names[int(s[i])]!r}"
        raise ValueError(f"{pomdp.name}: an outcome of {where} has several rewards, which a .pomdp file cannot express")
    move, observation = np.divmod(key, pomdp.observations)
    row, next_state = np.divmod(move, pomdp.states)
    probability = np.bincount(group, pomdp.probability[on], minlength=key.size)
    return Joint(row, next_state, observation, probability), reward


def _divided(pomdp: Pomdp, outcomes: Joint, ends: np.ndarray) -> tuple[Rows, Rows, bool]:
    """T, O and whether observations depend on the previous state. Ends lead to the start distribution."""
    S, A, O = pomdp.states, pomdp.actions, pomdp.observations
    move, of = np.unique(outcomes.row * S + outcomes.next_state, return_inverse=True)
    chance = np.bincount(of, outcomes.probability, minlength=move.size)
    conditional = outcomes.probability / chance[of] if move.size else outcomes.probability
    ending, origin = np.flatnonzero(ends), np.flatnonzero(pomdp.start)
    T = Rows.from_entries(
        np.concatenate([move // S, np.repeat(ending, origin.size)]),
        np.concatenate([move % S, np.tile(origin, ending.size)]),
        np.concatenate([chance, np.tile(pomdp.start[origin], ending.size)]),
        S * A,
        S,
    )
    row, s_next, _ = T.entries()
    place = (outcomes.row % A) * S + outcomes.next_state
    leader = np.full(A * S, -1)
    leader[place[::-1]] = of[::-1]  # for each (a, s'), the first transition that leads there
    leads = leader[place] == of
    table = Rows.from_entries(place[leads], outcomes.observation[leads], conditional[leads], A * S, O)
    if _agree(table, place, outcomes.observation, conditional, np.bincount(of, minlength=move.size)[of]):
        nowhere = np.flatnonzero(np.diff(table.first) == 0)
        return T, _with(table, nowhere), False
    by_move = Rows.from_entries(
        np.searchsorted(row * S + s_next, move)[of], outcomes.observation, conditional, row.size, O
    )
    return T, _with(by_move, np.flatnonzero(np.diff(by_move.first) == 0)), True


def _agree(table: Rows, place: np.ndarray, column: np.ndarray, conditional: np.ndarray, count: np.ndarray) -> bool:
    """Whether each probability equals the one in the table, and no row of the table has further entries."""
    row, columns, probability = table.entries()
    keys, queries = row * table.columns + columns, place * table.columns + column
    at = np.minimum(np.searchsorted(keys, queries), max(keys.size - 1, 0))
    if not keys.size:
        return True
    same = (keys[at] == queries) & (np.abs(probability[at] - conditional) <= SAME)
    return bool(np.all(same & (np.diff(table.first)[place] == count)))


def _with(rows: Rows, empty: np.ndarray) -> Rows:
    """The rows, with the first observation in those that are never used: a file must give every row."""
    row, column, probability = rows.entries()
    return Rows.from_entries(
        np.concatenate([row, empty]),
        np.concatenate([column, np.zeros(empty.size, int)]),
        np.concatenate([probability, np.ones(empty.size)]),
        rows.rows,
        rows.columns,
    )
