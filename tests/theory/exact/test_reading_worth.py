"""What each reading of a critic is worth: bias, error and variance, by listing and by simulation."""

import dataclasses
import functools
import itertools
import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from asymrl import theory
from asymrl.theory.exact.reading_worth import advantage_variance
from asymrl.worlds.pomdp import Pomdp
from tests.oracles.readings import ListedCritic
from tests.oracles.trajectories import random_policy, random_pomdp
from tests.theory.exact.worlds import load_unload, problem

SEES = ("state", "belief", "sampled-state", "state+time", "state+sampled-state")


@given(st.integers(0, 10**6), st.sampled_from(SEES), st.booleans())
@settings(max_examples=8)
def test_every_number_against_a_list_of_all_trajectories(seed: int, sees: str, history: bool) -> None:
    pomdp = random_pomdp(seed, S=2)
    act = random_policy(seed, pomdp.actions)
    analysis = theory.analyse(pomdp, act, horizon=2, merge="history")
    worth, listed = theory.examine_reading(analysis, sees, history), ListedCritic(pomdp, act, 2, sees, history)
    means, graph = listed.history_means(), analysis.graph
    weight = {graph.history(z): graph.probability_of_node[z] for z in range(graph.nodes)}
    bias = sum(weight[h] * abs(V - analysis.V(h)) for h, V in means.items()) / sum(weight.values())
    assert worth.value_bias == pytest.approx(bias, abs=1e-10)
    rows, variance = listed.gradient()
    assert worth.gradient_variance == pytest.approx(variance, rel=1e-9, abs=1e-10)
    true = analysis.gradient()
    error = sum(np.sum((row - true.table[graph.parameter[analysis.find(h)]]) ** 2) for h, row in rows.items()) ** 0.5
    assert worth.gradient_error == pytest.approx(error / true.norm, rel=1e-7, abs=1e-9)
    assert worth.target_variance == pytest.approx(listed.target_variance(), rel=1e-9, abs=1e-10)
    for found, lambda_, independent in (
        (worth.advantage_variance, 0.0, False),
        (worth.advantage_variance, 0.0, True),
        (worth.gae_variance, 0.95, False),
        (worth.gae_variance_independent, 0.95, True),
    ):
        assert found == pytest.approx(listed.advantage_variance(lambda_, independent), rel=1e-9, abs=1e-10)


def test_tiger_listen_once_and_open_the_other_door() -> None:
    """The reward of the door is 10 with probability 0.85, else -100: mean -6.5, variance 0.85 * 0.15 * 110^2.

    V(h) meets this variance at the door, V(h, s) one step earlier, where it is discounted: what was heard and the state
    tell together whether the door is right.
    """

    def act(h: theory.History) -> list[float]:
        return [1.0, 0.0, 0.0] if not h else [0.0, float(h[0][1] == 1), float(h[0][1] == 0)]

    analysis = theory.analyse("tiger", act, horizon=2, discount=0.9)
    g, spread = 0.9, 0.85 * 0.15 * 110**2
    heard_left = ((0, 0),)
    assert analysis.V(heard_left) == pytest.approx(-6.5)
    assert [analysis.V(heard_left, s) for s in (0, 1)] == pytest.approx([10, -100])
    worth = {each.critic: each for each in theory.compare_readings(analysis)}
    for critic in ("V(h)", "V(h, b)", "V(h, s~b)", "V(s, t)", "V(b)"):
        assert worth[critic].target_variance == pytest.approx(spread / 2)
        assert worth[critic].advantage_variance == pytest.approx(spread / 2)
        assert worth[critic].value_bias == pytest.approx(0, abs=1e-12)
    assert worth["V(h, s)"].target_variance == pytest.approx(g**2 * spread / 2)
    assert worth["V(h, s)"].advantage_variance == pytest.approx(g**2 * spread / 2)
    # Without the time, V(s) = (-1 + g V(s) - 6.5) / 2 is the mean of two steps, and so is V(s~b).
    V = -7.5 / (2 - g)
    assert worth["V(s)"].value_bias == pytest.approx((abs(V - (-1 - 6.5 * g)) + abs(V + 6.5)) / 2)
    assert worth["V(s~b)"].value_bias == pytest.approx(worth["V(s)"].value_bias)


@pytest.mark.parametrize("independent", [False, True])
def test_one_draw_or_two_leave_the_gradient_estimate_alone(independent: bool) -> None:
    """Also where the same row of the policy's table recurs in an episode, and neighbouring TD errors meet in it.

    The noise e of V(s~b) at t + 1 is in gamma e grad log pi(a_t) and in -e grad log pi(a_{t+1}), but the mean of the
    latter given h_{t+1} and e is zero.
    """
    pomdp, p = problem("tiger"), np.array([0.7, 0.2, 0.1])
    one_row = theory.Controller(p[None], np.zeros(3, int), np.zeros((1, 3, 2), int))
    analysis = theory.analyse(pomdp, one_row, horizon=2, merge="history")
    listed = ListedCritic(pomdp, lambda h: p, 2, "sampled-state", False)
    rows, variance = listed.gradient(lambda h: 0, independent)
    critic = analysis.critic("sampled-state")
    assert critic.noise.min() > 0.4
    assert analysis.variance(critic, shared=True) == pytest.approx(variance, rel=1e-9)
    np.testing.assert_allclose(analysis.gradient(critic).table[0], rows[0], atol=1e-12)


