from __future__ import annotations

import copy
import warnings
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.passive_env_checker import env_step_passive_checker

from asymrl.envs.gymnasium_out import Environment
from asymrl.envs.registration import gymnasium_id
from asymrl.settings.hyperparameters import PAPER_WORLDS
from asymrl.worlds import Cleaner, FiniteWorld, GoodBad, HeavenHell
from asymrl.worlds.registry import WORLDS
from tests.envs.gym.same import assert_same

NORTH, SOUTH, EAST, WEST = range(4)


def play(env: gymnasium.Env, actions: list[int], **reset: Any) -> list[Any]:
    """What an environment returns, from a reset on, until the episode or the actions end."""
    results: list[Any] = [env.reset(**reset)]
    for action in actions:
        results.append(env.step(action))
        if results[-1][2] or results[-1][3]:
            break
    return results


def random_actions(env: gymnasium.Env, count: int) -> list[int]:
    assert isinstance(env.action_space, gymnasium.spaces.Discrete)
    return np.random.default_rng(0).integers(env.action_space.n, size=count).tolist()


@pytest.mark.parametrize("world", WORLDS)
def test_gymnasium_finds_nothing_to_complain_about(world: str):
    # Warnings are errors here; gymnasium's go through the same machinery.
    check_env(gymnasium.make(gymnasium_id(world)).unwrapped)


def test_the_checker_would_be_heard():
    class Wrong(Environment):
        def step(self, action: Any):
            observation, reward, terminated, truncated, info = super().step(action)
            return int(observation) + 100, reward, terminated, truncated, info

    with pytest.raises(UserWarning, match="not within the observation space"):
        env_step_passive_checker(_reset(Wrong("tiger", time_limit=None)), 0)


def _reset(env: Environment) -> Environment:
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("world", WORLDS)
def test_values_are_in_their_spaces(world: str):
    env = gymnasium.make(gymnasium_id(world))
    state_space = env.unwrapped.state_space  # pyright: ignore[reportAttributeAccessIssue]
    for observation, *_, info in play(env, random_actions(env, 20), seed=1):
        assert observation in env.observation_space
        assert info["state"] in state_space
        assert list(info) == ["state"]


@pytest.mark.parametrize(
    ("world", "states", "observations"), [("heaven-hell-3", 28, 16), ("shopping-6", 1296, 73), ("good-bad", 2, 2)]
)
def test_finite_worlds_speak_in_indices(world: str, states: int, observations: int):
    env = Environment(world, time_limit=None)
    assert env.state_space == gymnasium.spaces.Discrete(states)
    assert env.observation_space == gymnasium.spaces.Discrete(observations)
    observation, info = env.reset(seed=0)
    assert type(observation) is type(info["state"]) is np.int64


def test_state_of_car_flag_and_cleaner():
    for world, size in (("car-flag", 3), ("cleaner", 845)):
        state = Environment(world, time_limit=None).reset(seed=0)[1]["state"]
        assert (state.shape, state.dtype) == ((size,), np.float32)


def test_state_of_memory_rooms():
    state = Environment("memory-four-rooms-7x7", time_limit=None).reset(seed=0)[1]["state"]
    forms = {name: (part.shape, part.dtype.name) for name, part in state.items()}
    assert forms == {
        "grid": ((7, 7, 3), "uint8"),
        "agent": ((6,), "float32"),
        "item": ((3,), "uint8"),
        "agent_id_grid": ((7, 7), "uint8"),
    }


@pytest.mark.parametrize("world", PAPER_WORLDS)
def test_an_episode_follows_the_worlds_rules(world: str):
    env = Environment(world, time_limit=None)

    @jax.jit
    def outcome(latent: Any, action: Any) -> Any:
        key = jax.random.key(0)  # of no effect: these worlds move without randomness
        state = env.world.from_latent(latent)
        step = env.world.step(key, state, action)
        observation = env.world.observe(key, state, action, step.state)
        return observation, step.reward, step.terminated, env.world.latent(step.state)

    actions = random_actions(env, 20)
    results = play(env, actions, seed=5)
    for action, before, after in zip(actions, results, results[1:], strict=False):
        observation, reward, terminated, truncated, info = after
        assert truncated is False
        expected = outcome(before[-1]["state"], np.int32(action))
        for found, wanted in zip((observation, reward, terminated, info["state"]), expected, strict=True):
            jax.tree.map(np.testing.assert_array_equal, found, wanted)


