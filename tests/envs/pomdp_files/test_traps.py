"""The traps of the `.pomdp` format, one test each, in the order of docs/reference/pomdp-format.md."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from asymrl.envs.pomdp_files import FileError, Limits, Problem, parse_text, read_pomdp
from asymrl.worlds.finite import OutcomeWorld
from tests.envs.pomdp_files.texts import SMALL, TABLES, TIGER


def transitions(problem: Problem) -> np.ndarray:
    """T[s, a, s']."""
    S, A = len(problem.state_names), len(problem.action_names)
    return problem.T.dense(np.float64).reshape(S, A, S)


def observations(problem: Problem) -> np.ndarray:
    """O[a, s', o]."""
    S, A = len(problem.state_names), len(problem.action_names)
    return problem.O.dense(np.float64).reshape(A, S, -1)


def refusal(text: str) -> str:
    with pytest.raises(FileError) as caught:
        parse_text(text)
    return str(caught.value)


def test_1_words_may_stand_on_any_line() -> None:
    spread = "\r\n".join(re.findall(r"\S+", SMALL + TABLES)) + "\r\nT:go:left:left\r\n0 T:go:left:right # here\r\n1.0"
    np.testing.assert_array_equal(transitions(parse_text(spread))[:, 1], [[0, 1], [0, 1]])


def test_1_a_matrix_without_line_breaks() -> None:
    problem = parse_text(SMALL + "T:*identity O:stay 1 0 0 1 O:go .5 .5 #x\n 0.25 .75")
    np.testing.assert_array_equal(observations(problem), [[[1, 0], [0, 1]], [[0.5, 0.5], [0.25, 0.75]]])


def test_2_later_lines_win_also_general_after_specific() -> None:
    text = (
        SMALL + "O: * uniform\nT: go : left 0 1\nT: * identity\nT: go : right : right 0.0\nT: go : right : left 1.0\n"
    )
    problem = parse_text(text + "R: go : left : * : * 5\nR: * : * : * : * 1\nR: go : right : * : * 2\n")
    np.testing.assert_array_equal(transitions(problem)[:, 1], [[1, 0], [1, 0]])
    np.testing.assert_array_equal(problem.rewards, [[1, 1], [1, 2]])


def test_3_wildcards_on_any_index() -> None:
    text = SMALL + "T: * : * : * 0.5\nO: * : left : * 0.5\nO: * : right : see 1\nR: * : * : left : * 3\n"
    problem = parse_text(text)
    np.testing.assert_array_equal(transitions(problem), np.full((2, 2, 2), 0.5))
    np.testing.assert_array_equal(observations(problem), [[[0.5, 0.5], [1, 0]]] * 2)
    np.testing.assert_array_equal(problem.pomdp().R(), np.full((2, 2), 1.5))


def test_3_numbers_may_mean_named_things_and_names_look_like_keywords() -> None:
    header = "discount: 1 values: reward states: start-left T1 R actions: reset T observations: start-left uniform\n"
    text = (
        header + "start: T1\nT: 0 identity\nT: T : * : R 1\nO: * : T1 uniform\nO: * : 0 : 0 1\nO: * : R : uniform 1\n"
    )
    problem = parse_text(text)
    assert problem.state_names == ["start-left", "T1", "R"]
    np.testing.assert_array_equal(problem.start, [0, 1, 0])
    np.testing.assert_array_equal(transitions(problem)[:, 1], [[0, 0, 1]] * 3)
    np.testing.assert_array_equal(observations(problem)[1], [[1, 0], [0.5, 0.5], [0, 1]])


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("", [0.5, 0.5]),
        ("start: uniform", [0.5, 0.5]),
        ("start: .25 7.5e-1", [0.25, 0.75]),
        ("start:\n0.0\n1.0", [0, 1]),
        ("start: right", [0, 1]),
        ("start: 0", [1, 0]),
        ("start include: right", [0, 1]),
        ("start include: 0 right", [0.5, 0.5]),
        ("start exclude: right", [1, 0]),
    ],
)
def test_4_every_form_of_start(start: str, expected: list[float]) -> None:
    np.testing.assert_array_equal(parse_text(f"{SMALL}{start}\n{TABLES}").start, expected)


