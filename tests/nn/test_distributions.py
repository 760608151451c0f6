"""Distributions of actions: sampling, densities and entropies, against SciPy and by counting."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from asymrl.nn.distributions import (
    NO_ACTION,
    Categorical,
    Gaussian,
    Greedy,
    MultiCategorical,
    distribution_over,
    greedy_over,
    listing_problem,
)
from asymrl.worlds.spaces import Box, Discrete, Indices, MultiDiscrete


def test_sampling_inverts_the_distribution():
    policy = np.array([0.1, 0.0, 0.6, 0.3])
    u = np.linspace(0, 1, 1000, endpoint=False).astype(np.float32)
    logits = jnp.broadcast_to(jnp.log(jnp.asarray(policy)), (1000, 4))
    actions = np.asarray(Categorical(4).choose(logits, jnp.asarray(u)))
    np.testing.assert_allclose(np.bincount(actions, minlength=4) / 1000, policy, atol=2e-3)
    assert (np.diff(actions) >= 0).all()
    largest = jnp.asarray([np.nextafter(np.float32(1), np.float32(0))])
    assert int(Categorical(7).choose(jnp.zeros((1, 7)), largest)[0]) == 6
    assert int(Categorical(2).choose(jnp.asarray([[0.0, -jnp.inf]]), largest)[0]) == 0


def test_a_categorical_policy_is_the_softmax_of_its_logits():
    logits = jnp.asarray([[1.0, 2.0, -1.0], [0.0, 0.0, 0.0]])
    shares = np.asarray(jax.nn.softmax(logits))
    policy = Categorical(3)
    np.testing.assert_allclose(
        policy.log_probability(logits, jnp.asarray([1, 2])), np.log(shares[[0, 1], [1, 2]]), 1e-6
    )
    np.testing.assert_allclose(policy.negentropy(logits), -scipy.stats.entropy(shares, axis=1), rtol=1e-6)
    np.testing.assert_array_equal(policy.mode(logits), [1, 0])
    assert (policy.none(2, 3) == NO_ACTION).all()


def test_several_choices_are_independent():
    """Against NumPy, entry by entry, for entries with different numbers of values."""
    policy, cuts = MultiCategorical((3, 1, 2)), [3, 4]
    logits = np.random.default_rng(0).normal(size=(4, 6)) * 3
    entries = [scipy.special.softmax(part, axis=1) for part in np.split(logits, cuts, axis=1)]
    given = jnp.asarray(logits, jnp.float32)
    assert policy.outputs == 6
    np.testing.assert_allclose(policy.shown(given), np.concatenate(entries, axis=1), rtol=1e-5)
    entropy = sum(scipy.stats.entropy(shares, axis=1) for shares in entries)
    np.testing.assert_allclose(policy.negentropy(given), -entropy, rtol=1e-5)
    np.testing.assert_array_equal(policy.mode(given), np.stack([shares.argmax(1) for shares in entries], 1))
    total = np.zeros(4)
    for action in np.ndindex(3, 1, 2):
        chosen = policy.log_probability(given, jnp.broadcast_to(jnp.asarray(action), (4, 3)))
        alone = [shares[:, index] for shares, index in zip(entries, action, strict=True)]
        np.testing.assert_allclose(chosen, np.log(alone).sum(0), rtol=1e-5)
        total += np.exp(chosen)
    np.testing.assert_allclose(total, 1.0, rtol=1e-5)
    np.testing.assert_array_equal(policy.none(2), np.full((2, 3), NO_ACTION))


def test_several_choices_are_drawn_as_each_alone():
    policy, alone = MultiCategorical((3, 1, 2)), [Categorical(3), Categorical(1), Categorical(2)]
    logits = jax.random.normal(jax.random.key(0), (500, 6))
    chance = policy.chance(jax.random.key(1), (500,))
    assert chance.shape == (500, 3)
    actions = policy.choose(logits, chance)
    parts = jnp.split(logits, [3, 4], axis=-1)
    for i, (one, part) in enumerate(zip(alone, parts, strict=True)):
        np.testing.assert_array_equal(actions[:, i], one.choose(part, chance[:, i]))
    almost_one = jnp.full((1, 3), np.nextafter(np.float32(1), np.float32(0)))
    np.testing.assert_array_equal(policy.choose(jnp.full((1, 6), 0.1), almost_one), [[2, 0, 1]])
    drawn = policy.draw(np.array([0.2, 0.3, 0.5, 1.0, 0.9, 0.1]), None)
    np.testing.assert_array_equal(drawn, [2, 0, 0])


def test_the_gradient_of_several_choices_is_that_of_each():
    """Also where one entry has fewer values than another: what fills it up must not spoil the gradient."""
    policy, logits = MultiCategorical((3, 2)), jnp.asarray([0.3, -0.2, 1.0, 0.5, -0.5])
    found = jax.grad(lambda x: policy.log_probability(x, jnp.asarray([2, 0])) + policy.negentropy(x))(logits)

    def apart(x: jax.Array) -> jax.Array:
        left, right = Categorical(3), Categorical(2)
        chosen = left.log_probability(x[:3], jnp.asarray(2)) + right.log_probability(x[3:], jnp.asarray(0))
        return chosen + left.negentropy(x[:3]) + right.negentropy(x[3:])

    np.testing.assert_allclose(found, jax.grad(apart)(logits), rtol=1e-5, atol=1e-7)


def test_a_gaussian_policy_has_the_density_and_entropy_of_a_normal_distribution():
    policy = Gaussian(Box((2,), -1.0, 1.0))
    mean, log_spread = np.array([0.5, -2.0]), np.array([-1.0, 0.3])
    parameters = jnp.asarray(np.concatenate([mean, log_spread]), jnp.float32)
    action = np.array([0.1, 0.2])
    density = scipy.stats.norm.logpdf(action, mean, np.exp(log_spread)).sum()
    log_chosen = policy.log_probability(parameters, jnp.asarray(action, jnp.float32))
    np.testing.assert_allclose(log_chosen, density, rtol=1e-5)
    entropy = scipy.stats.norm.entropy(mean, np.exp(log_spread)).sum()
    np.testing.assert_allclose(policy.negentropy(parameters), -entropy, rtol=1e-5)
    np.testing.assert_allclose(policy.mode(parameters), mean, rtol=1e-6)


def test_samples_of_a_gaussian_policy_have_its_mean_and_spread():
    policy = Gaussian(Box((2,)))
    parameters = jnp.broadcast_to(jnp.asarray([3.0, -1.0, np.log(0.5), np.log(2.0)]), (20_000, 4))
    actions = np.asarray(policy.choose(parameters, policy.chance(jax.random.key(0), (20_000,))))
    np.testing.assert_allclose(actions.mean(0), [3.0, -1.0], atol=0.05)
    np.testing.assert_allclose(actions.std(0), [0.5, 2.0], rtol=0.03)


def test_the_world_gets_the_point_of_its_box_clipped():
    policy = Gaussian(Box((3,), (-2.0, 0.0, -np.inf), (2.0, 10.0, np.inf)))
    points = policy.to_world(jnp.asarray([[0.5, 0.0, 7.0], [-9.0, 9.0, -9.0], [-1.0, 1.0, 0.0]]))
    np.testing.assert_allclose(points, [[1.0, 5.0, 7.0], [-2.0, 10.0, -9.0], [-2.0, 10.0, 0.0]])


def test_the_action_space_chooses():
    assert distribution_over(Discrete(3)) == Categorical(3)
    assert distribution_over(MultiDiscrete((3, 2))) == MultiCategorical((3, 2))
    assert distribution_over(Box((2,))) == Gaussian(Box((2,)))
    with pytest.raises(ValueError, match="no policy: they are of the kind Indices"):
        distribution_over(Indices(3, (2,)))


def test_a_greedy_policy_takes_the_action_of_the_highest_value():
    policy = greedy_over(Discrete(3))
    values = jnp.asarray([[1.0, 2.0, -1.0], [-3.0, -2.0, -1.0], [5.0, 0.0, 5.0]])
    best = [1, 2, 0]  # of two equal values the first
    chance = policy.chance(jax.random.key(0), (3,))
    for actions in (policy.mode(values), policy.choose(values, chance)):
        np.testing.assert_array_equal(actions, best)
        assert actions.dtype == jnp.int32
    assert [policy.draw(row, np.random.default_rng(0)) for row in np.asarray(values)] == best
    assert [policy.draw(row, None) for row in np.asarray(values)] == best
    np.testing.assert_array_equal(policy.log_probability(values, jnp.asarray([1, 1, 0])), [0.0, -np.inf, 0.0])
    np.testing.assert_array_equal(policy.negentropy(values), np.zeros(3))
    np.testing.assert_array_equal(policy.shown(values), values)
    assert policy == Greedy(3)
    assert policy != Categorical(3)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_exploring_takes_any_action_now_and_then(epsilon: float):
    policy, count = Greedy(4), 20_000
    chance = policy.chance(jax.random.key(1), (count,), epsilon)
    actions = policy.choose(jnp.broadcast_to(jnp.asarray([0.0, 3.0, 1.0, 2.0]), (count, 4)), chance)
    shares = np.bincount(np.asarray(actions), minlength=4) / count
    # The best action is among those that are taken by chance; the largest standard deviation is 0.0031.
    np.testing.assert_allclose(shares, epsilon / 4 + (1 - epsilon) * np.eye(4)[1], atol=0.013)


def test_the_largest_number_stands_for_the_last_action():
    largest = jnp.asarray([np.nextafter(np.float32(1), np.float32(0))])
    assert int(Greedy(7).choose(jnp.zeros((1, 7)), largest)[0]) == 6


def test_action_values_need_a_list_of_actions():
    assert listing_problem(Discrete(2)) is None
    assert listing_problem(Box((2,))) == listing_problem(MultiDiscrete((2, 2))) == "its actions are vectors"
    with pytest.raises(ValueError, match="need a list of actions, but its actions are vectors"):
        greedy_over(Box((2,)))