@pytest.mark.parametrize("world", WORLDS)
def test_same_seed_same_episode(world: str):
    one, other = (Environment(world, time_limit=None) for _ in range(2))
    actions = random_actions(one, 20)
    episode = play(one, actions, seed=3)
    for left, right in zip(episode, play(other, actions, seed=3), strict=True):
        for a, b in zip(left, right, strict=True):
            assert_same(a, b)
    # Also a second time, and after an episode that nobody seeded.
    one.reset()
    for left, right in zip(episode, play(one, actions, seed=3), strict=True):
        for a, b in zip(left, right, strict=True):
            assert_same(a, b)


def test_other_seeds_give_other_episodes():
    env = Environment("car-flag", time_limit=None)
    seeds = [0, 1, 2, 2**32, 2**32 + 1, 2**64, 2**64 + 1, 2**100]
    positions = {float(env.reset(seed=seed)[0][0]) for seed in seeds}
    assert len(positions) == len(seeds)


def test_a_stochastic_world_draws_anew_at_every_step():
    env = Environment("good-bad", time_limit=None)
    seen = [result[0] for result in play(env, [0] * 60, seed=0, options={"state": 1})]
    # A fair coin in the bad state: 61 throws lie between 15 and 46 heads unless a one in 10^4 event happens.
    assert 15 <= sum(seen) <= 46


def test_without_a_seed_the_generator_of_gymnasium_decides():
    env = Environment("car-flag", time_limit=None)
    one, other = ([float(env.reset(seed=seed)[0][0]) for seed in (7, None, None, None)] for _ in range(2))
    assert one == other
    assert len(set(one)) == 4
    fresh = {float(Environment("car-flag", time_limit=None).reset()[0][0]) for _ in range(3)}
    assert len(fresh) == 3


@pytest.mark.parametrize("world", WORLDS)
def test_an_episode_can_be_resumed_from_its_state(world: str):
    env = Environment(world, time_limit=None)
    actions = random_actions(env, 4)
    state = play(env, actions, seed=2)[-1][-1]["state"]
    _, info = env.reset(options={"state": state})
    assert_same(info["state"], state)


def test_first_observation_from_a_given_state():
    hell = Environment("heaven-hell-3", time_limit=None)
    # 13 is the priest's cell, but before the first action the agent always sees the symbol 15.
    assert hell.reset(options={"state": 13})[0] == 15
    assert hell.step(NORTH)[0] == 13
    car = Environment("car-flag", time_limit=None)
    observation, info = car.reset(options={"state": [0.5, 0.0, -1.0]})
    np.testing.assert_array_equal(observation, np.array([0.5, 0.0, -1.0], np.float32))
    np.testing.assert_array_equal(info["state"], np.array([0.5, 0.0, -1.0], np.float32))
    observation, _ = car.reset(options={"state": np.array([0.2, 0.0, -1.0])})
    np.testing.assert_array_equal(observation, np.array([0.2, 0.0, 0.0], np.float32))


@pytest.mark.parametrize(
    ("world", "state", "complaint"),
    [
        ("heaven-hell-3", 28, r"options\['state'\] is 28, outside 0..27; it was 28.*info\['state'\]"),
        ("heaven-hell-3", 1.0, "has dtype float64, expected integers"),
        ("heaven-hell-3", "start", "expected integers; it was start"),
        ("car-flag", [0.0, 0.0], r"has shape \(2,\), expected \(3,\)"),
        ("car-flag", [0.0, 0.0, 0.5], "has 0.5 as the side of the good flag"),
        ("cleaner", np.zeros(845), "has other walls than this maze"),
        ("memory-four-rooms-7x7", np.zeros((7, 7, 3)), "expected a dictionary with the keys grid"),
    ],
)
def test_impossible_states_are_refused(world: str, state: Any, complaint: str):
    env = Environment(world, time_limit=None)
    with pytest.raises(ValueError, match=f"{world}: .*{complaint}"):
        env.reset(options={"state": state})
    with pytest.raises(ResetNeeded):
        env.step(0)


def test_unknown_reset_options_are_refused():
    env = Environment("tiger", time_limit=None)
    with pytest.raises(ValueError, match="reset has no option 'stat'; its options are state"):
        env.reset(options={"stat": 1})


