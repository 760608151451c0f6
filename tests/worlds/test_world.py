"""Episodes: time limits and fresh starts."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from asymrl.worlds import Discrete, Episode, Step, World, make


class Clock(World):
    """Counts its own steps and ends after a number that the start draws."""

    name: str = eqx.field(static=True, default="clock")
    discount: float = eqx.field(static=True, default=1.0)
    time_limit: int | None = eqx.field(static=True, default=5)

    @property
    def action_names(self) -> tuple[str, ...]:
        return ("wait",)

    @property
    def observation_space(self) -> Discrete:
        return Discrete(1000)

    @property
    def latent_space(self) -> Discrete:
        return Discrete(1000)

    def reset(self, key) -> Any:
        return {"left": 3 + (jax.random.bits(key) % 6).astype(jnp.int32)}

    def step(self, key, state, action) -> Step:
        left = state["left"] - 1
        return Step({"left": left}, left.astype(jnp.float32), left == 0)

    def first_observation(self, key, state) -> Any:
        return 100 + state["left"]

    def observe(self, key, state, action, next_state) -> Any:
        return next_state["left"]

    def latent(self, state) -> Any:
        return state["left"]

    def from_latent(self, latent) -> Any:
        return {"left": latent}


STEPS = 12


@eqx.filter_jit
def run(env: Clock, left):
    """Twelve steps from an episode with this many steps left, without fresh starts."""

    def one(episode, _):
        episode, transition = env.advance(jax.random.key(0), episode, jnp.int32(0))
        return episode, (episode, transition)

    return jax.lax.scan(one, Episode({"left": left}, jnp.int32(0)), length=STEPS)[1]


@given(left=st.integers(1, STEPS), limit=st.sampled_from([None, 1, 5, 7]))
def test_time_limit(left, limit):
    episode, after = jax.device_get(run(Clock(time_limit=limit), jnp.int32(left)))
    t = np.arange(1, STEPS + 1)
    np.testing.assert_array_equal(episode.t, t)
    # The world ends on its own at `left`; only without that the limit truncates, and at the limit the end wins.
    np.testing.assert_array_equal(after.terminated, t == left)
    out_of_time = np.zeros(STEPS, bool) if limit is None else t >= limit
    np.testing.assert_array_equal(after.truncated, out_of_time & (t != left))
    np.testing.assert_array_equal(after.done, after.terminated | after.truncated)
    assert after.truncated.dtype == np.bool_
    np.testing.assert_array_equal(after.observation, left - t)


def test_begin():
    env = Clock()
    episode, seen = jax.jit(jax.vmap(env.begin))(jax.random.split(jax.random.key(0), 50))
    assert (np.asarray(episode.t) == 0).all()
    np.testing.assert_array_equal(seen, 100 + np.asarray(episode.state["left"]))
    assert len(set(np.asarray(episode.state["left"]).tolist())) == 6


def test_fresh_starts():
    env = Clock()
    episodes = 20

    def one(episode, key):
        onward, seen, ended, after = jax.vmap(env.advance_or_begin, (0, 0, None))(
            jax.random.split(key, episodes), episode, jnp.int32(0)
        )
        return onward, (episode, onward, seen, ended, after)

    @jax.jit
    def play(key):
        first, _ = jax.vmap(env.begin)(jax.random.split(key, episodes))
        return jax.lax.scan(one, first, jax.random.split(key, 40))[1]

    before, onward, seen, ended, after = jax.device_get(play(jax.random.key(2)))

    # What happened is told as it was, before any fresh start.
    np.testing.assert_array_equal(ended.t, before.t + 1)
    np.testing.assert_array_equal(ended.state["left"], before.state["left"] - 1)
    np.testing.assert_array_equal(after.observation, ended.state["left"])
    np.testing.assert_array_equal(after.terminated, ended.state["left"] == 0)
    np.testing.assert_array_equal(after.truncated, (ended.t == 5) & (ended.state["left"] != 0))
    assert ended.t.max() == 5
    assert after.terminated.any()
    assert after.truncated.any()
    assert (after.terminated & (ended.t == 5)).any(), "the end and the limit fell together"

    done = after.done
    # Without an end the episode goes on and the agent acts on what it saw.
    np.testing.assert_array_equal(onward.t[~done], ended.t[~done])
    np.testing.assert_array_equal(onward.state["left"][~done], ended.state["left"][~done])
    np.testing.assert_array_equal(seen[~done], after.observation[~done])
    # After an end it is a new one, and the agent acts on its first observation.
    assert (onward.t[done] == 0).all()
    assert set(onward.state["left"][done].tolist()) == set(range(3, 9))
    np.testing.assert_array_equal(seen[done], 100 + onward.state["left"][done])


def test_no_time_limit_never_truncates():
    env = make("cleaner", time_limit=None)

    @jax.jit
    def late(key):
        episode, _ = env.begin(key)
        return env.advance(key, Episode(episode.state, jnp.int32(10**6)), jnp.int32(0))

    episode, after = late(jax.random.key(0))
    assert int(episode.t) == 10**6 + 1
    assert not bool(after.done)


@pytest.mark.parametrize("limit", [0, -1, 2.5, "ten"])
@pytest.mark.usefixtures("as_installed")
def test_impossible_time_limits(limit):
    with pytest.raises(ValueError, match=r"clock: time_limit is .*, expected a positive whole number or None"):
        Clock(time_limit=limit)


def test_episodes_of_the_paper_have_100_steps():
    # Cleaner never ends by itself, so the hundredth step is the last, and it is truncated, not terminated.
    env = make("cleaner")

    def one(episode, _):
        episode, transition = env.advance(jax.random.key(0), episode, jnp.int32(0))
        return episode, transition

    after = jax.jit(lambda key: jax.lax.scan(one, env.begin(key)[0], length=100)[1])(jax.random.key(0))
    assert np.asarray(after.truncated).tolist() == [False] * 99 + [True]
    assert not np.asarray(after.terminated).any()
