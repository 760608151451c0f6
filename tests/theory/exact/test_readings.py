"""What a critic may read, and the values that it learns from it."""

import functools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from asymrl import theory
from asymrl.theory.exact.readings import learn, signal_labels
from asymrl.worlds import Discrete, FiniteWorld, make
from asymrl.worlds.critic_inputs import critic_symbol
from asymrl.worlds.probability_tables import Rows
from asymrl.worlds.world import Signal
from tests.oracles.readings import ListedCritic
from tests.oracles.trajectories import random_policy, random_pomdp
from tests.theory.exact.worlds import heard_the_priest, problem

SEES = ("state", "belief", "sampled-state", "time", "state+time", "belief+time", "state+sampled-state")
GOOD, BAD = 0, 1
LABEL = np.array([0, 0, 1])


class Labelled(FiniteWorld):
    """Three states, of which a critic may be told whether it is the last one."""

    def signals(self) -> dict[str, Signal]:
        return super().signals() | {"label": Signal(lambda s: jnp.asarray(LABEL)[s], Discrete(2), "the last state")}

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        super().__init__(
            name="labelled",
            transitions=Rows.from_dense(rng.dirichlet(np.ones(3), (3, 2))),
            observations=Rows.from_dense(rng.dirichlet(np.ones(2), (2, 3))),
            rewards=rng.normal(size=(3, 2)),
            ends=np.zeros((3, 2), bool),
            start=np.full(3, 1 / 3),
            state_names=["one", "two", "three"],
            action_names=["left", "right"],
            observation_names=["low", "high"],
            discount=0.9,
        )


def finite(name: str) -> FiniteWorld:
    world = make(name)
    assert isinstance(world, FiniteWorld)
    return world


@pytest.fixture(scope="module")
def tree() -> theory.Analysis:
    return theory.analyse("heaven-hell-1", random_policy(0, 4), horizon=6)


def test_symbols_of_critics() -> None:
    assert critic_symbol("", True) == "V(h)"
    assert critic_symbol("state", True) == "V(h, s)"
    assert critic_symbol("sampled-state", False) == "V(s~b)"
    assert critic_symbol("state+time", False) == "V(s, t)"
    assert critic_symbol("heaven-side+time", True) == "V(h, heaven-side, t)"


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from(SEES), st.booleans())
@settings(max_examples=12)
def test_fixed_points_against_a_list_of_all_trajectories(seed: int, first: bool, sees: str, history: bool) -> None:
    pomdp = random_pomdp(seed, S=2, shows_first=first)
    act = random_policy(seed, pomdp.actions)
    analysis = theory.analyse(pomdp, act, horizon=3, merge="history")
    V, graph = analysis.critic(sees, history=history).V, analysis.graph
    expected = ListedCritic(pomdp, act, 3, sees, history)
    at = {(graph.history(int(z)), int(s)): V[p] for p, (z, s) in enumerate(zip(graph.node, graph.state, strict=True))}
    for path in expected.paths:
        for t in range(len(path.actions)):
            assert at[path.histories[t], path.states[t]] == pytest.approx(expected.mean_at(path, t), abs=1e-10)


@pytest.mark.parametrize("merge", ["history", "belief"])
def test_beliefs_recur_and_are_then_read_as_one(merge: str) -> None:
    """In Tiger, hearing left and right leaves the belief of the start, and opening a door does, too."""
    pomdp, act = problem("tiger"), random_policy(3, 3)
    by_history = theory.analyse(pomdp, act, horizon=3, merge="history")
    analysis = theory.analyse(pomdp, act, horizon=3, merge=merge)
    expected = ListedCritic(pomdp, act, 3, "belief", False)
    critic = analysis.critic("belief")
    assert len(critic.table) == len(expected.table) < by_history.graph.nodes
    assert sorted(critic.table) == pytest.approx(sorted(expected.table.values()), abs=1e-10)


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=20)
def test_what_the_history_tells_anyway_changes_nothing(seed: int, first: bool) -> None:
    """V(h, b) = V(h, t) = V(h, s~b) = V(h).

    Given h, a state drawn from b(h) says nothing about the reward or about h', however bootstraps are drawn.
    """
    pomdp = random_pomdp(seed, shows_first=first)
    analysis = theory.analyse(pomdp, random_policy(seed, pomdp.actions), horizon=3)
    for sees in ("", "belief", "time", "sampled-state", "belief+sampled-state"):
        critic = analysis.critic(sees, history=True)
        np.testing.assert_allclose(critic.V, analysis.critics("h"), atol=1e-12)
        np.testing.assert_allclose(critic.noise, 0, atol=1e-12)