@pytest.mark.parametrize("action", [4, -1, 1.0, "N", None, np.array([1]), np.float32(2)])
def test_actions_outside_the_space_are_refused_before_anything_is_compiled(action: Any, monkeypatch):
    env = _reset(Environment("heaven-hell-3", time_limit=None))
    with monkeypatch.context() as patch:
        patch.setattr(env, "_compiled", env._compiled._replace(step=lambda *_: pytest.fail("the step was run")))
        with pytest.raises(ValueError, match=r"heaven-hell-3: action .* is not in .* 0\.\.3: 0 N, 1 S, 2 E, 3 W"):
            env.step(action)
    assert env.step(SOUTH)[0] == 10  # nothing has happened in between


def test_all_kinds_of_integers_are_actions():
    env = _reset(Environment("heaven-hell-3", time_limit=None))
    seen = [env.step(action)[0] for action in (0, np.int64(0), np.uint8(0), np.array(3), jnp.int32(3))]
    assert seen == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("towards_heaven", [True, False])
def test_the_way_by_the_priest_to_an_exit(towards_heaven: bool):
    env = gymnasium.make("asymrl/HeavenHell-3-v0")
    heaven_in_the_west = bool(env.reset(seed=0)[1]["state"] < 14)
    go = WEST if heaven_in_the_west == towards_heaven else EAST
    to_priest, back = [SOUTH, EAST, EAST, EAST], [WEST, WEST, WEST, NORTH]
    results = play(env, [*to_priest, *back, NORTH, NORTH, NORTH, go, go, go, NORTH], seed=0)[1:]
    assert results[3][0] == (13 if heaven_in_the_west else 14)
    assert [result[1:4] for result in results[:-1]] == [(0.0, False, False)] * 14
    assert results[-1][1:4] == (1.0 if towards_heaven else -1.0, True, False)


def test_the_time_limit_is_a_hundred_steps():
    env = gymnasium.make("asymrl/Cleaner-v0")
    ends = [result[2:4] for result in play(env, [0] * 150, seed=0)[1:]]
    assert ends == [(False, False)] * 99 + [(False, True)]


@pytest.mark.parametrize("limit", [3, 120])
def test_the_time_limit_can_be_changed(limit: int):
    env = gymnasium.make("asymrl/Cleaner-v0", max_episode_steps=limit)
    ends = [result[2:4] for result in play(env, [0] * 150, seed=0)[1:]]
    assert ends == [(False, False)] * (limit - 1) + [(False, True)]


def test_used_directly_the_worlds_own_limit_holds():
    for env in (Environment("cleaner", time_limit=4), Environment(Cleaner(time_limit=4))):
        ends = [result[2:4] for result in play(env, [0] * 9, seed=0)[1:]]
        assert ends == [(False, False)] * 3 + [(False, True)]
    assert Environment(HeavenHell(3)).world.time_limit == 100


def test_an_end_at_the_time_limit_is_no_truncation():
    in_the_exit = 6
    env = Environment("heaven-hell-3", time_limit=1)
    env.reset(options={"state": in_the_exit})
    assert env.step(NORTH)[1:4] == (1.0, True, False)
    # Gymnasium's own limit, applied by `make`, says both in this case; that the world ended is still told.
    made = gymnasium.make("asymrl/HeavenHell-3-v0", max_episode_steps=1)
    made.reset(options={"state": in_the_exit})
    assert made.step(NORTH)[2] is True


def test_steps_need_a_reset():
    env = Environment("heaven-hell-3", time_limit=2)
    with pytest.raises(ResetNeeded, match="before the first reset"):
        env.step(0)
    env.reset(options={"state": 6})
    env.step(0)
    with pytest.raises(ResetNeeded, match="the episode was terminated; call reset"):
        env.step(0)
    env.reset(seed=0)
    env.step(0)
    env.step(0)
    with pytest.raises(ResetNeeded, match="truncated by its time limit; call reset"):
        env.step(0)
    env.reset()
    env.step(0)


def test_options_of_the_world():
    made = gymnasium.make("asymrl/Cleaner-v0", maze_seed=3).unwrapped
    assert isinstance(made, Environment)
    walls = made.reset()[1]["state"].reshape(13, 13, 5)[..., 1]
    np.testing.assert_array_equal(walls, Cleaner(maze_seed=3).walls)
    assert Environment("memory-four-rooms-5x9", actions=8).action_space == gymnasium.spaces.Discrete(8)
    assert Environment("shopping-4").observation_space == gymnasium.spaces.Discrete(33)
    with pytest.raises(ValueError, match="has no option 'maze_sed'; its options are"):
        gymnasium.make("asymrl/Cleaner-v0", maze_sed=3)
    with pytest.raises(ValueError, match="Did you mean 'shopping-5'"):
        Environment("shoping-5")


