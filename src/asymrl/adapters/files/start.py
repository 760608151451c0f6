"""The start distribution, in all the forms that a file may give it."""

from __future__ import annotations

import numpy as np

from asymrl.adapters.files.header import Things, expect_colon, statement_word, take_numbers
from asymrl.adapters.files.tokens import Token, Tokens
from asymrl.worlds.pomdp import TOLERANCE

EXACT = 1e-12  # how far a sum may be from one to be left as it is; summing alone can make such a difference


def take_start(tokens: Tokens, states: Things) -> np.ndarray:
    """The start distribution of a `start` statement, in any of its forms, `[S]`."""
    first = tokens.take()
    how = tokens.peek()
    if how.is_name("include", "exclude"):
        tokens.take()
        expect_colon(tokens, f"start {how.text}")
        return _set(tokens, states, first, how.text == "include")
    expect_colon(tokens, "start")
    token = tokens.peek()
    if token.is_name("uniform"):
        tokens.take()
        return np.full(len(states), 1 / len(states))
    if token.kind == "name":
        tokens.take()
        _refuse_second(tokens, token)
        return _uniform_over(states, [states.find(tokens.source, token)])
    values = take_numbers(tokens)
    # A vector of one entry looks like an index: with a single state only 0 can be one.
    if values.size == 1 and token.is_index and (len(states) > 1 or values[0] == 0):
        _refuse_second(tokens, token)
        return _uniform_over(states, [states.find(tokens.source, token)])
    return _vector(tokens, states, token, values)


def _vector(tokens: Tokens, states: Things, token: Token, values: np.ndarray) -> np.ndarray:
    source = tokens.source
    if values.size != len(states):
        hint = "" if values.size < 2 else "; for a set of states write `start include:`"
        found = f"{values.size} numbers" if values.size else token.shown
        raise source.error(
            token.start,
            f"found {found}, expected a state, `uniform`, or a probability for each of {len(states)} states{hint}",
        )
    if (values < 0).any():
        s = states.names[int(np.flatnonzero(values < 0)[0])]
        raise source.error(token.start, f"the start probability of state {s!r} is negative")
    total = values.sum()
    if not abs(total - 1) <= TOLERANCE:
        raise source.error(token.start, f"the start probabilities sum to {total:.6g}, expected 1")
    return values if abs(total - 1) <= EXACT else values / total


def _set(tokens: Tokens, states: Things, first: Token, include: bool) -> np.ndarray:
    chosen: dict[int, None] = {}
    while (token := tokens.peek()).kind in ("name", "number") and statement_word(tokens) is None:
        chosen[states.find(tokens.source, tokens.take())] = None
    if not chosen:
        raise tokens.source.error(token.start, f"found {token.shown}, expected the states of the set")
    if not include:
        kept = np.ones(len(states), bool)
        kept[list(chosen)] = False
        chosen = dict.fromkeys(np.flatnonzero(kept).tolist())
    if not chosen:
        raise tokens.source.error(first.start, "all states are excluded from the start")
    return _uniform_over(states, list(chosen))


def _uniform_over(states: Things, chosen: list[int]) -> np.ndarray:
    start = np.zeros(len(states))
    start[chosen] = 1 / len(chosen)
    return start


def _refuse_second(tokens: Tokens, first: Token) -> None:
    second = tokens.peek()
    if second.kind in ("name", "number") and statement_word(tokens) is None:
        both = f"start include: {first.text} {second.text}"
        raise tokens.source.error(
            second.start, f"found {second.shown} behind the one state to start in; did you mean `{both}`?"
        )