@pytest.mark.parametrize("start", ["0", "1", "1.0", "uniform", "only"])
def test_4_the_start_of_a_single_state(start: str) -> None:
    text = f"discount: 1 states: only actions: 1 observations: 1 start: {start} T: * identity O: * uniform"
    np.testing.assert_array_equal(parse_text(text).start, [1])


def test_4_two_names_are_no_start() -> None:
    message = refusal(SMALL + "start: left right\n" + TABLES)
    assert "line 6, column 13: found 'right'" in message
    assert "did you mean `start include: left right`?" in message


def test_5_reset_copies_the_start_and_ends_the_episode() -> None:
    text = SMALL + "start: 0.25 0.75\nO: * uniform\nT: * identity\nT: go : left reset\n"
    problem = parse_text(text)
    np.testing.assert_array_equal(problem.ends, [[False, True], [False, False]])
    np.testing.assert_allclose(problem.world().T[0, 1], [0.25, 0.75])
    going_on = parse_text(text, episodic=False)
    assert not going_on.ends.any()
    np.testing.assert_array_equal(transitions(going_on)[0, 1], [0.25, 0.75])


@pytest.mark.parametrize("later", ["T: go : left 0 1", "T: * identity", "T: * : left uniform", "T: go : * : * .5"])
def test_5_a_later_row_clears_the_end(later: str) -> None:
    assert not parse_text(f"{SMALL}{TABLES}T: go : left reset\n{later}\n").ends.any()


def test_5_entries_behind_a_reset_change_the_copied_row() -> None:
    text = (
        SMALL
        + "start: 0.25 0.75\n"
        + TABLES
        + "T: go : left reset\nT: go : left : left 0.75\nT: go : left : right 0.25\n"
    )
    problem = parse_text(text)
    assert not problem.ends.any()
    np.testing.assert_array_equal(transitions(problem)[0, 1], [0.75, 0.25])


def test_5_reset_needs_the_start_first() -> None:
    assert "line 9, column 1: `start` must come before" in refusal(SMALL + TABLES + "T: go : left reset\nstart: 0\n")


def test_5_observations_may_be_the_identity() -> None:
    np.testing.assert_array_equal(observations(parse_text(SMALL + "T: * uniform O: * identity")), [np.eye(2)] * 2)


def test_6_observations_belong_to_the_next_state() -> None:
    text = SMALL + "T: stay identity\nT: go 0 1 1 0\nO: * : left : see 1\nO: * : right : hear 1\n"
    pomdp = parse_text(text).pomdp()
    s, a = pomdp.rows()
    np.testing.assert_array_equal(pomdp.observation, np.where(a == 0, s, 1 - s))


def test_6_every_observation_row_is_needed_reachable_or_not() -> None:
    message = refusal(SMALL + "T: * : * : left 1\nO: * : left uniform\n")
    assert "observation probabilities of action 'stay' and next state 'right' are missing" in message


def test_6_observations_may_depend_on_the_state_before() -> None:
    text = SMALL + "T: * uniform\nO: * uniform\nOO: go : left : right : see 0\nOO: go : left : right : hear 1\n"
    world = parse_text(text + "R: * : * : * : hear 1\n").world()
    assert isinstance(world, OutcomeWorld)
    np.testing.assert_allclose(world.R, [[0.5, 0.75], [0.5, 0.5]])
    with pytest.raises(ValueError, match="depend on the previous state"):
        _ = world.O


@pytest.mark.parametrize(
    "rewards",
    [
        "R: go : left : left : see 1\nR: go : left : left : hear 2\nR: go:left:right:see 3\nR: go:left:right:1 4",
        "R: go : left : left 1 2\nR: go : left : right\n3\n4",
        "R: go : left\n1 2\n3 4",
    ],
)
def test_7_rewards_as_numbers_rows_and_matrices(rewards: str) -> None:
    text = SMALL + "T: * uniform\nO: * : left .5 .5\nO: * : right .25 .75\n" + rewards
    # 1/2 (1/2 1 + 1/2 2) + 1/2 (1/4 3 + 3/4 4)
    np.testing.assert_allclose(parse_text(text).pomdp().R(), [[0, 2.625], [0, 0]])