@given(st.integers(0, 10**6), st.floats(0, 1))
@settings(max_examples=15)
def test_one_draw_for_both_uses_is_never_noisier(seed: int, lambda_: float) -> None:
    """In sums of TD errors; in a single TD error the two uses do not meet."""
    pomdp = random_pomdp(seed)
    analysis = theory.analyse(pomdp, random_policy(seed, pomdp.actions), horizon=3)
    critic = analysis.critic("sampled-state")
    one, two = (advantage_variance(analysis.values, critic, lambda_, independent=i) for i in (False, True))
    assert one <= two + 1e-12
    if lambda_ == 0:
        assert one == pytest.approx(two)


@given(st.integers(0, 10**6))
@settings(max_examples=8)
def test_where_rewards_are_seen_the_state_makes_td_errors_smaller(seed: int) -> None:
    """The sum of gamma^(2t) E[delta_t^2] is E[Var(return | h_0, s_0)] for V(h, s), and E[Var(return | h_0)] for V(h).

    TD errors of V(h, s) are always uncorrelated, those of V(h) only if h tells the rewards so far.
    """
    pomdp = random_pomdp(seed, S=2, shows_first=True)
    paid = np.random.default_rng(seed).normal(size=(2, 3))
    pomdp = dataclasses.replace(pomdp, reward=paid[pomdp.rows()[1], pomdp.observation])
    act, g, sums = random_policy(seed, 2), pomdp.discount, {}
    for sees in ("", "state"):
        listed = ListedCritic(pomdp, act, 3, sees, history=True)
        sums[sees] = sum(
            episode.probability * sum(g ** (2 * t) * delta**2 for t, delta in enumerate(episode.errors(g)))
            for episode in listed.episodes()
        )
        moments: dict[Any, np.ndarray] = defaultdict(lambda: np.zeros(3))
        for path in listed.paths:
            first = path.histories[0], path.states[0] if sees else None
            moments[first] += path.probability * np.array([1, path.returns(0, g), path.returns(0, g) ** 2])
        assert sums[sees] == pytest.approx(sum(m[2] - m[1] ** 2 / m[0] for m in moments.values()), rel=1e-9)
    assert sums["state"] <= sums[""] + 1e-12


@pytest.mark.parametrize(("seed", "state_helps"), [(0, False), (2, True)])
def test_no_variance_is_ordered(seed: int, state_helps: bool) -> None:
    """Not even those of targets and advantages, where rewards are not seen."""
    analysis = theory.analyse(random_pomdp(seed), random_policy(seed, 2), horizon=3)
    h, hs = (theory.examine_reading(analysis, sees, history=True) for sees in ("", "state"))
    assert (hs.target_variance < h.target_variance) == state_helps
    assert h.advantage_variance is not None
    assert hs.advantage_variance is not None
    assert (hs.advantage_variance < h.advantage_variance) == state_helps


def test_a_return_minus_a_drawn_value_keeps_the_noise_of_that_value_alone() -> None:
    """With lambda = 1 and one draw for both uses, all other draws cancel."""
    analysis = theory.analyse("tiger", random_policy(1, 3), horizon=4)
    critic, graph = analysis.critic("sampled-state"), analysis.graph
    added = float(graph.mass @ critic.noise / graph.mass.sum())
    without = advantage_variance(analysis.values, analysis.critic("", history=True), 1.0)
    assert advantage_variance(analysis.values, critic, 1.0) == pytest.approx(without + added, rel=1e-10)
    assert advantage_variance(analysis.values, critic, 1.0, independent=True) > without + 1.5 * added


def test_a_number_that_needs_beliefs_or_a_horizon_is_none() -> None:
    by_memory = theory.analyse("heaven-hell-1", "uniform", horizon=5, merge="memory")
    assert [each.critic for each in theory.compare_readings(by_memory)] == ["V(s)", "V(s, t)"]
    state = theory.examine_reading(by_memory, "state")
    assert state.value_bias is state.gradient_variance is state.advantage_variance is None
    assert state.target_variance > 0
    endless = theory.analyse("tiger", "uniform", horizon=np.inf)
    names = [each.critic for each in theory.compare_readings(endless)]
    assert names == ["V(h)", "V(h, s)", "V(h, b)", "V(h, s~b)", "V(s)", "V(b)", "V(s~b)"]
    assert theory.examine_reading(endless, "belief").gradient_variance is None


def test_json_has_no_infinities() -> None:
    """A policy with a zero gradient has neither a relative error nor an angle."""
    analysis = theory.analyse("good-bad", "uniform", horizon=3)
    numbers = theory.examine_reading(analysis, "state+time").to_json()
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    assert numbers["critic"] == "V(s, t)"


