"""What is read is what a second, dense reader makes of the same text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings

from asymrl.envs.pomdp_files import FileError, parse_text
from asymrl.worlds.pomdp import NOTHING
from tests.envs.pomdp_files.dense import Dense, read_dense
from tests.envs.pomdp_files.texts import CORPUS, texts


def compare(text: str, dense: Dense) -> None:
    problem = parse_text(text)
    np.testing.assert_array_equal(problem.ends, dense.ends)
    pomdp = problem.pomdp()
    A, S, _, O = dense.O.shape
    s, a = pomdp.rows()
    joint, rewards = np.zeros((S, A, S, O)), np.zeros((S, A, S, O))
    on = ~pomdp.done
    place = s[on], a[on], pomdp.next_state[on], pomdp.observation[on]
    joint[place], rewards[place] = pomdp.probability[on], pomdp.reward[on]
    expected = np.einsum("ast,asto->sato", dense.T, dense.O)
    np.testing.assert_allclose(pomdp.R(), (expected * dense.R.transpose(1, 0, 2, 3)).sum((2, 3)), atol=1e-12)
    expected[dense.ends] = 0
    np.testing.assert_allclose(joint, expected, atol=1e-12)
    np.testing.assert_array_equal(rewards, np.where(expected > 0, dense.R.transpose(1, 0, 2, 3), 0))
    np.testing.assert_array_equal(pomdp.observation == NOTHING, dense.ends[s, a])
    np.testing.assert_array_equal(pomdp.start, dense.start)


@pytest.mark.parametrize("text", CORPUS[:2])
def test_whole_files(text: str) -> None:
    compare(text, read_dense(text))


def possible(dense: Dense, text: str) -> bool:
    """Whether all rows sum to one; of those that depend on the previous state, only the ones that can happen matter."""
    rows = dense.O.sum(-1)
    if "OO:" in text:
        rows = np.where(dense.T > 0, rows, 1.0)
    return bool(np.allclose(dense.T.sum(-1), 1) and np.allclose(rows, 1))


@settings(max_examples=120)
@given(texts())
def test_random_files(text: str) -> None:
    dense = read_dense(text)
    if possible(dense, text):
        compare(text, dense)
    else:
        with pytest.raises(FileError, match=r"line \d+, column \d+: the (transition|observation) probabilities"):
            parse_text(text)


@settings(max_examples=20)
@given(texts())
def test_comments_and_line_ends_do_not_matter(text: str) -> None:
    assume(possible(read_dense(text), text))
    plain = parse_text(text).pomdp()
    for other in (
        text.replace("\n", "\r\n"),
        text.replace("\n", " # T: a comment : 1 2\n"),
        text.replace(" : ", ":"),
        text.replace(" ", "\n"),
        text.replace("\n", " "),
        text.replace("\n", "\n\n\t "),
    ):
        again = parse_text(other).pomdp()
        for name in ("next_state", "observation", "probability", "reward", "done", "start"):
            np.testing.assert_array_equal(getattr(again, name), getattr(plain, name))
