"""Policies of every kind, belief filters, requests that do not fit, and invalid policies."""

import numpy as np
import pytest

from asymrl import theory
from asymrl.theory.exact.policies import reactive
from tests.oracles.trajectories import random_policy, random_pomdp
from tests.theory.exact.worlds import heard_the_priest, problem


def test_one_policy_in_five_forms() -> None:
    """Acts on the last observation: as an array, a function, a table of histories, a window and a controller."""
    pomdp = random_pomdp(5)
    table = np.random.default_rng(5).dirichlet(np.ones(2), 3)

    def act(h: theory.History) -> np.ndarray:
        return table[h[-1][1] if h else 2]

    histories = {h: act(h) for h, _ in theory.realisable(pomdp, 3)}
    follow = np.broadcast_to(np.arange(2), (3, 2, 2))
    forms = [table, act, histories, theory.WindowPolicy(pomdp, 1, act), theory.Controller(table, np.arange(3), follow)]
    returns = [theory.analyse(pomdp, form, horizon=4).J for form in forms]
    np.testing.assert_allclose(returns, returns[0], atol=1e-13)


def test_window_sees_the_last_pairs_only() -> None:
    pomdp = problem("tiger")
    seen: set[theory.History] = set()

    def act(pairs: theory.History) -> np.ndarray:
        seen.add(pairs)
        return np.full(3, 1 / 3)

    analysis = theory.analyse(pomdp, theory.WindowPolicy(pomdp, 2, act), horizon=5, merge="memory")
    assert len(seen) == 1 + 6 + 36
    assert max(map(len, seen)) == 2
    assert pytest.approx(analysis.J, rel=1e-13) == theory.analyse(pomdp, "uniform", horizon=5).J


def test_belief_policy_merges_histories_with_one_belief() -> None:
    pomdp = problem("tiger")

    def listen_until_sure(b: np.ndarray, t: np.ndarray) -> np.ndarray:
        sure = b.max(1) > 0.9
        return np.eye(3)[np.where(sure, 2 - b.argmax(1), 0)]

    analysis = theory.analyse(pomdp, theory.BeliefPolicy(pomdp, listen_until_sure), horizon=20)
    assert analysis.graph.nodes < 100
    assert analysis.J > 0
    assert analysis.pi(((0, 0), (0, 0))).tolist() == [0.0, 0.0, 1.0]  # heard left twice: the treasure is right


def test_soft_policy_mixes_with_uniform() -> None:
    pomdp = problem("heaven-hell-1")
    half = theory.analyse(pomdp, theory.EpsilonSoft(heard_the_priest(1, expert=1.0), 0.5))
    assert half.pi(((1, 4), (2, 5)))[3] == pytest.approx(0.5 + 0.125)


def test_most_likely_histories_bound_the_return() -> None:
    """The interval from following a part of the histories holds the value from following all."""
    exact = theory.analyse("tiger", np.tile([0.96, 0.02, 0.02], (3, 1)), horizon=5)
    widths = []
    for mass in (0.6, 0.95):
        part = theory.analyse("tiger", lambda h: [0.96, 0.02, 0.02], horizon=5, mass=mass)
        assert part.left_over <= 1 - mass
        assert part.graph.nodes < 1555
        assert abs(part.J - exact.J) <= part.error
        widths.append(part.error)
    assert 0 < widths[1] < widths[0]


def test_truncation_bound_of_a_policy_that_remembers_everything() -> None:
    pomdp = random_pomdp(3, discount=0.3)
    table = np.random.default_rng(3).dirichlet(np.ones(2), 3)
    exact = theory.analyse(pomdp, table, horizon=float("inf"))
    cut = theory.analyse(pomdp, lambda h: table[h[-1][1] if h else 2], horizon=float("inf"))
    assert abs(cut.J - exact.J) <= cut.error < 1e-3


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda h: [float("nan")] * 3 if len(h) == 1 else [1, 0, 0], r"gives \[nan, nan, nan\] after listen→obs-left"),
        (
            lambda h: [1, 0] if len(h) == 2 else [1, 0, 0],
            r"gives 2 probabilities after listen→obs-left listen→obs-left",
        ),
        (lambda h: [1.5, -0.5, 0], r"gives \[1.5, -0.5, 0.0\] after the start"),
        (lambda h: [0.5, 0.2, 0.2], "expected 3 probabilities that sum to 1"),
        ({(): [1, 0, 0]}, r"no row for the history \(\(0, 0\),\)"),
        (np.ones((2, 3)) / 3, r"has shape \(2, 3\), not \(3, 3\)"),
        (7, "7 is not a policy"),
    ],
)
def test_bad_policies_are_named_with_the_history(policy: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theory.analyse("tiger", policy, horizon=3)


def test_impossible_histories_are_named() -> None:
    analysis = theory.analyse("heaven-hell-1")
    with pytest.raises(ValueError, match=r"after the start, action 'N' cannot be followed by observation 'o0'"):
        analysis.V(((0, 0),))
    with pytest.raises(ValueError, match="begin with a pair"):
        theory.analyse("good-bad").belief(())
    with pytest.raises(ValueError, match="state 3 is impossible after the start"):
        analysis.V((), 3)
    with pytest.raises(ValueError, match=r"pair 0 of the history is \(9, 0\)"):
        analysis.V(((9, 0),))


def test_request_that_does_not_fit_says_what_would() -> None:
    act = random_policy(0, 3)
    with pytest.raises(theory.TooLargeError) as caught:
        theory.analyse("tiger", act, horizon=8, limit=2000)
    assert "There are 335923 histories before the last action. A horizon of 5 fits (--horizon)" in str(caught.value)
    assert theory.analyse("tiger", act, horizon=5, limit=2000).graph.nodes == 1555


def test_actions_that_are_never_taken_have_values_too() -> None:
    """Q(h, a) of a deterministic policy, for the other actions: one step off, then the policy again."""
    pomdp = random_pomdp(8)
    always = reactive(np.tile([1.0, 0.0], (3, 1)))
    analysis = theory.analyse(pomdp, always, horizon=3)

    def once(h: theory.History) -> np.ndarray:
        return np.array([0.0, 1.0] if not h else [1.0, 0.0])

    assert analysis.Q((), 1) == pytest.approx(theory.analyse(pomdp, once, horizon=3).J, abs=1e-13)
    assert analysis.Q((), 0) == pytest.approx(analysis.J, abs=1e-13)