def test_objects_as_worlds():
    world = GoodBad(time_limit=None)
    made = gymnasium.make("asymrl/GoodBad-v0", world=GoodBad())
    assert made.unwrapped.world == world  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match="discount cannot be applied to a world that is already built"):
        Environment(world, discount=0.5)
    with pytest.raises(ValueError, match="time_limit is 0"):
        Environment(world, time_limit=0)
    with pytest.raises(TypeError):
        Environment(3)  # pyright: ignore[reportArgumentType]


def test_a_world_of_ones_own_tables():
    chain = np.eye(3)[[1, 2, 2]][:, None]
    world = FiniteWorld.from_tables("chain", T=chain, O=np.eye(3)[None], R=np.ones((3, 1)), start=np.eye(3)[0])
    assert [result[0] for result in play(Environment(world), [0, 0, 0], seed=0)] == [3, 1, 2, 2]


def test_mazes_of_one_size_share_their_compiled_code(monkeypatch):
    traced = []
    step = Cleaner.step

    def counted(self: Cleaner, *args: Any) -> Any:
        traced.append(self)
        return step(self, *args)

    monkeypatch.setattr(Cleaner, "step", counted)
    options: Any = {"height": 5, "width": 7, "time_limit": None}
    environments = [Environment("cleaner", maze_seed=seed, **options) for seed in (1, 2)]
    ends = [play(env, [0, 1, 2], seed=0)[-1] for env in environments]
    assert len(traced) == 1
    # And yet each has its own walls.
    mazes = [Cleaner(maze_seed=seed, **options).walls for seed in (1, 2)]
    assert (mazes[0] != mazes[1]).any()
    for end, walls in zip(ends, mazes, strict=True):
        np.testing.assert_array_equal(end[-1]["state"].reshape(5, 7, 5)[..., 1], walls)


def test_a_copy_goes_its_own_way():
    env = _reset(Environment("heaven-hell-3", time_limit=None))
    env.step(NORTH)
    twin = copy.deepcopy(env)
    assert twin.step(NORTH)[0] == 2
    assert env.step(SOUTH)[0] == 0
    assert twin.step(NORTH)[0] == 3


def test_results_belong_to_the_caller():
    env = _reset(Environment("car-flag", time_limit=None))
    observation, *_, info = env.step(6)
    observation[:] = info["state"][:] = 9.0
    assert abs(env.step(6)[0][0]) < 1


@pytest.mark.parametrize("world", WORLDS)
def test_render(world: str):
    shows = {}
    for mode in ("ansi", "rgb_array"):
        env = gymnasium.make(gymnasium_id(world), render_mode=mode)
        env.reset(seed=0)
        first = env.render()
        env.step(1)
        shows[mode] = (first, env.render())
    for text in shows["ansi"]:
        assert isinstance(text, str)
        assert world in text
    for frame in shows["rgb_array"]:
        assert isinstance(frame, np.ndarray)
        assert (frame.dtype, frame.ndim, frame.shape[-1]) == (np.uint8, 3, 3)
    assert shows["ansi"][0] != shows["ansi"][1]
    before, after = shows["rgb_array"]
    assert before.shape != after.shape or (before != after).any()


def test_render_modes():
    with pytest.raises(ValueError, match="render_mode 'human' is unknown; choose ansi, rgb_array or None"):
        Environment("tiger", render_mode="human")
    with pytest.raises(ResetNeeded, match=r"render\(\) was called before the first reset"):
        Environment("tiger", render_mode="ansi").render()
    with pytest.warns(UserWarning, match="render_mode='ansi'"):
        assert _reset(Environment("tiger", time_limit=None)).render() is None
    frames = gymnasium.make("asymrl/Tiger-v0", render_mode="rgb_array_list")
    frames.reset()
    frames.step(0)
    assert len(frames.render()) == 2  # pyright: ignore[reportArgumentType]


def test_no_warning_from_an_ordinary_episode():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = gymnasium.make("asymrl/MemoryFourRooms-7x7-v0")
        play(env, random_actions(env, 100), seed=0)
        env.close()
    assert caught == []