@given(st.integers(0, 10**6), st.sampled_from(("state", "label", "label+time", "label+sampled-state")))
@settings(max_examples=10)
def test_with_the_history_every_critic_is_unbiased(seed: int, sees: str) -> None:
    world = Labelled(seed)
    analysis = theory.analyse(world, random_policy(seed, 2), horizon=3)
    critic = analysis.critic(sees, history=True)
    assert np.nanmax(np.abs(analysis.value_bias(critic))) < 1e-12
    assert analysis.gradient(critic).error(analysis.gradient()) < 1e-12


def test_td0_and_monte_carlo_targets_teach_different_values_of_a_part_of_the_state() -> None:
    """A label can tell more about the future than the next label and history do; TD(0) forgets it, returns do not."""
    world = Labelled(0)
    act = random_policy(0, 2)
    analysis = theory.analyse(world, act, horizon=3, merge="history")
    td0, mc = (analysis.critic("label", history=True, targets=targets) for targets in ("td0", "mc"))
    assert np.abs(td0.V - mc.V).max() > 0.01
    graph, V = analysis.graph, analysis.values.V_hs
    for node in range(0, graph.nodes, 7):
        pairs = graph.pairs_of(node)
        one = pairs[LABEL[graph.state[pairs]] == 0]
        assert mc.V[one] == pytest.approx(np.average(V[one], weights=graph.belief[one]))
        assert analysis.V_signal(graph.history(node), LABEL, 0) == pytest.approx(mc.V[one[0]])
    expected = ListedCritic(world.pomdp(), act, 3, "label", True, LABEL)
    assert sorted(td0.table) == pytest.approx(sorted(expected.table.values()), abs=1e-10)
    with pytest.raises(ValueError, match="choose 'td0' or 'mc'"):
        analysis.critic("label", targets="td1")


def test_the_critics_of_states_that_have_names(tree: theory.Analysis) -> None:
    for sees, targets, name in (
        ("state", "td0", "td0"),
        ("state", "mc", "mc"),
        ("state+time", "td0", "timed-td"),
        ("state+time", "mc", "timed-mc"),
    ):
        np.testing.assert_allclose(tree.critic(sees, targets=targets).V, tree.critics(name), atol=1e-12)
    np.testing.assert_allclose(tree.critic("state", history=True).V, tree.values.V_hs, atol=1e-14)


def test_between_nothing_and_everything(tree: theory.Analysis) -> None:
    """In Heaven-Hell the cell is known anyway, so that the side is all that is hidden."""
    np.testing.assert_allclose(tree.critic("heaven-side", history=True).V, tree.values.V_hs, atol=1e-14)
    np.testing.assert_allclose(tree.critic("position", history=True).V, tree.critics("h"), atol=1e-14)
    np.testing.assert_allclose(tree.critic("position+heaven-side").V, tree.critics("td0"), atol=1e-12)
    h, side = ((1, 4),), signal_labels(finite("heaven-hell-1"), "heaven-side")
    state = int(np.flatnonzero(tree.belief(h))[0])
    assert tree.V_signal(h, side, int(side[state])) == pytest.approx(tree.V(h, state))
    with pytest.raises(ValueError, match="the signal 7 is impossible after S"):
        tree.V_signal(h, side, 7)


