"""What critics are told along episodes, against exact arithmetic, in whole episodes and in streams alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl import theory
from asymrl.learners.signals import CriticSignal, critic_signal, draw_states
from asymrl.nn.distributions import NO_ACTION
from asymrl.worlds import World, make
from asymrl.worlds.builtin.heaven_hell import HeavenHell
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.spaces import Discrete, Record, Simplex
from tests.learners.small import tiny

T, E = 12, 16
KEY = jax.random.key(3)


class Stream(NamedTuple):
    """Steps of episodes that follow one another, `[time, episode, ...]`, as `follow` takes them."""

    first: Any
    before: Any
    observations: Any
    states: Any
    times: Any

    def steps(self, low: int, high: int) -> Stream:
        return Stream(*(leaf[low:high] for leaf in self))


def stream(env: World, seed: int = 0) -> Stream:
    """T steps of E streams of uniformly random actions; a new episode begins where one has ended."""

    def begin(key: Any) -> tuple[Any, Any]:
        episode, seen = env.begin(key)
        return episode, (jnp.bool_(True), jnp.int32(NO_ACTION), seen, episode.state, episode.t)

    def step(episode: Any, key: Any) -> tuple[Any, Any]:
        action_key, key = jax.random.split(key)
        action = jax.random.randint(action_key, (), 0, len(env.action_names))
        episode, seen, _, transition = env.advance_or_begin(key, episode, action)
        before = jnp.where(transition.done, NO_ACTION, action)
        return episode, (transition.done, before, seen, episode.state, episode.t)

    def one(key: Any) -> Any:
        episode, first = begin(key)
        _, rest = jax.lax.scan(step, episode, jax.random.split(key, T - 1))
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rest)

    columns = jax.jit(jax.vmap(one, out_axes=1))(jax.random.split(jax.random.key(seed), E))
    return Stream(*(np.asarray(column) for column in columns))


def told(signal: CriticSignal, given: Stream, key: Any = KEY) -> Any:
    return jax.jit(lambda *given: signal.follow(key, signal.initial(E), *given)[1])(*given)


def exact_beliefs(env: FiniteWorld, given: Stream) -> np.ndarray:
    """b(h) at each step, one history at a time."""
    pomdp, beliefs = env.pomdp(), np.zeros((T, E, len(env.state_names)))
    for e in range(E):
        h: tuple = ()
        for t in range(T):
            a, o = int(given.before[t, e]), int(given.observations[t, e])
            new = () if pomdp.first_observation is None else ((None, o),)
            h = new if given.first[t, e] else (*h, (a, o))
            beliefs[t, e] = theory.belief_of(pomdp, h)
    return beliefs


@pytest.fixture(scope="module", params=["tiger:episodic=true", "good-bad", "heaven-hell-1"])
def played(request: pytest.FixtureRequest) -> tuple[FiniteWorld, Stream]:
    """Streams in worlds that hide something: with and without first observations, with and without ends."""
    env = make(request.param, time_limit=5)
    assert isinstance(env, FiniteWorld)
    given = stream(env)
    assert given.first[1:].any()  # so that beliefs have to begin anew
    return env, given


def sees(env: World, name: str) -> CriticSignal:
    return critic_signal(env, tiny(world=env.name, critic_sees=name, time_limit=5))


def test_the_state_and_its_parts_are_told_as_they_are():
    env = make("heaven-hell-1", time_limit=5)
    given = stream(env)
    np.testing.assert_array_equal(told(sees(env, "state"), given), given.states)
    np.testing.assert_array_equal(told(sees(env, "heaven-side"), given), given.states // 6)
    assert sees(env, "heaven-side").space == Discrete(2)


def test_beliefs_are_exact_along_streams(played: tuple[FiniteWorld, Stream]):
    env, given = played
    beliefs = told(sees(env, "belief"), given)
    np.testing.assert_allclose(beliefs, exact_beliefs(env, given), atol=1e-6)
    assert isinstance(sees(env, "belief").space, Simplex)
    assert sees(env, "belief").space.problem(np.asarray(beliefs)[3, 2]) is None


def test_a_belief_goes_on_where_the_call_before_ended(played: tuple[FiniteWorld, Stream]):
    """A learner may ask for a few steps at a time."""
    env, given = played
    signal = sees(env, "belief")
    carry, early = signal.follow(KEY, signal.initial(E), *given.steps(0, 5))
    _, late = signal.follow(KEY, carry, *given.steps(5, T))
    np.testing.assert_allclose(np.concatenate([early, late]), told(signal, given), atol=1e-7)


def test_sampled_states_are_drawn_from_the_belief(played: tuple[FiniteWorld, Stream]):
    """Over many keys, each state of each step is drawn as often as the belief says."""
    env, given = played
    signal, beliefs, count = sees(env, "sampled-state"), exact_beliefs(env, given), 2000
    draw = jax.vmap(lambda key: signal.follow(key, signal.initial(E), *given)[1])
    states = np.asarray(jax.jit(draw)(jax.random.split(KEY, count)))
    frequency = (states[..., None] == np.arange(beliefs.shape[-1])).mean(0)
    assert (frequency[beliefs == 0] == 0).all()
    error = np.sqrt(beliefs * (1 - beliefs) / count)
    assert (np.abs(frequency - beliefs) <= 5 * error + 1e-9).all()
    # Steps are drawn independently of one another.
    both = (states[:, 0] == states[:, 1]).mean(0)
    same = (beliefs[0] * beliefs[1]).sum(-1)
    assert (np.abs(both - same) <= 5 * np.sqrt(same * (1 - same) / count) + 1e-9).all()


def test_what_is_drawn_does_not_depend_on_how_many_steps_follow(played: tuple[FiniteWorld, Stream]):
    env, given = played
    signal = sees(env, "sampled-state")
    some = signal.follow(KEY, signal.initial(E), *given.steps(0, 4))[1]
    np.testing.assert_array_equal(some, told(signal, given)[:4])


def test_a_sum_tells_its_parts_side_by_side(played: tuple[FiniteWorld, Stream]):
    env, given = played
    signal = sees(env, "state+belief+time")
    together = told(signal, given)
    assert isinstance(signal.space, Record)
    assert [name for name, _ in signal.space.items()] == ["state", "belief", "time"]
    assert set(together) == {"state", "belief", "time"}
    for name, value in together.items():
        np.testing.assert_array_equal(value, told(sees(env, name), given))
    np.testing.assert_array_equal(together["time"], given.times)
    assert signal.space["time"] == Discrete(6)


def test_impossible_observations_leave_numbers():
    """Whole episodes are padded: after the end anything may follow."""
    env = HeavenHell(1, time_limit=5)
    rng = np.random.default_rng(0)
    first, times = np.zeros((T, E), bool), np.zeros((T, E), np.int32)
    before, seen = (rng.integers(0, n, (T, E)).astype(np.int32) for n in (4, env.observation_space.n))
    first[0] = True
    noise = Stream(first, before, seen, seen, times)
    beliefs = np.asarray(told(sees(env, "belief"), noise))
    assert np.isfinite(beliefs).all()
    np.testing.assert_array_equal(beliefs[-1], 0.0)
    states = np.asarray(told(sees(env, "sampled-state"), noise))
    assert ((states >= 0) & (states < 12)).all()


def test_no_state_of_probability_zero_is_drawn():
    beliefs = jnp.asarray([[0.0, 0.3, 0.0, 0.7, 0.0]] * 3)
    u = jnp.asarray([0.0, 0.3, np.nextafter(1, 0, dtype=np.float32)])
    np.testing.assert_array_equal(draw_states(beliefs, u), [1, 3, 3])
    np.testing.assert_array_equal(draw_states(jnp.zeros((1, 3)), u[:1]), [0])


@pytest.mark.parametrize(
    ("world", "name", "message"),
    [
        ("tiger", "moon", "critic_sees 'moon': tiger can tell its critic state, belief, sampled-state, time, or "),
        ("tiger", "state+moon", r"critic_sees 'state\+moon': tiger can tell its critic state, belief"),
        ("tiger", "time+time", r"critic_sees 'time\+time' names time twice"),
        ("tiger", "state+", r"critic_sees 'state\+': tiger can tell its critic state"),
        ("car-flag", "belief", "a belief needs the tables of a finite world, which car-flag has not; car-flag can"),
        ("car-flag", "time+sampled-state", "a sampled-state needs the tables of a finite world"),
    ],
)
def test_what_cannot_be_told_is_named_with_what_can(world: str, name: str, message: str):
    with pytest.raises(ValueError, match=message):
        critic_signal(make(world), tiny(world=world, critic_sees=name))
