"""Finite worlds and POMDPs as what a file can say of them."""

from __future__ import annotations

import numpy as np

from asymrl.adapters.files.problem import Problem, by_state_and_action
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.outcomes import Joint, OutcomeWorld, joint
from asymrl.worlds.pomdp import Pomdp, Rows

SAME = 1e-12  # how far two probabilities may differ that were divided out of products


def problem_from_world(world: FiniteWorld) -> Problem:
    """The same problem with the same numbers. What a world shows before the first action is left out."""
    T, O, previous, rewards = world.transitions, world.observations, False, world.rewards
    if isinstance(world, OutcomeWorld):
        previous, rewards = world.previous, world.outcome_reward
    else:
        S, A = world.ends.shape
        row, column, probability = O.entries()
        a, s_next = np.divmod(row, S + 1)
        real = s_next < S  # behind the last state stands what is seen after the end
        O = Rows.from_entries(a[real] * S + s_next[real], column[real], probability[real], A * S, O.columns)
    return _problem(world, T, O, previous, rewards, world.ends)


def problem_from_pomdp(pomdp: Pomdp) -> Problem:
    """The same problem. Joint probabilities are divided into T and O, whose products differ by rounding only.

    Raises:
        ValueError: if an action in a state may end the episode or not, or if an outcome has several rewards.
    """
    ends, end_reward = _ends(pomdp)
    outcomes, reward = _merged(pomdp)
    T, O, previous = _divided(pomdp, outcomes, ends)
    order = joint(T, O, pomdp.actions, previous)
    S, A, seen = pomdp.states, pomdp.actions, pomdp.observations
    key = (order.row * S + order.next_state) * seen + order.observation
    known = (outcomes.row * S + outcomes.next_state) * seen + outcomes.observation
    at = np.minimum(np.searchsorted(known, key), max(known.size - 1, 0))
    ended = ends.ravel()[order.row]
    rewards = np.where(ended, end_reward[order.row], reward[at] if known.size else 0.0)
    if not previous:
        rewards = by_state_and_action(rewards, order, S, A)
    return _problem(pomdp, T, O, previous, rewards, ends)


def _problem(
    like: FiniteWorld | Pomdp, T: Rows, O: Rows, previous: bool, rewards: np.ndarray, ends: np.ndarray
) -> Problem:
    """These tables, with the names, the start and the discount of a world or POMDP."""
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
    """Which actions end the episode, `[S, A]`, and what each row `s * A + a` then pays."""
    S, A = pomdp.states, pomdp.actions
    s, a = pomdp.rows()
    row = s * A + a
    ending, all_of = np.bincount(row[pomdp.done], minlength=S * A), np.diff(pomdp.first)
    pays = np.zeros(S * A)
    pays[row[pomdp.done]] = pomdp.reward[pomdp.done]
    for problem, wrong in (
        ("may end the episode or not", np.flatnonzero((ending > 0) & (ending < all_of))),
        ("ends the episode with several rewards", row[pomdp.done & (pomdp.reward != pays[row])]),
    ):
        if wrong.size:
            i, j = divmod(int(wrong[0]), A)
            where = f"action {pomdp.action_names[j]!r} in state {pomdp.state_names[i]!r}"
            raise ValueError(f"{pomdp.name}: {where} {problem}, which a .pomdp file can not say")
    return (ending > 0).reshape(S, A), pays


def _merged(pomdp: Pomdp) -> tuple[Joint, np.ndarray]:
    """The outcomes that go on, each pair of next state and observation once, and their rewards."""
    s, a = pomdp.rows()
    on = ~pomdp.done
    key = ((s[on] * pomdp.actions + a[on]) * pomdp.states + pomdp.next_state[on]) * pomdp.observations
    key, first, group = np.unique(key + pomdp.observation[on], return_index=True, return_inverse=True)
    reward = pomdp.reward[on][first]
    if (wrong := np.flatnonzero(pomdp.reward[on] != reward[group])).size:
        i = np.flatnonzero(on)[wrong[0]]
        where = f"action {pomdp.action_names[int(a[i])]!r} in state {pomdp.state_names[int(s[i])]!r}"
        raise ValueError(f"{pomdp.name}: an outcome of {where} has several rewards, which a .pomdp file can not say")
    move, observation = np.divmod(key, pomdp.observations)
    row, next_state = np.divmod(move, pomdp.states)
    probability = np.bincount(group, pomdp.probability[on], minlength=key.size)
    return Joint(row, next_state, observation, probability), reward


def _divided(pomdp: Pomdp, outcomes: Joint, ends: np.ndarray) -> tuple[Rows, Rows, bool]:
    """T, O and whether observations depend on the state before. Endings lead to the start distribution."""
    S, A, O = pomdp.states, pomdp.actions, pomdp.observations
    move, of = np.unique(outcomes.row * S + outcomes.next_state, return_inverse=True)
    chance = np.bincount(of, outcomes.probability, minlength=move.size)
    given = outcomes.probability / chance[of] if move.size else outcomes.probability
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
    leader[place[::-1]] = of[::-1]  # of each (a, s'), the first transition that leads there
    leads = leader[place] == of
    table = Rows.from_entries(place[leads], outcomes.observation[leads], given[leads], A * S, O)
    if _agree(table, place, outcomes.observation, given, np.bincount(of, minlength=move.size)[of]):
        nowhere = np.flatnonzero(np.diff(table.first) == 0)
        return T, _with(table, nowhere), False
    by_move = Rows.from_entries(np.searchsorted(row * S + s_next, move)[of], outcomes.observation, given, row.size, O)
    return T, _with(by_move, np.flatnonzero(np.diff(by_move.first) == 0)), True


def _agree(table: Rows, place: np.ndarray, column: np.ndarray, given: np.ndarray, count: np.ndarray) -> bool:
    """Whether each probability is the one in the table, and no row of the table has others."""
    row, known, probability = table.entries()
    keys, wanted = row * table.columns + known, place * table.columns + column
    at = np.minimum(np.searchsorted(keys, wanted), max(keys.size - 1, 0))
    if not keys.size:
        return True
    same = (keys[at] == wanted) & (np.abs(probability[at] - given) <= SAME)
    return bool(np.all(same & (np.diff(table.first)[place] == count)))


def _with(rows: Rows, empty: np.ndarray) -> Rows:
    """The rows, where those that never matter show the first observation: a file must say something of each."""
    row, column, probability = rows.entries()
    return Rows.from_entries(
        np.concatenate([row, empty]),
        np.concatenate([column, np.zeros(empty.size, int)]),
        np.concatenate([probability, np.ones(empty.size)]),
        rows.rows,
        rows.columns,
    )