def test_belief_critic_is_right_for_a_policy_of_the_belief() -> None:
    """With the time if there is a limit, without it if there is none; not for a policy that knows more."""
    pomdp = problem("tiger")

    def by_belief(belief: np.ndarray, time: np.ndarray) -> np.ndarray:
        odds = np.exp(np.stack([np.ones(len(belief)), 3 * belief[:, 0], 3 * belief[:, 1]], 1))
        return odds / odds.sum(1, keepdims=True)

    policy = theory.BeliefPolicy(pomdp, by_belief)
    limited = theory.analyse(pomdp, policy, horizon=8)
    assert np.nanmax(np.abs(limited.value_bias(limited.critic("belief+time")))) < 1e-10
    assert np.nanmax(np.abs(limited.value_bias(limited.critic("belief")))) > 1
    good_bad = theory.analyse("good-bad", np.array([[0.9, 0.1], [0.9, 0.1]]), horizon=math.inf)
    assert np.nanmax(np.abs(good_bad.value_bias(good_bad.critic("belief")))) < 1e-9


@pytest.mark.parametrize("g", [0.5, 0.9])
def test_belief_critic_cannot_tell_what_a_reactive_policy_saw_last(g: float) -> None:
    """Good/bad, copying what is seen: BG and BB have the same belief, and values that differ by 1.

    A certain "bad" begins with the observation B, and half of the later ones are G, which pays 1 at once. So a
    discounted share g / 2 of its visits pays, V(b) = (g / 2) / (1 - g), which is right after B and too small by 1 after
    G.
    """
    analysis = theory.analyse("good-bad", np.eye(2), horizon=math.inf, discount=g)
    critic = analysis.critic("belief")
    bias = analysis.value_bias(critic)
    bg, bb = (analysis.find(((None, BAD), (BAD, o))) for o in (GOOD, BAD))
    assert bg is not None
    assert bb is not None
    assert critic.V[analysis.graph.pairs_of(bb)] == pytest.approx([g / 2 / (1 - g)], rel=1e-12)
    assert bias[bg] == pytest.approx(-1, abs=1e-12)
    assert bias[bb] == pytest.approx(0, abs=1e-12)


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=15)
def test_state_and_time_are_enough_for_a_policy_without_memory(seed: int, first: bool) -> None:
    """A policy that ignores what it sees; for others V(s, t) is right on average at each time, but not after each h."""
    pomdp = random_pomdp(seed, shows_first=first)
    blind = theory.analyse(pomdp, "uniform", horizon=3, merge="history")
    assert np.nanmax(np.abs(blind.value_bias(blind.critic("state+time")))) < 1e-12
    seeing = theory.analyse(pomdp, random_policy(seed, pomdp.actions), horizon=3)
    bias, graph = seeing.value_bias(seeing.critic("state+time")), seeing.graph
    np.testing.assert_allclose(np.bincount(graph.time, graph.probability_of_node * bias), 0, atol=1e-12)


def test_drawn_states_without_history_in_good_bad() -> None:
    """Two actions that copy what is seen. The good state shows G, the bad one G or B; an action "good" pays 1.

    At t = 1, Pr(h) is 5/8 for GG and 1/8 for each of GB, BG, BB; b(GG) = (4/5, 1/5), the others are certainly bad.
    A good draw comes from GG only, which pays 1. A bad one is as likely from GG, which pays, as from each of the
    others, of which BG pays: 1/2.
    At t = 0, after G: 1, then GG with probability 5/6, where 4/5 * 1 + 1/5 * 1/2 is drawn on average, or GB, 1/2. A
    good draw comes from G only; a bad one is as likely from G as from B, where 1/2 is all that follows.
    """
    analysis = theory.analyse("good-bad", np.eye(2), horizon=2, discount=1.0)
    after_good = 1 + 5 / 6 * 0.9 + 1 / 6 * 0.5
    expected = {(0, GOOD): after_good, (0, BAD): (after_good + 0.5) / 2, (1, GOOD): 1.0, (1, BAD): 0.5}
    critic = analysis.critic("sampled-state+time")
    assert critic.table == pytest.approx(list(expected.values()))
    h = analysis.find(((None, GOOD),))
    assert h is not None
    at = critic.V[analysis.graph.pairs_of(h)]
    assert at == pytest.approx([2 / 3 * expected[0, GOOD] + 1 / 3 * expected[0, BAD]] * 2)
    spread = 2 / 9 * (expected[0, GOOD] - expected[0, BAD]) ** 2
    assert critic.noise[analysis.graph.pairs_of(h)] == pytest.approx([spread] * 2)


