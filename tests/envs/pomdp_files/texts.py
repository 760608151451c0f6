"""Texts of `.pomdp` files for the tests: whole ones, and a generator of random ones."""

from __future__ import annotations

from hypothesis import strategies as st

TIGER = """\
discount: 0.95
values: reward
states: tiger-left tiger-right
actions: listen open-left open-right
observations: obs-left obs-right
start: uniform
T: listen identity
T: open-left : * reset
T: open-right : * reset
O: listen
0.85 0.15
0.15 0.85
O: open-left uniform
O: open-right uniform
R: listen : * : * : * -1
R: open-left : tiger-left : * : * -100
R: open-left : tiger-right : * : * 10
R: open-right : tiger-left : * : * 10
R: open-right : tiger-right : * : * -100
"""

# Two states that do not change, two observations; tests put something of their own behind it.
SMALL = "discount: 0.9\nvalues: reward\nstates: left right\nactions: stay go\nobservations: see hear\n"
TABLES = "T: * identity\nO: * uniform\n"

CORPUS = (
    TIGER,
    SMALL + "start include: right\n" + TABLES + "R: go : left : right : see +1.5E+1\n",
    SMALL + "start: 0.25 .75\nT: * uniform\nT: go : left reset\nO: * : * : see 1\nOO: go : left : right 0.5 0.5"
    "\nOO: go:left:left:see .5\nOO: go:left:left:hear .5\nR: go : left\n1 2\n3 4\nR: stay : right : left 5 6\n",
    "discount: 1\nvalues: cost\nstates: 3\nactions: 2\nobservations: 1\nstart exclude: 0\nT: 0\n"
    "0.5 0.5 0\n0 1 0\n0 0 1\nT: 1 : * : 2 1.0\nO: * : * : 0 1\nR: 1 : * : * : * 3\n",
)  # fmt: skip

STATES, ACTIONS, OBSERVATIONS = ("left", "mid", "T1"), ("stay", "go"), ("left", "hear")
# Rows that sum to one, and a few that do not.
ROWS_3 = ("1 0 0", "0 1 0", "0 0 1.", ".5 .25 2.5e-1", "0.5 0 5E-1", "uniform")
ROWS_2 = ("1 0", "0 1", ".5 .5", "0.125 +0.875", "uniform")
NUMBERS = ("0", "1", "-2.5", "1e-3", ".5", "3.")


def _one_of(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from([*names, *(str(i) for i in range(len(names))), "*", "*"])


@st.composite
def statements(draw: st.DrawFn) -> str:
    """One statement about tables of `STATES`, `ACTIONS` and `OBSERVATIONS`; mostly about whole rows."""
    a, s, t, o = (draw(_one_of(names)) for names in (ACTIONS, STATES, STATES, OBSERVATIONS))
    row_3, row_2, number = (draw(st.sampled_from(rows)) for rows in (ROWS_3, ROWS_2, NUMBERS))
    three = draw(st.lists(st.sampled_from(ROWS_3[:-1]), min_size=3, max_size=3))
    pairs = draw(st.lists(st.sampled_from(ROWS_2[:-1]), min_size=3, max_size=3))
    rewards = " ".join(draw(st.lists(st.sampled_from(NUMBERS), min_size=6, max_size=6)))
    return draw(
        st.sampled_from(
            [
                f"T: {a} : {s} {row_3}",
                f"T: {a} identity",
                f"T: {a} {' '.join(three)}",
                f"T: {a} : {s} reset",
                f"T: {a} : {s} : * 0\nT: {a} : {s} : {t} 1",
                f"T: {a} : {s} : {t} 0.0\nT: {a} : {s} : mid 1",
                f"O: {a} : {t} {row_2}",
                f"O: {a} {' '.join(pairs)}",
                f"O: {a} : {t} : * 0.5",
                f"O: {a} : {t} : see 0\nO: {a} : {t} : {o} 1".replace("see", "left"),
                f"OO: {a} : {s} : {t} {row_2}",
                f"R: {a} : {s} : {t} : {o} {number}",
                f"R: {a} : {s} : * : * {number}",
                f"R: {a} : {s} : {t} {rewards[: rewards.index(' ')]} {number}",
                f"R: {a} : {s}\n{rewards}",
            ]
        )
    )


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A whole file: tables that are right, then statements that override each other."""
    start = draw(st.sampled_from(["", "start: uniform", "start: 0.5 0 .5", "start include: left 2"]))
    values = draw(st.sampled_from(["reward", "costs"]))
    lines = draw(st.lists(statements(), max_size=8))
    header = [
        "discount: 0.9",
        f"values: {values}",
        f"states: {' '.join(STATES)}",
        f"actions: {' '.join(ACTIONS)}",
        f"observations: {' '.join(OBSERVATIONS)}",
        start,
        "T: * : * : * 0.0",
        "T: * identity",
        "O: * uniform",
        "R: * : * : * : * 0.0",
    ]
    return "\n".join([*header, *lines]) + "\n"