def test_7_one_number_where_a_row_is_needed() -> None:
    message = refusal(SMALL + TABLES + "R: go : left : left 1\n")
    assert "found one number, expected 2 numbers (observations)" in message
    assert "for one number give all indices" in message


@pytest.mark.parametrize("word", ["cost", "costs"])
def test_8_costs_are_negated_once(word: str) -> None:
    problem = parse_text(SMALL.replace("reward", word) + TABLES + "R: go : * : * : * 3\n")
    np.testing.assert_array_equal(problem.rewards, [[0, -3], [0, -3]])
    assert problem.cost
    assert not np.signbit(problem.rewards[0, 0])


def test_8_a_missing_discount_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"no discount is given, so 0\.99 is used"):
        assert parse_text(SMALL.replace("discount: 0.9", "") + TABLES).discount == 0.99


def test_9_sums_within_the_tolerance_are_made_one() -> None:
    problem = parse_text(SMALL + TABLES + "T: go : left 0.333334 0.666667\n")
    np.testing.assert_allclose(transitions(problem)[0, 1].sum(), 1, atol=1e-15)
    np.testing.assert_allclose(transitions(problem)[0, 1, 0], 0.333334 / 1.000001, rtol=1e-12)


def test_9_sums_beyond_it_are_refused_with_line_action_and_state() -> None:
    message = refusal(SMALL + TABLES + "# a comment: 1 2 3\nT: go : right 0.5 0.6\n")
    assert (
        "line 9, column 1: the transition probabilities of action 'go' in state 'right' sum to 1.1, expected 1"
        in message
    )
    message = refusal(SMALL + TABLES + "O: go : left : see 1\nR: go : left : * : * 1\n")
    assert "line 8, column 1: the observation probabilities of action 'go' and next state 'left' sum to 1.5" in message
    assert "line 6, column 8: the start probabilities sum to 1.1" in refusal(SMALL + "start: 0.5 0.6\n" + TABLES)


@pytest.mark.parametrize("line", ["T: go : left : left -0.5", "T: go : left -.5 1.5", "O: go : left : see - 1"])
def test_9_negative_probabilities_are_refused(line: str) -> None:
    message = refusal(SMALL + TABLES + line)
    assert "line 8" in message
    assert "for action 'go', state 'left'" in message
    assert "is negative" in message


@pytest.mark.parametrize(
    ("text", "value"),
    [(".5", 0.5), ("1.", 1), ("5e-1", 0.5), ("+1.5E+1", 15), ("- 2", -2), ("1.e2", 100), ("-.5E-0", -0.5)],
)
def test_10_numbers(text: str, value: float) -> None:
    assert parse_text(f"{SMALL}{TABLES}R: go : left : * : * {text}").rewards[0, 1] == value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"<?xml version='1.0'?><pomdpx>", "it is XML, probably POMDPX"),
        (b"\n <!-- a --><pomdpx id='x'>", "it is XML"),
        (b"\x1f\x8b\x08\x00", "compressed"),
        (b'{"states": 3}', "JSON"),
        (b"agents: 2\ndiscount: 1", "several agents"),
        (b"discount: 1\ncosts: 1 2 3", "another dialect"),
        (b"discount: 1\natom x", "an extension of the format that pomdp-solve reads"),
    ],
)
def test_11_files_of_other_formats(tmp_path, data: bytes, message: str) -> None:
    path = tmp_path / "other.pomdp"
    path.write_bytes(data)
    with pytest.raises(FileError, match=message):
        read_pomdp(path)


