"""Actions with choices and numbers: probabilities, entropies and samples against SciPy, part by part."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from asymrl.nn.distributions import JointActions, distribution_over, listing_problem
from asymrl.nn.features import action_features
from asymrl.worlds.spaces import Box, Discrete, Indices, MultiDiscrete, Record, entry_names, in_order, value_text

SPACE = Record(
    (
        ("wheel", Box((1, 2), (-2.0, 0.0), (2.0, 10.0))),
        ("gear", Discrete(3)),
        ("arm", Record((("dials", MultiDiscrete((2, 4))), ("force", Box((), -np.inf, np.inf))))),
    )
)
SIZES, NUMBERS = (3, 2, 4), 3
CHOICES = Record((("a", Discrete(3)), ("b", MultiDiscrete((2, 2)))))


@pytest.fixture
def parameters() -> np.ndarray:
    """Logits of 3 + 2 + 4, means and logarithmic spreads of 3 numbers, for 5 histories."""
    return np.random.default_rng(0).normal(size=(5, sum(SIZES) + 2 * NUMBERS)) * 1.5


def parts_of(parameters: np.ndarray) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    logits, mean, log_spread = np.split(parameters, [9, 12], axis=1)
    return [scipy.special.softmax(part, axis=1) for part in np.split(logits, [3, 5], axis=1)], mean, np.exp(log_spread)


def test_entries_are_named_choices_first():
    assert entry_names(SPACE) == ("gear", "arm.dials.0", "arm.dials.1", "wheel.0", "wheel.1", "arm.force")
    assert distribution_over(SPACE) == JointActions(SPACE)
    assert (JointActions(SPACE).outputs, JointActions(SPACE).spreads) == (12, 3)


def test_probabilities_and_entropies_are_those_of_all_parts_together(parameters: np.ndarray):
    shares, mean, spread = parts_of(parameters)
    policy, given = JointActions(SPACE), jnp.asarray(parameters, jnp.float32)
    entropy = sum(scipy.stats.entropy(part, axis=1) for part in shares) + scipy.stats.norm.entropy(mean, spread).sum(1)
    np.testing.assert_allclose(policy.negentropy(given), -entropy, rtol=1e-5)
    numbers = mean + spread * np.random.default_rng(1).normal(size=(5, 3))
    total = np.zeros(5)
    density = scipy.stats.norm.logpdf(numbers, mean, spread).sum(1)
    for choice in np.ndindex(*SIZES):
        action = np.concatenate([np.broadcast_to(choice, (5, 3)), numbers], axis=1)
        chosen = np.asarray(policy.log_probability(given, jnp.asarray(action, jnp.float32)))
        alone = sum(np.log(part[:, index]) for part, index in zip(shares, choice, strict=True))
        np.testing.assert_allclose(chosen, alone + density, rtol=1e-4, atol=1e-5)
        total += np.exp(chosen - density)
    np.testing.assert_allclose(total, 1.0, rtol=1e-4)
    np.testing.assert_allclose(policy.shown(given), np.concatenate([*shares, mean, spread], axis=1), rtol=1e-5)


def test_samples_have_the_frequencies_means_and_spreads_of_the_parts(parameters: np.ndarray):
    shares, mean, spread = parts_of(parameters[:1])
    policy, count = JointActions(SPACE), 20_000
    given = jnp.broadcast_to(jnp.asarray(parameters[:1], jnp.float32), (count, parameters.shape[1]))
    actions = np.asarray(policy.choose(given, policy.chance(jax.random.key(0), (count,))))
    assert actions.dtype == np.float32
    for i, part in enumerate(shares):
        counted = np.bincount(actions[:, i].astype(int), minlength=part.shape[1]) / count
        np.testing.assert_allclose(counted, part[0], atol=0.015)
    np.testing.assert_allclose(actions[:, 3:].mean(0), mean[0], atol=0.05 * spread.max())
    np.testing.assert_allclose(actions[:, 3:].std(0), spread[0], rtol=0.03)
    independent = np.corrcoef(actions.T) - np.eye(6)
    assert np.abs(independent).max() < 0.04
    mode = np.concatenate([[part[0].argmax() for part in shares], mean[0]])
    np.testing.assert_allclose(policy.mode(given)[0], mode, rtol=1e-6)
    np.testing.assert_allclose(policy.draw(np.asarray(policy.shown(given[0])), None), mode, rtol=1e-6)


def test_the_world_gets_a_record_in_its_units():
    taken = JointActions(SPACE).to_world(jnp.asarray([[2.0, 1.0, 3.0, 0.5, -7.0, -30.0]]))
    np.testing.assert_allclose(taken["wheel"], [[[1.0, 0.0]]])
    np.testing.assert_array_equal(taken["arm"]["dials"], [[1, 3]])
    assert taken["gear"].dtype == taken["arm"]["dials"].dtype == jnp.int32
    np.testing.assert_allclose(taken["arm"]["force"], [-30.0])
    one = jax.tree.map(lambda leaf: np.asarray(leaf[0]), taken)
    assert SPACE.problem(one) is None
    assert value_text(in_order(SPACE, one)) == "wheel 1 0, gear 2, arm (dials 1 3, force -30)"


def test_what_people_see_is_in_units(parameters: np.ndarray):
    shares, mean, spread = parts_of(parameters)
    shown = JointActions(SPACE).in_units(np.concatenate([*shares, mean, spread], axis=1))
    middle, half = np.array([0.0, 5.0, 0.0]), np.array([2.0, 5.0, 1.0])
    placed = np.clip(middle + half * mean, [-2, 0, -np.inf], [2, 10, np.inf])
    np.testing.assert_allclose(shown, np.concatenate([*shares, placed, half * spread], axis=1), rtol=1e-6)


def test_choices_alone_are_indices_and_numbers_alone_a_vector():
    choices = JointActions(CHOICES)
    np.testing.assert_array_equal(choices.none(2), np.full((2, 3), -1))
    assert choices.none(2).dtype == jnp.int32
    np.testing.assert_array_equal(JointActions(SPACE).none(), [-1, -1, -1, 0, 0, 0])
    numbers = JointActions(Record((("x", Box((2,), -1.0, 1.0)),)))
    np.testing.assert_array_equal(numbers.to_world(jnp.asarray([0.5, 3.0]))["x"], [0.5, 1.0])


@pytest.mark.parametrize("kind", ["categorical", "feature-vector"])
def test_no_action_has_no_features(kind: str):
    phi = action_features(jax.random.key(0), SPACE, kind)
    nothing = phi(JointActions(SPACE).none(4))
    np.testing.assert_array_equal(nothing, np.zeros((4, phi.size)))
    action = jnp.asarray([0.0, 1.0, 2.0, 0.1, 0.2, 0.3])
    weight = jax.random.normal(jax.random.key(1), (phi.size, 7))
    np.testing.assert_allclose(phi.project(action, weight), phi(action) @ weight, rtol=1e-5)
    assert not np.allclose(phi(action), phi(action.at[0].set(1.0)))
    np.testing.assert_allclose(phi(action)[-3:], [0.1, 0.2, 0.3])


def test_what_has_no_policy_is_named():
    with pytest.raises(ValueError, match=r"its part 'a\.b' is of the kind Indices"):
        distribution_over(Record((("a", Record((("b", Indices(3, (2,))),))),)))
    assert listing_problem(SPACE) == "its actions have several parts"