class Simulated:
    """Sampled episodes of a policy of the history, with two draws of a state from the belief at each step."""

    def __init__(self, pomdp: Pomdp, act: Any, horizon: int, episodes: int):
        rng, self.pomdp, self.act = np.random.default_rng(0), pomdp, act
        A, self.runs = pomdp.actions, []
        belief = functools.cache(lambda h: theory.belief_of(pomdp, h).cumsum())
        chance = functools.cache(lambda h: act(h).cumsum())
        outcomes = [pomdp.probability[i:j].cumsum() for i, j in itertools.pairwise(pomdp.first.tolist())]
        start = pomdp.start.cumsum()

        def draw(cumulative: np.ndarray) -> int:
            return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], "right"))

        for _ in range(episodes):
            h, s, steps = (), draw(start), []
            for _ in range(horizon):
                a = draw(chance(h))
                k = int(pomdp.first[s * A + a]) + draw(outcomes[s * A + a])
                steps.append((h, s, a, float(pomdp.reward[k]), draw(belief(h)), draw(belief(h))))
                if pomdp.done[k]:
                    break
                h, s = (*h, (a, int(pomdp.observation[k]))), int(pomdp.next_state[k])
            self.runs.append(steps)

    def variance(self, value: Any, bootstrap: Any = None) -> tuple[float, float]:
        """The variance of the gradient estimate, and its standard error; the critic is a function of (h, s, draws)."""
        bootstrap, g = bootstrap or value, self.pomdp.discount
        score = functools.cache(lambda h, a: np.eye(self.pomdp.actions)[a] - self.act(h))
        sums: dict[Any, np.ndarray] = {}
        sizes = []
        for steps in self.runs:
            size = 0.0
            for t, (h, s, a, r, *draws) in enumerate(steps):
                later = bootstrap(steps[t + 1][0], steps[t + 1][1], *steps[t + 1][4:]) if t + 1 < len(steps) else 0.0
                part = g**t * (r + g * later - value(h, s, *draws)) * score(h, a)
                sums[h] = sums.get(h, 0.0) + part
                size += float(part @ part)
            sizes.append(size)
        mean = sum(float(part @ part) for part in sums.values()) / len(self.runs) ** 2
        return float(np.mean(sizes) - mean), float(np.std(sizes) / len(sizes) ** 0.5)

    def taught(self) -> dict[int, np.ndarray]:
        """V(s~b) from least squares on the samples, with the same draw for both uses, and with another one."""
        tables = {}
        for other in (4, 5):
            K, R = np.zeros((self.pomdp.states,) * 2), np.zeros(self.pomdp.states)
            for steps in self.runs:
                for t, step in enumerate(steps):
                    K[step[4], step[4]] += 1
                    R[step[4]] += step[3]
                    if t + 1 < len(steps):
                        K[step[4], steps[t + 1][other]] -= self.pomdp.discount
            tables[other] = np.linalg.solve(K, R)
        return tables


@pytest.mark.parametrize(("name", "state_helps"), [("load-unload", True), ("tiger", False)])
def test_simulated_variances_have_the_exact_order(name: str, state_helps: bool) -> None:
    pomdp = load_unload(3) if name == "load-unload" else problem(name)
    act, horizon = random_policy(0, pomdp.actions), 3
    analysis = theory.analyse(pomdp, act, horizon=horizon, merge="history")
    simulated = Simulated(pomdp, act, horizon, 4000)
    drawn = analysis.critic("sampled-state").table
    V, V_hs = {}, {}
    for z in range(analysis.graph.nodes):
        h = analysis.graph.history(z)
        V[h] = analysis.V(h)
        V_hs |= {(h, int(s)): analysis.V(h, int(s)) for s in np.flatnonzero(analysis.belief(h))}
    exact = {each.critic: each.gradient_variance or 0.0 for each in theory.compare_readings(analysis)}
    for critic, value, bootstrap in (
        ("V(h)", lambda h, s, i, j: V[h], None),
        ("V(h, s)", lambda h, s, i, j: V_hs[h, s], None),
        ("V(s~b)", lambda h, s, i, j: drawn[i], None),
        ("V(s~b)", lambda h, s, i, j: drawn[i], lambda h, s, i, j: drawn[j]),
    ):
        found, error = simulated.variance(value, bootstrap)
        assert found == pytest.approx(exact[critic], abs=5 * error)
    assert (exact["V(h, s)"] < exact["V(h)"]) == state_helps
    # The critic of the true state, read with drawn states: unbiased, and always noisier than V(h).
    resampled, error = simulated.variance(lambda h, s, i, j: V_hs[h, i])
    assert resampled == pytest.approx(analysis.variance("hs", resampled=True), abs=5 * error)
    assert resampled > exact["V(h)"]
    for table in simulated.taught().values():
        np.testing.assert_allclose(table, drawn, rtol=0.02, atol=0.02)
