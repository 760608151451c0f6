"""Gymnasium environments that run in Python, as worlds to train in."""

from __future__ import annotations

import itertools

import equinox as eqx
import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

import asymrl
from asymrl.api.wanted import settings_for
from asymrl.envs.gymnasium_spaces import encoding_of_space
from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
from asymrl.learners.state import training_world
from asymrl.runs.callback import Callback
from asymrl.settings import A2CSettings, Settings
from asymrl.worlds.registry import make
from asymrl.worlds.spaces import Box, Discrete, Indices, Record
from asymrl.worlds.stepped_world import SteppedWorld
from tests.envs.gym.foreign_envs import Aim, Dark, Guess, doubled
from tests.learners.small import start
from tests.runs.engine.conftest import final_states

SMALL = {"memory_size": 4, "hidden": (8,), "time_limit": 5, "episodes": 3, "steps": 10_000}


def settings(**changes) -> Settings:
    return A2CSettings(**{"world": "guess", **SMALL, **changes})


def program(env, **changes) -> Program:
    return Program(settings(**changes).shape(), from_gymnasium(env, time_limit=5))


@pytest.fixture(scope="module")
def guess() -> Program:
    return program(Guess)


@pytest.mark.parametrize(
    ("space", "ours", "value", "read"),
    [
        (spaces.Discrete(3, start=5), Discrete(3), 6, 1),
        (spaces.Box(-1.0, 2.0, (2, 1)), Box((2,), (-1.0, -1.0), (2.0, 2.0)), [[0.5], [1.5]], [0.5, 1.5]),
        (spaces.Box(0, 10, (2, 2), np.uint8), Indices(11, (4,)), [[0, 1], [2, 10]], [0, 1, 2, 10]),
        (spaces.Box(0, 500, (40, 40), np.int16), Box((1600,), 0.0, 1.0), np.full((40, 40), 100), np.full(1600, 0.2)),
        (spaces.MultiDiscrete([2, 4]), Indices(4, (2,)), [1, 3], [1, 3]),
        (spaces.MultiBinary(3), Indices(2, (3,)), [1, 0, 1], [1, 0, 1]),
    ],
)
def test_spaces_are_read(space, ours, value, read):
    found = encoding_of_space(space, "it")
    assert found is not None
    assert found.space == ours
    np.testing.assert_allclose(found.read(value), read, rtol=1e-6)
    assert ours.problem(found.read(value)) is None


def test_records_are_read():
    found = encoding_of_space(spaces.Dict({"pair": spaces.Tuple([spaces.Discrete(2)] * 2)}), "it")
    assert found is not None
    assert found.space == Record((("pair", Record((("0", Discrete(2)), ("1", Discrete(2))))),))
    assert found.read({"pair": (1, 0)}) == {"pair": {"0": 1, "1": 0}}


def test_what_can_not_be_read_is_named():
    with pytest.raises(ValueError, match="it 'graph' is a Graph space, which networks here cannot read"):
        encoding_of_space(spaces.Dict({"graph": spaces.Graph(spaces.Discrete(2), None)}), "it")
    with pytest.raises(ValueError, match="Nothing-v7"):
        make("Nothing-v7")


def test_the_latent_state_is_found_where_it_is():
    assert from_gymnasium(Guess).latent_space == Discrete(2)  # info["state"], with the environment's own space for it
    assert from_gymnasium(Aim).latent_space == Box((2,))  # an attribute
    own = from_gymnasium(Guess, latent="tests.envs.gym.foreign_envs:doubled")
    assert own.latent_space == Record((("twice", Box((1,))), ("steps", Box((2,)))))
    assert from_gymnasium(Guess, latent=doubled).latent_space == own.latent_space


def test_a_critic_of_the_state_needs_one():
    dark = from_gymnasium(Dark, time_limit=5)
    with pytest.raises(ValueError, match=r"a2c-asym-s needs a latent state\. Dark: no latent state was found"):
        training_world(settings(world="dark", method="a2c-asym-s"), dark)


@pytest.mark.slow
def test_without_a_latent_state_a2c_is_trained():
    dark = from_gymnasium(Dark, time_limit=5)
    prog = Program(settings(method="a2c").shape(), dark)
    runs = prog.train(start(prog.world, prog.settings, [0]), stack_numbers([settings(method="a2c")]), 2)
    assert int(runs.updates[0]) == 2
    assert not bool(runs.failed[0])


def test_what_is_collected_is_what_happened(guess: Program):
    """Played again by hand from the same seeds, with the same actions."""
    runs = start(guess.world, guess.settings, [3, 4])
    collector = guess.collector()
    keys = jax.random.split(jax.random.key(1), 2)
    played = collector.play(runs.actor, keys, np.array([True, True]), episodes=3)
    *_, seeds = collector.compiled_actor.begin(eqx.filter(runs.actor, eqx.is_array), keys, 3)
    for run in range(2):
        for episode in range(3):
            env = Guess()
            seen, info = env.reset(seed=int(seeds[run, episode]))
            for t in range(int(played.lengths[run, episode])):
                assert played.observations["coin"][t, run, episode] == seen["coin"] + 1
                np.testing.assert_array_equal(played.observations["noise"][t, run, episode], seen["noise"].ravel())
                assert played.states[t, run, episode] == info["state"]
                seen, reward, *_, info = env.step(int(played.actions[t, run, episode]) + 1)
                assert played.rewards[t, run, episode] == reward
    np.testing.assert_array_equal(played.lengths, 3)
    assert not np.any(played.truncated)


