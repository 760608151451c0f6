from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space

from asymrl.envs.gymnasium_out import VectorEnvironment, without_masks
from asymrl.envs.gymnasium_spaces import entry
from asymrl.envs.registration import gymnasium_id
from asymrl.worlds import HeavenHell
from asymrl.worlds.registry import WORLDS
from tests.envs.gym.same import assert_same

COUNT, LIMIT = 3, 4  # the same everywhere where it does not matter, so that little has to be compiled


NORTH, SOUTH, EAST, WEST = range(4)

# Compiling costs seconds, and what differs between the sizes of a world is tested elsewhere.
DETERMINISTIC = ("heaven-hell-3", "shopping-5", "car-flag", "cleaner", "memory-four-rooms-7x7")
ONE_OF_A_KIND = (*DETERMINISTIC, "good-bad", "tiger")

# An action that does not end an episode within the limit, wherever it begins.
IDLE = dict.fromkeys(ONE_OF_A_KIND, 0) | {"shopping-5": 1, "car-flag": 3, "memory-four-rooms-7x7": 4}

# A state and an action that ends the episode.
NEAR_THE_END: dict[str, tuple[Any, int]] = {
    "heaven-hell-3": (6, NORTH),
    "shopping-5": (7 * 25 + 7, 5),
    "car-flag": (np.array([0.999, 0.07, 1.0]), 6),
}


def native(world: str, **kwargs: Any) -> VectorEnvironment:
    env = gymnasium.make_vec(gymnasium_id(world), num_envs=COUNT, **{"max_episode_steps": LIMIT, **kwargs})
    assert isinstance(env, VectorEnvironment)
    return env


def gymnasiums_own(world: str) -> SyncVectorEnv:
    """The same environments in Gymnasium's loop, which prescribes the form of the results."""
    makers = [lambda: gymnasium.make(gymnasium_id(world), max_episode_steps=LIMIT)] * COUNT
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)


def actions_for(env: gymnasium.vector.VectorEnv, steps: int, seed: int = 0) -> list[np.ndarray]:
    assert isinstance(env.single_action_space, gymnasium.spaces.Discrete)
    return list(np.random.default_rng(seed).integers(env.single_action_space.n, size=(steps, env.num_envs)))


@pytest.mark.parametrize("mode", [None, "vector_entry_point"])
def test_make_vec_gives_the_native_environment(mode: str | None):
    env = gymnasium.make_vec("asymrl/HeavenHell-3-v0", num_envs=64, vectorization_mode=mode)
    assert type(env) is VectorEnvironment
    assert (env.num_envs, env.world.time_limit) == (64, 100)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert repr(env) == "VectorEnvironment(asymrl/HeavenHell-3-v0, num_envs=64)"


@pytest.mark.parametrize("world", WORLDS)
def test_spaces(world: str):
    env, own = native(world), gymnasiums_own(world)
    for name in ("single_action_space", "single_observation_space", "action_space", "observation_space"):
        assert getattr(env, name) == getattr(own, name)
    assert env.single_state_space == own.envs[0].unwrapped.state_space  # pyright: ignore[reportAttributeAccessIssue]
    assert env.state_space == batch_space(env.single_state_space, COUNT)


@pytest.mark.parametrize("world", ONE_OF_A_KIND)
def test_results_have_the_form_and_values_of_gymnasiums_own(world: str):
    both = native(world), gymnasiums_own(world)
    idle = np.full(COUNT, IDLE[world])
    compare(*(env.reset(seed=[5, 6, 7]) for env in both))
    compare(*(env.step(idle) for env in both))
    # From here on the first environment is one step behind the others, so that they end at different times.
    late = [{"reset_mask": np.array([True, False, False])} for _ in both]
    compare(*(env.reset(seed=[8, 9, 10], options=options) for env, options in zip(both, late, strict=True)))
    for _ in range(LIMIT - 2):
        compare(*(env.step(idle) for env in both))
    # Seeds fix the first episode of each environment; how the next one begins is another draw.
    result, expected = (env.step(idle) for env in both)
    compare(result[1:4], expected[1:4])
    assert result[3].tolist() == [False, True, True]
    assert_same(result[4], expected[4], values=False)
    for key in ("final_obs", "_final_obs", "final_info", "_final_info", "_state"):
        assert_same(result[4][key], expected[4][key], at=key)
    for _ in range(2 * LIMIT):
        for found, wanted in zip(*(env.step(idle) for env in both), strict=True):
            assert_same(found, wanted, values=False)


