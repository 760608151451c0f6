"""The fixed points of the DQN family: by hand, against a list of all trajectories, and against the learners' losses."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from asymrl import theory
from asymrl.learners.q_losses import estimates, variant_of
from asymrl.settings import methods
from asymrl.theory.exact.q_learning import state_aliasing
from asymrl.theory.solvers import solve
from asymrl.worlds import FiniteWorld, make
from asymrl.worlds.pomdp import NOTHING, Pomdp
from tests.oracles import q_tables
from tests.oracles.trajectories import Trajectory, random_policy, random_pomdp, trajectories
from tests.theory.exact.worlds import problem

HISTORY_METHODS = [name for name in theory.Q_METHODS if "state" not in name]
HORIZON = 3
problems = st.tuples(st.integers(0, 10**6), st.booleans())


def test_the_methods_are_those_of_the_learner() -> None:
    assert tuple(theory.Q_METHODS) == methods.DQN_METHODS == q_tables.METHODS
    for name, how in theory.Q_METHODS.items():
        assert (how.reads or "h") == methods.method(name).reads
        assert (how.short, how.reduced) == variant_of(name)


def coin() -> Pomdp:
    """A coin lies on one of two sides. Guessing ends the episode, for 1 or -1; looking costs 0.1 and shows the side."""
    guess, look = 2, (0, 1)
    rows = []
    for side in (0, 1):
        rows += [[(side, NOTHING, 1.0, 1.0 if side == a else -1.0, True)] for a in range(guess)]
        rows.append([(side, look[side], 1.0, -0.1, False)])
    columns = zip(*(outcome for row in rows for outcome in row), strict=True)
    next_state, observation, probability, reward, done = (np.array(column) for column in columns)
    return Pomdp(
        "coin",
        np.arange(len(rows) + 1),
        next_state,
        observation,
        probability,
        reward,
        done,
        start=np.array([0.5, 0.5]),
        first_observation=None,
        discount=0.5,
        time_limit=2,
        state_names=["heads", "tails"],
        action_names=["say-heads", "say-tails", "look"],
        observation_names=["heads", "tails"],
    )


LOOK = 2
SEEN = ((LOOK, 0),)  # heads was seen


@pytest.mark.parametrize("method", HISTORY_METHODS)
def test_coin_by_hand(method: str) -> None:
    point = theory.q_fixed_point(coin(), method)
    np.testing.assert_allclose(point.Q_h[point.node_of(())], [0, 0, -0.1 + 0.5], atol=1e-15)
    np.testing.assert_allclose(point.Q_h[point.node_of(SEEN)], [1, -1, -0.1], atol=1e-15)
    assert point.is_optimal
    assert point.greedy_return == point.optimal_return == pytest.approx(0.4, abs=1e-15)


def test_state_values_of_the_coin_by_hand() -> None:
    """Q(s, look) mixes looking first with looking again, in proportions that depend on what fills the replay."""
    uniform = theory.q_fixed_point(coin(), "adqn-state-vr")
    share = 3 / 4  # a third of the episodes, those that looked, act a second time
    assert uniform.Q_privileged == pytest.approx(np.array([[1, -1, -0.1 + 0.5 * share], [-1, 1, -0.1 + 0.5 * share]]))
    assert uniform.Q((), LOOK) == pytest.approx(0.275)
    assert uniform.Q(SEEN, LOOK) == pytest.approx(0.275)
    assert uniform.max_error == pytest.approx(0.375)
    history, action, error = uniform.worst()
    assert (history, action) in (("look→heads", "look"), ("look→tails", "look"))
    assert error == pytest.approx(0.375)
    assert uniform.worst(depth=0) == ("the start", "look", pytest.approx(-0.125))
    assert uniform.mean_error == pytest.approx((1 * 0.125 + 1 / 3 * 0.375) / (4 / 3) / 3)

    own = theory.q_fixed_point(coin(), "adqn-state-vr", epsilon=0.1)
    share = 1 / (1 + 0.1 / 3)  # those that looked look again with probability 0.1 / 3
    assert own.Q((), LOOK) == pytest.approx(-0.1 + 0.5 * share)
    timed = theory.q_fixed_point(coin(), "adqn-state-vr", timed=True)
    assert timed.is_optimal  # after a look the side is known, so that the time is all that Q(s, a) lacks


def test_mean_over_an_episode_favours_short_episodes() -> None:
    """Try: half of the tries end with 1, else one more try is left. The first try is worth 1/2 + 1/4."""
    trying = dataclasses.replace(
        coin(),
        first=np.array([0, 2]),
        next_state=np.array([0, 0]),
        observation=np.array([NOTHING, 0]),
        probability=np.array([0.5, 0.5]),
        reward=np.array([1.0, 0.0]),
        done=np.array([True, False]),
        start=np.array([1.0]),
        state_names=["here"],
        action_names=["try"],
        observation_names=["missed"],
        discount=1.0,
    )
    for method in HISTORY_METHODS:
        assert theory.q_fixed_point(trying, method).Q((), 0) == 0.75
        # An end at once has weight 1/2, going on 1/2 times 1/2.
        expected = (1 / 2 * 1 + 1 / 4 * 1 / 2) / (3 / 4)
        assert theory.q_fixed_point(trying, method, weighting="episodes").Q((), 0) == pytest.approx(expected)


def as_dictionaries(
    point: theory.QFixedPoint, paths: list[Trajectory], timed: bool
) -> tuple[q_tables.Table, q_tables.Table]:
    """The tables of a fixed point as the oracle has them."""
    Q_h, Q_p = {}, {}
    for path in paths:
        nodes = [point.node_of(h) for h in path.histories[: len(path.actions)]]
        for t, (node, pair) in enumerate(zip(nodes, pairs_at(point, nodes, path.states), strict=True)):
            Q_h[path.histories[t]] = point.Q_h[node]
            if point.Q_privileged is not None:
                time = t * point.graph.pomdp.states if timed else 0
                row = time + path.states[t] if "state" in point.method else pair
                Q_p[q_tables.privileged_row(point.method, timed, path, t)] = point.Q_privileged[row]
    return Q_h, Q_p


def pairs_at(point: theory.QFixedPoint, nodes: list[int], states: list[int]) -> list[int]:
    """The pair of each node and state."""
    pairs = [(node, point.graph.pairs_of(node), s) for node, s in zip(nodes, states, strict=False)]
    return [int(each[point.graph.state[each] == s].item()) for _, each, s in pairs]


@given(problems, st.sampled_from(q_tables.METHODS), st.booleans(), st.booleans())
@settings(max_examples=15)
def test_regression_on_a_list_of_trajectories_changes_nothing(
    made: tuple[int, bool], method: str, by_episode: bool, timed: bool
) -> None:
    """The oracle's tables after one more target copy; in a cycle, after one more round."""
    seed, shows_first = made
    pomdp, act = random_pomdp(seed, S=2, shows_first=shows_first), random_policy(seed, 2)
    timed &= "state" in method
    weighting = "episodes" if by_episode else "steps"
    point = theory.q_fixed_point(pomdp, method, behaviour=act, horizon=HORIZON, weighting=weighting, timed=timed)
    assert point.period > 0
    assert point.period == 1 or (method == "adqn-state" and not timed)
    paths = list(trajectories(pomdp, act, HORIZON))
    tables = as_dictionaries(point, paths, timed)
    after = tables
    for _ in range(point.period):
        after = q_tables.next_tables(paths, method, pomdp.discount, 2, *after, by_episode, timed)
    for before, later in zip(tables, after, strict=True):
        for row in before:
            np.testing.assert_allclose(later[row], before[row], atol=1e-9 if point.period == 1 else 1e-7)