def test_bootstrapping_at_the_horizon_uses_the_critic_itself() -> None:
    """Fact 11 for every critic that knows enough: the time limit leaves no trace if the critic stands in beyond it."""
    pomdp = problem("heaven-hell-1")
    table = np.random.default_rng(3).dirichlet(np.ones(4), pomdp.observations + 1)
    table[-1] = table[0]
    limited = theory.analyse(pomdp, table, horizon=7, truncation="bootstrap")
    endless = theory.analyse(pomdp, table, horizon=math.inf)
    found = endless.state_value().V
    assert found is not None
    V = limited.critic("state").V[limited.graph.acting]
    np.testing.assert_allclose(V, found[limited.graph.state[limited.graph.acting]], atol=1e-13)
    for sees in ("belief", "state"):
        critic = endless.critic(sees, history=True)
        np.testing.assert_allclose(endless.value_bias(critic), 0, atol=1e-12)


def test_bad_readings_are_refused(tree: theory.Analysis) -> None:
    with pytest.raises(
        ValueError, match=r"critic_sees 'colour': heaven-hell-1 can tell its critic state, heaven-side, .*belief, samp"
    ):
        tree.critic("colour")
    with pytest.raises(ValueError, match=r"critic_sees 'state\+'"):
        tree.critic("state+")
    with pytest.raises(ValueError, match="names time twice"):
        tree.critic("time+time")
    endless = theory.analyse("tiger", "uniform", horizon=math.inf)
    with pytest.raises(ValueError, match="reads the time needs a horizon"):
        endless.critic("state+time")
    by_memory = theory.analyse("heaven-hell-1", "uniform", horizon=5, merge="memory")
    for sees, history in (("belief", False), ("sampled-state", False), ("state", True)):
        with pytest.raises(ValueError, match="needs a graph of beliefs"):
            by_memory.critic(sees, history=history)
    np.testing.assert_allclose(by_memory.critic("state").V, by_memory.critics("td0"), atol=1e-12)


def test_what_is_never_learned_holds_its_true_mean() -> None:
    """At open nodes the agent does not act, and what is only read there has no targets."""
    analysis = theory.analyse("tiger", lambda h: [0.8, 0.1, 0.1], horizon=6, mass=0.7)
    graph, critic = analysis.graph, analysis.critic("", history=True)
    assert graph.open.any()
    opened = graph.open[graph.node]
    np.testing.assert_allclose(
        critic.V[opened], graph.per_node(graph.belief * analysis.values.V_hs)[graph.node][opened]
    )
    np.testing.assert_allclose(critic.V, analysis.critics("h"), atol=1e-10)
    np.testing.assert_allclose(learn(analysis.values, critic.reading, "mc").V, critic.V, atol=1e-10)


@functools.cache
def expert() -> theory.Analysis:
    return theory.analyse("heaven-hell-3", heard_the_priest(3))


def test_what_heaven_side_is_worth() -> None:
    """In Heaven-Hell-3 the agent knows its cell: the side explains all that V(h, s) adds, the cell nothing."""
    side, cell = (theory.examine_reading(expert(), name, history=True) for name in ("heaven-side", "position"))
    assert side.explained == pytest.approx(1)
    assert side.gradient_variance == pytest.approx(expert().variance("hs"))
    assert cell.explained == pytest.approx(0, abs=1e-12)
    assert cell.gradient_variance == pytest.approx(expert().variance("h"))
    assert theory.examine_reading(expert(), "state").gradient_cosine == pytest.approx(-0.617, abs=6e-4)
    # By symmetry both sides have the same value: without the history there is no gradient, hence no angle.
    alone = theory.examine_reading(expert(), "heaven-side")
    assert math.isnan(alone.gradient_cosine)
    assert alone.gradient_error == pytest.approx(1)


def test_fixed_point_is_the_mean_of_its_targets() -> None:
    graph, side = expert().graph, signal_labels(finite("heaven-hell-3"), "heaven-side")
    V = expert().critic("heaven-side").V
    targets = graph.reward + graph.pomdp.discount * (graph.P @ V)
    for i in (0, 1):
        here = side[graph.state] == i
        assert V[here] == pytest.approx(np.average(targets[here], weights=graph.mass[here]))