def test_episodes_do_not_depend_on_how_training_is_cut_into_pieces(guess: Program):
    """What makes a resumed run equal to an uninterrupted one."""
    numbers = stack_numbers([settings()] * 2)
    whole = guess.train(start(guess.world, guess.settings, [0, 1]), numbers, 4)
    pieces = guess.train(guess.train(start(guess.world, guess.settings, [0, 1]), numbers, 1), numbers, 3)
    leaves = (jax.tree.leaves(eqx.filter(runs, eqx.is_array)) for runs in (whole, pieces))
    for a, b in zip(*leaves, strict=True):
        if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_environments_in_processes_give_the_same_episodes(guess: Program):
    runs, keys = start(guess.world, guess.settings, [3]), jax.random.key(5)[None]
    apart = Program(settings().shape(), from_gymnasium(Guess, time_limit=5, stepping="processes")).collector()
    here = guess.collector()
    try:
        played = [each.play(runs.actor, keys, np.array([True]), episodes=2) for each in (here, apart)]
    finally:
        apart.close()
    for a, b in zip(jax.tree.leaves(played[0]), jax.tree.leaves(played[1]), strict=True):
        # What stands behind the end of an episode is nobody's business.
        np.testing.assert_allclose(np.asarray(a)[:3], np.asarray(b)[:3], rtol=1e-6)


def test_the_time_limit_truncates():
    prog = program(Dark, method="a2c")
    runs = start(prog.world, prog.settings, [0])
    played = prog.collector().play(runs.actor, jax.random.key(0)[None], np.array([True]), episodes=8)
    assert np.all(played.truncated)
    assert played.lengths.max() == 5
    assert played.lengths.min() < 5


def test_the_time_limit_is_the_environments_own():
    """Of the id, of a wrapper, or of MiniGrid's `max_steps`; the first that cuts off counts. Without one it is 100."""

    def wrapped() -> gymnasium.Env:
        return TimeLimit(gymnasium.make("CartPole-v1", max_episode_steps=70), 80)

    class Limited(Guess):
        max_steps = 33

    assert make("CartPole-v1").time_limit == 500
    assert from_gymnasium(wrapped).time_limit == 70
    assert from_gymnasium(Limited).time_limit == 33
    assert from_gymnasium(Guess).time_limit == 100
    assert settings_for("CartPole-v1", "a2c").time_limit == 500
    assert settings_for("CartPole-v1", "a2c", time_limit=30).time_limit == 30


def test_minigrids_own_limit_is_used():
    pytest.importorskip("minigrid")
    assert settings_for("minigrid:MiniGrid-MemoryS7-v0", "a2c").time_limit == 5 * 7**2


def test_minigrids_cells_show_as_many_symbols_as_it_has():
    minigrid = pytest.importorskip("minigrid")
    count = max(len(table) for table in (minigrid.core.constants.OBJECT_TO_IDX, minigrid.core.constants.COLOR_TO_IDX))
    world = make("minigrid:MiniGrid-MemoryS7-v0")
    assert world.observation_space["image"] == Indices(count, (7 * 7 * 3,))  # pyright: ignore[reportIndexIssue]
    assert world.latent_space["cells"] == Indices(count, (7 * 7 * 3,))  # pyright: ignore[reportIndexIssue]


def test_a_longer_time_limit_takes_the_place_of_the_ids():
    """Always pushing to the side, MountainCar goes on until it is cut off: after 200 steps, says its id."""
    for given, lasts in ((None, 200), (10, 200), (250, 250)):
        world = make("MountainCar-v0") if given is None else make("MountainCar-v0", time_limit=given)
        assert isinstance(world, SteppedWorld)
        assert world.time_limit == given or given is None
        env = world.make()
        env.reset(seed=0)
        assert next(t for t in itertools.count(1) if env.step(0)[3]) == lasts


def test_a_vector_of_actions_is_learned():
    """The best action is the target, far from the middle where the policy begins."""
    given = settings(world="aim", method="a2c-asym-hs", episodes=8, actor_rate=0.02, critic_rate=0.02,
                     entropy_weight=0.01, time_limit=1, memory_size=4)  # fmt: skip
    prog = Program(given.shape(), from_gymnasium(Aim, time_limit=1))
    runs = prog.train(start(prog.world, prog.settings, [0]), stack_numbers([given]), 400)
    played = prog.collector().play(runs.actor, jax.random.key(0)[None], np.array([True]), episodes=8, greedy=True)
    assert played.rewards.mean() > -0.05  # it began at -0.41, and a random point earns -1.1


def test_a_function_or_an_environment_that_was_made_will_do():
    assert from_gymnasium(gymnasium.make("CartPole-v1")).name == "CartPole-v1"
    assert make("CartPole-v1", time_limit=30).time_limit == 30
    with pytest.raises(ValueError, match="pass a function that makes it"):
        from_gymnasium(Guess())


@pytest.mark.slow
def test_normalised_runs_are_resumed_exactly(tmp_path):
    """Statistics are in the checkpoint; with PPO, also the returns of the episodes that go on."""
    small = {"memory_size": 4, "hidden": (4,), "time_limit": 20, "rollout": 16, "anneal": False}
    how = {"normalise_observations": True, "normalise_rewards": True, "seeds": [3], **small}
    for name, updates in (("parts", 3), ("whole", 6)):
        length = {"steps": 64 * updates, "log_points": updates}
        asymrl.train("CartPole-v1", "ppo-asym-hs", out=tmp_path / name, display=Callback(), **length, **how)
    asymrl.resume(tmp_path / "parts", steps=384, display=Callback())
    (parts,), (whole,) = (final_states(tmp_path / name).values() for name in ("parts", "whole"))
    assert parts["statistics.observations.count"] == 384
    for name in parts:
        if name.startswith(("actor.", "critic.", "statistics.", "streams.")):
            np.testing.assert_array_equal(parts[name], whole[name], err_msg=name)