@given(problems, st.sampled_from(HISTORY_METHODS), st.sampled_from([None, 0.2]))
@settings(max_examples=25)
def test_methods_that_read_the_history_learn_the_optimal_values(
    made: tuple[int, bool], method: str, epsilon: float | None
) -> None:
    seed, shows_first = made
    pomdp, act = random_pomdp(seed, shows_first=shows_first), random_policy(seed, 2)
    point = theory.q_fixed_point(pomdp, method, behaviour=act, epsilon=epsilon, horizon=HORIZON)
    assert point.is_optimal
    firsts = {(): pomdp.start}
    if pomdp.first_observation is not None:
        firsts = {((None, o),): pomdp.start * pomdp.first_observation[:, o] for o in range(pomdp.observations)}
    total = 0.0
    for h, weights in firsts.items():
        best, values = q_tables.optimal_value(pomdp, h, weights, HORIZON)
        np.testing.assert_allclose(point.Q_h[point.node_of(h)], np.array(values) / weights.sum(), atol=1e-9)
        total += best
    assert point.greedy_return == pytest.approx(total, abs=1e-9)
    assert solve(pomdp, HORIZON).value == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("method", q_tables.METHODS)
def test_the_losses_of_the_learner_have_no_gradient_there(method: str) -> None:
    """A whole replay through the learners' own targets and loss: its mean error is zero in every cell."""
    pomdp, act = random_pomdp(5, S=2, discount=0.7), random_policy(5, 2)
    point = theory.q_fixed_point(pomdp, method, behaviour=act, horizon=HORIZON, weighting="episodes")
    assert point.period == 1
    paths = list(trajectories(pomdp, act, HORIZON))
    rows = {name: np.zeros((HORIZON, len(paths)), int) for name in ("history", "privileged", "action")}
    rewards, lengths = np.zeros((HORIZON, len(paths))), np.array([len(path.actions) for path in paths])
    for i, (path, T) in enumerate(zip(paths, lengths, strict=True)):
        nodes = [point.node_of(h) for h in path.histories[:T]]
        rows["history"][:T, i], rows["action"][:T, i], rewards[:T, i] = nodes, path.actions, path.rewards
        rows["privileged"][:T, i] = path.states[:T] if "state" in method else pairs_at(point, nodes, path.states)
    time = np.arange(HORIZON)[:, None]
    weight = (time < lengths) * np.array([path.probability for path in paths]) / lengths
    tables = {"history": point.Q_h, "privileged": point.Q_privileged}
    values = {name: table[rows[name]] for name, table in tables.items() if table is not None}
    of_privileged = jnp.asarray(values["privileged"]) if "privileged" in values else None
    towards = estimates(
        variant_of(method),
        jnp.asarray(rewards),
        jnp.asarray(values["history"]),
        of_privileged,
        jnp.asarray(time < lengths - 1),
        pomdp.discount,
    )
    for name, Q in values.items():
        target = np.asarray(getattr(towards, name))
        taken = np.eye(2)[rows["action"]] if target.ndim == 2 else 1.0
        error = (Q - target.reshape(HORIZON, len(paths), -1)) * taken * weight[..., None]
        total = np.zeros_like(tables[name])
        np.add.at(total, rows[name], error)
        assert np.abs(total).max() < 1e-7  # the learner computes in float32
        assert np.abs(error).max() > 1e-4