def compare(result: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    for i, (found, wanted) in enumerate(zip(result, expected, strict=True)):
        assert_same(found, wanted, at=f"part {i}")


@pytest.mark.parametrize("world", DETERMINISTIC)
def test_many_at_once_move_as_each_alone(world: str):
    env = native(world)
    alone = [gymnasium.make(gymnasium_id(world), max_episode_steps=LIMIT) for _ in range(COUNT)]
    observation, info = env.reset(seed=4)
    if world in NEAR_THE_END:
        state, action = NEAR_THE_END[world]
        start = info["state"].copy()
        start[0] = state
        observation, info = env.reset(options={"state": start})
    else:
        action = 0
    script = actions_for(env, 30)
    script[0][0] = action
    ends = {"terminated": 0, "truncated": 0}

    def begin(i: int) -> None:
        first, first_info = alone[i].reset(options={"state": entry(without_masks(info["state"]), i)})
        assert_same(first, entry(observation, i))
        assert_same(first_info["state"], entry(without_masks(info["state"]), i))

    for i in range(COUNT):
        begin(i)
    for actions in script:
        observation, reward, terminated, truncated, info = env.step(actions)
        assert not (terminated & truncated).any()
        for i in range(COUNT):
            last, gain, over, out_of_time, last_info = alone[i].step(actions[i])
            assert (reward[i], terminated[i], truncated[i]) == (gain, over, out_of_time and not over)
            if over or out_of_time:
                ends["terminated" if over else "truncated"] += 1
                assert_same(info["final_obs"][i], last)
                assert_same(entry(without_masks(info["final_info"]["state"]), i), last_info["state"])
                begin(i)
            else:
                assert_same(entry(observation, i), last)
                assert_same(entry(without_masks(info["state"]), i), last_info["state"])
    assert ends["truncated"] > 0
    assert ends["terminated"] > 0 or world == "cleaner"


def test_an_end_at_the_time_limit_is_no_truncation():
    env = native("heaven-hell-3")
    env.reset(options={"state": np.array([2, 3, 4])})
    ways = [(NORTH, WEST, WEST), (WEST, WEST, WEST), (WEST, WEST, WEST), (WEST, WEST, WEST)]
    *_, (_, _, terminated, truncated, _) = [env.step(np.array(way)) for way in ways]
    # The second stood in the exit before its fourth step, the third already before its third.
    assert terminated.tolist() == [False, True, False]
    assert truncated.tolist() == [True, False, False]


def test_seeds():
    env = native("car-flag")

    def starts(**kwargs: Any) -> list[float]:
        return env.reset(**kwargs)[0][:, 0].tolist()

    from_ten = starts(seed=10)
    assert starts(seed=[10, 11, 12]) == from_ten
    assert starts(seed=np.array([12, 11, 10])) == from_ten[::-1]
    partly = starts(seed=[10, None, 12])
    assert [partly[0], partly[2]] == [from_ten[0], from_ten[2]]
    assert partly[1] != starts(seed=[10, None, 12])[1]
    for seed in (10, [10, 11, 12]):
        starts(seed=seed)
        again = starts()
        assert again != from_ten
        starts(seed=seed)
        assert starts() == again


@pytest.mark.parametrize("seed", [[1, 2], [1, 2, -3]])
def test_bad_seeds_are_refused(seed: list[int]):
    with pytest.raises(ValueError, match="one non-negative integer, or 3 of them"):
        native("car-flag").reset(seed=seed)


def test_the_next_episodes_are_drawn_anew():
    env = VectorEnvironment("heaven-hell-3", 200, max_episode_steps=1)
    env.reset(seed=0)
    sides = np.array([env.step(np.zeros(200, int))[4]["state"] // 14 for _ in range(10)])
    # 2000 fair coins: the mean is within four standard deviations of a half, and neighbours in time and space
    # agree half of the time.
    tolerance = 4 * 0.5 / np.sqrt(1800)
    assert abs(sides.mean() - 0.5) < tolerance
    assert abs((sides[1:] == sides[:-1]).mean() - 0.5) < tolerance
    assert abs((sides[:, 1:] == sides[:, :-1]).mean() - 0.5) < tolerance


@pytest.mark.parametrize("world", ONE_OF_A_KIND)
def test_episodes_can_be_resumed_from_their_states(world: str):
    env = native(world)
    env.reset(seed=3)
    env.step(actions_for(env, 1)[0])
    *_, info = env.step(actions_for(env, 1)[0])
    assert without_masks(info["state"]) in env.state_space
    _, resumed = env.reset(options={"state": info["state"]})
    assert_same(resumed["state"], info["state"])


def test_states_are_checked():
    hell, rooms = native("heaven-hell-3"), native("memory-four-rooms-7x7")
    with pytest.raises(ValueError, match=r"must hold 3 values, stacked along a first axis.*np.stack"):
        hell.reset(options={"state": 13})
    with pytest.raises(ValueError, match=r"of environment 1 is 28, outside 0..27"):
        hell.reset(options={"state": [0, 28, 0]})
    with pytest.raises(ValueError, match=r"has the keys .*, expected"):
        rooms.reset(options={"state": {"grid": np.zeros((3, 7, 7, 3))}})
    state = rooms.reset(seed=0)[1]["state"]
    state["grid"][2, 0, 0] = [2, 0, 0]
    with pytest.raises(ValueError, match="of environment 2 'grid' is not closed"):
        rooms.reset(options={"state": state})
    # A state that is not used need not be right.
    mask = np.array([True, True, False])
    rooms.reset(options={"state": state, "reset_mask": mask})
    with pytest.raises(ValueError, match="no option 'mask'; its options are state, reset_mask"):
        rooms.reset(options={"mask": mask})


def test_only_the_masked_are_reset():
    env = native("heaven-hell-3")
    env.reset(options={"state": [0, 0, 0]})
    env.step(np.full(3, NORTH))
    options = {"state": np.array([7, 17, 8]), "reset_mask": np.array([False, True, False])}
    observation, info = env.reset(options=options)
    assert list(options) == ["state", "reset_mask"]
    assert observation.tolist() == [1, 15, 1]
    assert info["state"].tolist() == [0, 17, 0]
    assert info["_state"].tolist() == [False, True, False]
    assert env.step(np.full(3, NORTH))[4]["state"].tolist() == [2, 17, 2]
    env.step(np.full(3, NORTH))
    # The others began one step earlier, and so their time is up one step earlier.
    assert env.step(np.full(3, NORTH))[3].tolist() == [True, False, True]
    assert env.step(np.full(3, NORTH))[3].tolist() == [False, True, False]


@pytest.mark.parametrize("mask", [np.zeros(3, bool), np.ones(2, bool), np.array([1, 0, 0]), [1, 0, 0]])
def test_bad_masks_are_refused(mask: Any):
    env = native("heaven-hell-3")
    env.reset()
    with pytest.raises(ValueError, match="must be 3 booleans, at least one of them true"):
        env.reset(options={"reset_mask": mask})


def test_a_mask_needs_a_full_reset_before():
    with pytest.raises(ResetNeeded, match="never reset; reset all first"):
        native("heaven-hell-3").reset(options={"reset_mask": np.array([True, False, False])})


@pytest.mark.parametrize(
    ("actions", "complaint"),
    [
        ([0, 4, 0], r"action 4 of environment 1 is not in .* 0\.\.3: 0 N, 1 S, 2 E, 3 W"),
        ([0, 0, -1], "action -1 of environment 2"),
        ([0, 0], r"actions must hold 3 values, stacked along a first axis, but has the shape \(2,\)"),
        (0, r"the shape \(\)"),
        ([0.0, 1.0, 2.0], r"action 0\.0 of environment 0 is not in"),
    ],
)
def test_actions_outside_the_space_are_refused(actions: Any, complaint: str, monkeypatch):
    env = native("heaven-hell-3")
    env.reset()
    compiled = env._compiled._replace(step_many=lambda *_: pytest.fail("the step was run"))
    monkeypatch.setattr(env, "_compiled", compiled)
    with pytest.raises(ValueError, match=f"heaven-hell-3: .*{complaint}"):
        env.step(actions)


@pytest.mark.parametrize(
    ("given", "limit"), [({}, 100), ({"max_episode_steps": 250}, 250), ({"max_episode_steps": -1}, None)]
)
def test_time_limits(given: dict[str, Any], limit: int | None):
    assert VectorEnvironment("cleaner", 2, **given).world.time_limit == limit
    assert VectorEnvironment(HeavenHell(3), 2, **given).world.time_limit == limit
    made = gymnasium.make_vec("asymrl/Cleaner-v0", num_envs=2, **given)
    assert made.unwrapped.world.time_limit == limit  # pyright: ignore[reportAttributeAccessIssue]


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="num_envs is 0"):
        VectorEnvironment("tiger", 0)
    for steps in (0, -2):
        with pytest.raises(ValueError, match=f"max_episode_steps is {steps}; pass at least 1, or -1"):
            VectorEnvironment("tiger", 2, max_episode_steps=steps)
    with pytest.raises(ValueError, match="two time limits; pass max_episode_steps only"):
        gymnasium.make_vec("asymrl/Tiger-v0", num_envs=2, time_limit=50)
    with pytest.raises(ValueError, match="render_mode 'human' is unknown"):
        VectorEnvironment("tiger", 2, render_mode="human")


def test_options_of_the_world():
    env = gymnasium.make_vec("asymrl/Cleaner-v0", num_envs=2, maze_seed=3, height=5, width=7)
    assert env.unwrapped.single_state_space.shape == (175,)  # pyright: ignore[reportAttributeAccessIssue]


def test_order_of_calls():
    env = native("heaven-hell-3")
    with pytest.raises(ResetNeeded, match=r"step\(\) was called before the first reset"):
        env.step(np.zeros(3, int))
    env.reset()
    env.close()
    env.close()
    for call in (env.reset, lambda: env.step(np.zeros(3, int))):
        with pytest.raises(ClosedEnvironmentError, match="is closed; make a new one"):
            call()


def test_results_belong_to_the_caller():
    env = native("car-flag")
    env.reset(seed=0)
    observation, reward, *_, info = env.step([6, 6, 6])
    observation[:] = info["state"][:] = 9.0
    reward[:] = 1.0
    assert (np.abs(env.step([6, 6, 6])[0]) < 1).all()


def test_gymnasiums_wrappers_understand_the_ends():
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(native("memory-four-rooms-7x7"))
    env.reset(seed=0)
    for _ in range(LIMIT - 1):
        env.step([4, 4, 4])
    *_, info = env.step([4, 4, 4])
    np.testing.assert_allclose(info["episode"]["r"], -0.05 * LIMIT, rtol=1e-6)
    assert info["episode"]["l"].tolist() == [LIMIT] * COUNT


def test_render():
    env = native("heaven-hell-3", render_mode="ansi")
    with pytest.raises(ResetNeeded, match=r"render\(\) was called before"):
        env.render()
    env.reset(seed=0)
    for _ in range(2):
        env.step([NORTH, SOUTH, NORTH])
    env.reset(options={"reset_mask": np.array([False, False, True])})
    texts = env.render()
    assert texts is not None
    assert [text.splitlines()[0] for text in texts] == [
        "heaven-hell-3, after N",
        "heaven-hell-3, after S",
        "heaven-hell-3, at the start",
    ]
    images = native("heaven-hell-3", render_mode="rgb_array")
    images.reset(seed=0)
    frames = images.render()
    assert isinstance(frames, tuple)
    assert [(frame.dtype, frame.ndim, frame.shape[-1]) for frame in frames] == [(np.uint8, 3, 3)] * COUNT
    with pytest.warns(UserWarning, match="render_mode='ansi'"):
        assert native("heaven-hell-3").render() is None
