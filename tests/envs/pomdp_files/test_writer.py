"""What is written is read back the same, to the last bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from asymrl.envs.pomdp_files import FileError, Problem, parse_text, read_pomdp, to_text, write_pomdp
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.pomdp import Pomdp
from asymrl.worlds.probability_tables import Rows
from asymrl.worlds.registry import make
from tests.envs.pomdp_files.texts import CORPUS, SMALL, TABLES, TIGER, texts


def assert_same(one: Pomdp, other: Pomdp, rounding: float = 0.0) -> None:
    """Outcomes may stand in any order."""

    def order(pomdp: Pomdp) -> np.ndarray:
        s, a = pomdp.rows()
        return np.lexsort([pomdp.reward, pomdp.observation, pomdp.next_state, a, s])

    i, j = order(one), order(other)
    np.testing.assert_array_equal(one.first, other.first)
    for name in ("next_state", "observation", "reward", "done"):
        np.testing.assert_array_equal(getattr(one, name)[i], getattr(other, name)[j], err_msg=name)
    np.testing.assert_allclose(one.probability[i], other.probability[j], rtol=rounding, atol=0)
    np.testing.assert_array_equal(one.start, other.start)
    assert one.discount == other.discount
    for name in ("state_names", "action_names", "observation_names"):
        assert list(getattr(one, name)) == list(getattr(other, name))


def finite(name: str) -> FiniteWorld:
    world = make(name)
    assert isinstance(world, FiniteWorld)
    return world


WORLDS = ["heaven-hell-3", "heaven-hell-4", "shopping-3", "tiger", "tiger:episodic=true"]


@pytest.mark.parametrize("name", WORLDS)
def test_built_in_worlds(name: str) -> None:
    world = finite(name)
    assert_same(world.pomdp(), parse_text(to_text(world)).pomdp())
    assert_same(world.pomdp(), parse_text(to_text(world.pomdp())).pomdp(), rounding=1e-15)


def test_what_is_seen_first_has_no_place_in_a_file() -> None:
    world = finite("good-bad")
    with pytest.raises(ValueError, match='first_observation="drop"'):
        to_text(world)
    back = parse_text(to_text(world, first_observation="drop")).pomdp()
    assert_same(dataclasses.replace(world.pomdp(), first_observation=None), back)


@pytest.mark.parametrize("text", CORPUS)
def test_texts(text: str) -> None:
    problem = parse_text(text)
    again = parse_text(to_text(problem))
    assert_same(problem.pomdp(), again.pomdp())
    assert again.cost == problem.cost
    assert_same(problem.pomdp(), parse_text(to_text(problem.world())).pomdp())


@settings(max_examples=40)
@given(texts())
def test_random_texts(text: str) -> None:
    try:
        problem = parse_text(text)
    except FileError:
        return
    assert_same(problem.pomdp(), parse_text(to_text(problem)).pomdp())


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Random tables with all the digits that floats have."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    S, A, O = (draw(st.integers(1, 4)) for _ in range(3))
    previous, by_outcome = draw(st.booleans()), draw(st.booleans())

    def rows(count: int, columns: int) -> Rows:
        table = chance.random((count, columns)) * (chance.random((count, columns)) < 0.6)
        table[table.sum(-1) == 0, 0] = 1.0
        return Rows.from_dense(table / table.sum(-1, keepdims=True))

    start = rows(1, S).dense(np.float64)[0]
    ends = chance.random((S, A)) < 0.2
    T = rows(S * A, S).dense(np.float64)
    T[ends.ravel()] = start
    T = Rows.from_dense(T)
    O_rows = rows(T.column.size if previous else A * S, O)
    problem = Problem(
        name="random", T=T, O=O_rows, previous=previous, rewards=chance.normal(size=(S, A)), ends=ends, start=start,
        discount=float(chance.random()), cost=draw(st.booleans()), state_names=[f"s{i}" for i in range(S)],
        action_names=[str(i) for i in range(A)], observation_names=[f"o-{i}" for i in range(O)],
    )  # fmt: skip
    return dataclasses.replace(problem, rewards=chance.normal(size=problem.joint().row.size)) if by_outcome else problem


@settings(max_examples=60)
@given(problems())
def test_random_problems(problem: Problem) -> None:
    again = parse_text(to_text(problem))
    assert_same(problem.pomdp(), again.pomdp())
    assert again.cost == problem.cost


def test_a_file(tmp_path) -> None:
    problem = parse_text(TIGER)
    write_pomdp(problem, tmp_path / "copy.pomdp")
    assert_same(problem.pomdp(), read_pomdp(tmp_path / "copy.pomdp").pomdp())


def test_the_forms_that_are_used() -> None:
    text = to_text(parse_text(SMALL + "start include: right\n" + TABLES + "T: go : left reset\n"))
    for line in ("states: left right", "start include: right", "T: go : left reset", "discount: 0.9"):
        assert line in text.splitlines()
    assert "values: cost" in to_text(parse_text(SMALL.replace("reward", "cost") + TABLES))
    assert "states: 28" in to_text(finite("heaven-hell-3")).splitlines()


def test_what_the_format_can_not_say() -> None:
    pomdp = finite("tiger").pomdp()
    with pytest.raises(ValueError, match="state 'a b' cannot be written"):
        to_text(dataclasses.replace(pomdp, state_names=["a b", "c"]))
    done = np.arange(pomdp.done.size) % 2 == 0
    changed = dataclasses.replace(pomdp, done=done, observation=np.where(done, -1, 0))
    with pytest.raises(ValueError, match="action 'listen' in state 'tiger-left' may end the episode or not"):
        to_text(changed)
    s, _ = pomdp.rows()
    ending = dataclasses.replace(
        pomdp, done=np.ones_like(pomdp.done), observation=np.full_like(pomdp.observation, -1), next_state=s,
        reward=np.arange(s.size, dtype=float),
    )  # fmt: skip
    with pytest.raises(ValueError, match="ends the episode with several rewards"):
        to_text(ending)