def test_state_values_fail_where_memory_matters() -> None:
    """Heaven-Hell-1: at the fork Q(s, a) cannot tell who has heard the priest, so that nobody asks him."""
    pomdp = problem("heaven-hell-1")
    for method in ("adqn-state", "adqn-state-vr"):
        point = theory.q_fixed_point(pomdp, method, horizon=10)
        assert not point.is_optimal
        assert not point.greedy_is_optimal
        assert point.greedy_returns == (0.0, 0.0)
        assert point.optimal_return == pytest.approx(0.99**6)
    assert theory.q_fixed_point(pomdp, "adqn-vr", horizon=10).greedy_return == pytest.approx(0.99**6)
    assert state_aliasing(point).spread_at_a_time > 0.9


def test_state_values_of_good_bad_lack_the_time_alone() -> None:
    """The optimal policy of good/bad is reactive: without a time limit Q(s, a) would be defined."""
    point = theory.q_fixed_point("good-bad", "adqn-state", horizon=10)
    aliasing = state_aliasing(point)
    assert aliasing.spread > 1
    assert aliasing.spread_at_a_time < 1e-12
    assert not point.is_optimal
    for method in ("adqn-state", "adqn-state-vr"):
        assert theory.q_fixed_point("good-bad", method, horizon=10, timed=True).is_optimal


def test_replays_of_different_policies_teach_different_state_values() -> None:
    pomdp = problem("tiger:episodic=true")
    cautious = theory.EpsilonSoft(theory.uniform(pomdp), 1.0), lambda h: [0.9, 0.05, 0.05]
    for method, differ in (("adqn-state-vr", True), ("adqn-vr", False)):
        one, other = (theory.q_fixed_point(pomdp, method, behaviour=each, horizon=6) for each in cautious)
        nodes = [(one.node_of(h), other.node_of(h)) for h in ((), ((0, 0),), ((0, 0), (0, 1)))]
        difference = max(np.abs(one.Q_h[i] - other.Q_h[j]).max() for i, j in nodes)
        assert (difference > 0.1) == differ
        assert differ or difference < 1e-12


def test_state_values_may_go_round_in_circles() -> None:
    point = theory.q_fixed_point("tiger", "adqn-state", horizon=6)
    assert point.period == 2
    low, high = point.greedy_returns
    assert low < high < point.optimal_return
    assert not point.is_optimal
    first, second = point.last
    assert np.abs(first - second).max() > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "ddqn"}, "unknown method 'ddqn'; choose one of dqn, adqn, adqn-vr"),
        ({"weighting": "runs"}, "weighting='runs': choose 'steps' or 'episodes'"),
        ({"epsilon": 0.0}, "epsilon is 0.0, expected a probability above 0"),
        ({"horizon": math.inf}, "needs a time limit; give a horizon, such as 20"),
        ({"horizon": 1.5}, "horizon is 1.5, expected a whole number"),
        ({"behaviour": lambda h: [1, 0, 0]}, "never has action 'open-left' after the start"),
        ({"horizon": 12, "limit": 30}, "--horizon"),
        ({"horizon": 12, "epsilon": 1e-60}, "are too rare to compute with; choose a shorter horizon"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theory.q_fixed_point("tiger", **{"horizon": 4, **arguments})


def test_histories_that_are_not_there() -> None:
    point = theory.q_fixed_point("tiger", "dqn", horizon=2)
    with pytest.raises(ValueError, match="is impossible, or has 2 actions or more"):
        point.Q(((0, 0), (0, 0)), 0)


def test_world_by_name_object_or_tables() -> None:
    world = make("tiger")
    assert isinstance(world, FiniteWorld)
    one = [theory.q_fixed_point(each, "dqn", horizon=3).optimal_return for each in ("tiger", world, world.pomdp())]
    assert one[0] == one[1] == one[2]
    assert theory.q_fixed_point(world, "dqn", horizon=3, discount=0.0).optimal_return == -1
