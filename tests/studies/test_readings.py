"""Studies 2 and 3: what a reading explains and shows, against lists of all trajectories."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agents import half_expert
from asymrl import theory
from asymrl.theory.exact.reading_worth import explained
from asymrl.theory.exact.readings import read
from asymrl.worlds import make
from readings import explained_return, readable_value
from tests.oracles.trajectories import History, Trajectory, trajectories

HORIZON = 3


@functools.cache
def shopping_2() -> tuple[theory.Analysis, list[Trajectory]]:
    """The analysis of an agent that asks now and then, and all of its trajectories."""
    policy = half_expert("shopping-2", 0.2, 0.7)
    analysis = theory.analyse(make("shopping-2"), policy, horizon=HORIZON, merge="belief")

    @functools.cache
    def act(h: History) -> np.ndarray:
        memory = policy.begin(np.array([analysis.pomdp.observations]))
        for a, o in h:
            memory = policy.advance(memory, np.array([0]), np.array([a]), np.array([o]))
        return policy.act(memory)[0]

    return analysis, list(trajectories(analysis.pomdp, act, HORIZON))


def means(paths: list[Trajectory], key: Callable[[Trajectory, int], Any], y: Callable[[Trajectory, int], float]) -> Any:
    """E[y | key] over all visits, as a function of a path and a time."""
    total, mass = defaultdict(float), defaultdict(float)
    for path in paths:
        for t in range(len(path.actions)):
            total[key(path, t)] += path.probability * y(path, t)
            mass[key(path, t)] += path.probability
    return lambda path, t: total[key(path, t)] / mass[key(path, t)]


def over_visits(paths: list[Trajectory], y: Callable[[Trajectory, int], float]) -> float:
    return sum(path.probability * y(path, t) for path in paths for t in range(len(path.actions)))


CELLS = 4
PARTS: dict[str, Callable[[int], int]] = {
    "state": lambda s: s,
    "item": lambda s: s % CELLS,
    "position": lambda s: s // CELLS,
}


@pytest.mark.parametrize("part", PARTS)
def test_what_a_part_of_the_state_explains(part: str) -> None:
    analysis, paths = shopping_2()
    of = PARTS[part]

    def returns(path: Trajectory, t: int) -> float:
        return path.returns(t, analysis.pomdp.discount)

    V_h = means(paths, lambda p, t: p.histories[t], returns)
    V_hs = means(paths, lambda p, t: (p.histories[t], p.states[t]), returns)
    V_hi = means(paths, lambda p, t: (p.histories[t], of(p.states[t])), returns)

    def spread(one: Any, other: Any) -> float:
        return over_visits(paths, lambda p, t: (one(p, t) - other(p, t)) ** 2)

    reading = read(analysis.graph, part, True, analysis.world)
    assert explained(analysis.values, reading) == pytest.approx(spread(V_hi, V_h) / spread(V_hs, V_h), abs=1e-10)
    share = spread(V_hi, V_h) / spread(returns, V_h)
    assert explained_return(analysis.values, reading) == pytest.approx(share, abs=1e-10)
    assert (share > 0.01) == (part != "position")


@pytest.mark.parametrize("sees", ["", "state", "item", "belief", "time"])
def test_what_an_input_shows_without_memory(sees: str) -> None:
    analysis, paths = shopping_2()

    def x(path: Trajectory, t: int) -> Any:
        s, belief = path.states[t], tuple(analysis.belief(path.histories[t]).round(9))
        return s // CELLS, {"state": s, "item": s % CELLS, "time": t, "belief": belief}.get(sees)

    V_h = means(paths, lambda p, t: p.histories[t], lambda p, t: p.returns(t, analysis.pomdp.discount))
    shown, overall = means(paths, x, V_h), means(paths, lambda p, t: 0, V_h)
    left = over_visits(paths, lambda p, t: (V_h(p, t) - shown(p, t)) ** 2)
    spread = over_visits(paths, lambda p, t: (V_h(p, t) - overall(p, t)) ** 2)
    assert readable_value(analysis, sees) == pytest.approx(1 - left / spread, abs=1e-10)