@pytest.mark.parametrize("count", ["1000000000", "9" * 5000, "0"])
def test_12_headers_that_promise_too_much(count: str) -> None:
    message = refusal(f"discount: 1\nstates: {count}\nactions: 2\nobservations: 2\nT: * identity\nO: * uniform\n")
    assert "states, expected 1 to 1000000" in message


def test_12_tables_that_promise_too_much() -> None:
    header = "discount: 1 states: 30000 actions: 2 observations: 2 "
    assert "more than 33554432 non-zero probabilities" in refusal(header + "T: * uniform O: * uniform")
    assert "more than 4194304 pairs" in refusal(header.replace("actions: 2", "actions: 1000") + "T: * identity")
    # Overridden before they matter, they cost nothing.
    problem = parse_text(header + "T: * : * : * 0.5 T: * identity O: * uniform R: * : * : * : * 7")
    assert problem.T.column.size == 60_000
    np.testing.assert_array_equal(problem.rewards, 7)
    with pytest.raises(FileError, match="3 states, expected 1 to 2"):
        parse_text("states: 3", limits=Limits(states=2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found the end of the file, but `states:` must come before it"),
        ("discount: 2", "line 1, column 11: discount is 2, expected a number between 0 and 1"),
        ("discout: 1", "did you mean `discount:`?"),
        ("values: gain", "found 'gain', expected `reward` or `cost`"),
        ("states: a a", "'a' is named twice among the states"),
        ("states: 0 1 2", "names begin with a letter, and numbered states are given by their count alone"),
        ("states: 2 states: 2", "a second `states`; the first is on line 1"),
        (
            "states: 2 actions: 2 T: 0 identity",
            "`observations:` must come before it (a problem without observations is an MDP",
        ),
        (
            SMALL + "T: * identify",
            "found 'identify', expected 2 x 2 numbers (states x states), identity, uniform, reset",
        ),
        (SMALL + "T: go : lefd : left 1", "line 6, column 9: there is no state 'lefd'; did you mean 'left'?"),
        (SMALL + "T: go : 2 : left 1", "state 2 does not exist; they are 0 to 1"),
        (SMALL + "T: go : left : left 1 1", "found '1' after a complete statement"),
        (SMALL + "T: go : left 1", "found one number, expected 2 numbers (states), uniform, reset"),
        (SMALL + "T: go : left", "found the end of the file, expected 2 numbers"),
        (SMALL + "T: go : left : left", "found the end of the file, expected a number"),
        (SMALL + "R: go 1", "found '1', expected `:` and a state, or *"),
        (SMALL + TABLES + "T go : left", "found 'go' after 'T', expected a colon"),
        (SMALL + TABLES + "states: 2", "`states:` must come before the tables"),
        (SMALL + "start: 0\nstart: 0", "line 7, column 1: there is already a `start`"),
        (SMALL + "start exclude: left right", "all states are excluded"),
        (
            SMALL + "start: 0.5 0.25 0.25",
            "found 3 numbers, expected a state, `uniform`, or a probability for each of 2",
        ),
        (SMALL + TABLES + "R: go : left : * : * 1e999", "1e999 is too large a number"),
        (SMALL + "T: go & left", "line 6, column 7: '&' has no meaning in this format"),
        (SMALL + "O: * uniform", "transition probabilities of action 'stay' in state 'left' are missing"),
    ],
)
def test_what_is_refused_says_where_and_what_was_expected(text: str, message: str) -> None:
    assert message in refusal(text)


def test_the_tiger() -> None:
    problem = parse_text(TIGER, "tiger")
    assert (problem.discount, problem.name) == (0.95, "tiger")
    np.testing.assert_array_equal(problem.rewards, [[-1, -100, 10], [-1, 10, -100]])
    np.testing.assert_array_equal(problem.ends, [[False, True, True]] * 2)


def test_the_example_in_the_reference_is_read() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "pomdp-format.md"
    example = page.read_text().split("```text\n")[1].split("```")[0]
    problem = parse_text(example)
    np.testing.assert_array_equal(problem.ends, [[False, True]] * 2)
    np.testing.assert_array_equal(problem.pomdp().R(), [[-1, -45], [-1, 0]])
