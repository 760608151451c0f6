"""The reachable beliefs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from asymrl.theory.solvers.belief_mdp import BeliefModel, Numbering, TooManyBeliefsError, belief_graph
from tests.theory.exact.worlds import problem
from tests.theory.solvers.oracles import random_world, tables


@pytest.mark.parametrize(("name", "beliefs"), [("heaven-hell-3", 41), ("heaven-hell-4", 53), ("shopping-2", 60)])
def test_number_of_reachable_beliefs(name, beliefs):
    graph = belief_graph(problem(name))
    assert graph.complete
    assert len(graph) == beliefs


def test_tiger_has_as_many_beliefs_as_rounding_can_tell_apart():
    # Only the difference d between the two noises heard counts, and the odds are (0.85 / 0.15)^d.
    graph = belief_graph(problem("tiger"))
    assert graph.complete
    odds = (0.85 / 0.15) ** np.arange(-17, 18.0)
    left = np.sort(graph.beliefs.toarray()[:, 0])
    np.testing.assert_allclose(left, odds / (1 + odds), atol=2e-12)


@pytest.mark.parametrize("shows_first", [False, True])
def test_edges_are_bayes_rule(shows_first):
    world = random_world(3, S=4, A=3, O=3, shows_first=shows_first)
    graph = belief_graph(world.pomdp(), depth=3)
    T, O = tables(world)
    beliefs = graph.beliefs.toarray()
    for i, a, o, p, j in zip(
        graph.belief, graph.action, graph.observation, graph.probability, graph.following, strict=True
    ):
        joint = (beliefs[i] @ T[:, a]) * O[a, :, o]
        assert p == pytest.approx(joint.sum(), abs=1e-12)
        np.testing.assert_allclose(beliefs[j], joint / joint.sum(), atol=1e-11)
    survival = np.bincount(graph.belief * 3 + graph.action, graph.probability, minlength=len(graph) * 3).reshape(-1, 3)
    expected = beliefs @ (1 - world.D)
    inner = graph.depth < 3
    np.testing.assert_allclose(survival[inner], expected[inner], atol=1e-12)


def test_first_beliefs_follow_the_first_observation():
    graph = belief_graph(problem("good-bad"))
    np.testing.assert_allclose(graph.first_probability, [0.75, 0.25])
    np.testing.assert_allclose(graph.beliefs[graph.first_belief].toarray(), [[2 / 3, 1 / 3], [0, 1]])


def test_a_failed_purchase_says_that_the_item_is_elsewhere():
    pomdp = problem("shopping-2")
    model = BeliefModel(pomdp)
    after = model.successors(model.first().beliefs)
    bought = after.action == 5
    assert after.probability[bought] == pytest.approx([0.75])
    np.testing.assert_allclose(after.beliefs[np.flatnonzero(bought)].toarray()[0, :4], [0, 1 / 3, 1 / 3, 1 / 3])


def test_what_does_not_fit_says_what_does():
    pomdp = problem("shopping-4")
    with pytest.raises(TooManyBeliefsError, match="shopping-4: more than 1000 beliefs") as error:
        belief_graph(pomdp, limit=1000)
    fits = belief_graph(pomdp, depth=error.value.depth, limit=1000)
    assert len(fits) == error.value.beliefs
    assert not fits.complete
    with pytest.raises(TooManyBeliefsError):
        belief_graph(pomdp, depth=error.value.depth + 1, limit=1000)


def test_beliefs_are_found_by_their_probabilities():
    graph = belief_graph(problem("tiger"))
    third = graph.beliefs.toarray()[3]
    assert graph.find(third + 1e-16) == 3
    with pytest.raises(KeyError, match="cannot be reached"):
        graph.find(np.array([0.3, 0.7]))


def test_numbering_does_not_depend_on_stored_zeros():
    numbering = Numbering()
    plain = sparse.csr_array(np.array([[0.25, 0.75, 0.0]]))
    with_zero = sparse.csr_array((np.array([0.25, 0.75, 0.0]), np.array([0, 1, 2]), np.array([0, 3])), shape=(1, 3))
    numbers, fresh = numbering.add(sparse.csr_array(sparse.vstack([plain, with_zero, plain], "csr")))
    assert numbers.tolist() == [0, 0, 0]
    assert fresh.tolist() == [0]
