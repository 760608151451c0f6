"""Car-Flag against its rules in double precision."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from asymrl.worlds import CarFlag
from tests.oracles import car_flag as oracle
from tests.oracles.car_flag import Car
from tests.worlds.chance import FALSE_ALARM, assert_uniform

# The world computes in single precision, where numbers near 1.1 are 1.2e-7 apart. Closer than this to a
# threshold the two may disagree; the thresholds themselves have a test of their own.
ROUNDING = 5e-7
COUNT = 100
LEFT, NONE, RIGHT = 0, 3, 6


@functools.cache
def compiled():
    env = CarFlag()

    def one(state, action):
        key = jax.random.key(0)
        step = env.step(key, state, action)
        return step, env.observe(key, state, action, step.state)

    return jax.jit(jax.vmap(one))


def take(states, actions):
    """Steps and observations for states [COUNT, 3] and actions [COUNT]; shorter batches are padded."""
    states, actions = np.asarray(states, np.float32), np.asarray(actions, np.int32)
    missing = COUNT - len(states)
    padded = np.pad(states, ((0, missing), (0, 0))), np.pad(actions, (0, missing))
    return jax.tree.map(lambda leaf: leaf[: len(states)], jax.device_get(compiled()(*padded)))


def within(low: float, high: float) -> st.SearchStrategy[np.ndarray]:
    elements = st.floats(np.float32(low).item(), np.float32(high).item(), width=32)
    return arrays(np.float32, COUNT, elements=elements, fill=st.nothing())


@settings(max_examples=30, phases=[Phase.generate])  # a failure names its state, so a batch need not be shrunk
@given(
    position=within(-1.1, 1.1),
    velocity=within(-0.07, 0.07),
    heaven=arrays(np.float32, COUNT, elements=st.sampled_from([-1.0, 1.0]), fill=st.nothing()),
    action=arrays(np.int32, COUNT, elements=st.integers(0, 6), fill=st.nothing()),
)
def test_steps_over_the_whole_box(position, velocity, heaven, action):
    states = np.stack([position, velocity, heaven], -1)
    step, seen = take(states, action)
    for i, state in enumerate(states.astype(np.float64)):
        compare(Car(*state), int(action[i]), jax.tree.map(lambda leaf, i=i: leaf[i], step), seen[i])


def compare(car: Car, action: int, step, seen) -> None:
    after, reward, ended = oracle.step(car, action)
    case = f"action {action} in {car}"
    np.testing.assert_allclose(step.state[0], after.position, atol=ROUNDING, rtol=0, err_msg=case)
    assert step.state[2] == after.heaven, case
    before_the_wall = car.position + oracle.accelerate(car, action)
    if abs(before_the_wall + oracle.MAX_POSITION) > ROUNDING:
        np.testing.assert_allclose(step.state[1], after.velocity, atol=ROUNDING, rtol=0, err_msg=case)
    if abs(abs(after.position) - oracle.FLAG) > ROUNDING:
        assert (step.reward, step.terminated) == (reward, ended), case
    np.testing.assert_array_equal(seen[:2], step.state[:2], err_msg=case)
    if min(abs(after.position - oracle.INFO_FROM), abs(after.position - oracle.INFO_TO)) > ROUNDING:
        assert seen[2] == oracle.observe(after)[2], case


@pytest.mark.parametrize("heaven", [-1.0, 1.0])
def test_thresholds_belong_to_the_flags(heaven):
    # A car that stands still with the engine off stays exactly where it is.
    exact = [1.0, -1.0, 0.3, 0.7]
    outwards = [0.0, 0.0, -1.0, 1.0]
    inwards = [0.0, 0.0, 1.0, -1.0]
    places = [np.float32(x) for x in exact] + [
        np.nextafter(np.float32(x), np.float32(y))
        for x, y in zip(exact + exact[2:], outwards + inwards[2:], strict=True)
    ]
    step, seen = take([[x, 0.0, heaven] for x in places], [NONE] * len(places))
    np.testing.assert_array_equal(step.state[:, 0], places)
    assert step.terminated.tolist() == [True, True] + [False] * 8
    assert step.reward.tolist() == [heaven, -heaven] + [0] * 8
    assert seen[:, 2].tolist() == [0, 0, heaven, heaven, 0, 0, 0, 0, heaven, heaven]


def test_the_left_wall_stops_the_car():
    step, _ = take([[-1.1, -0.05, 1.0], [1.1, 0.05, 1.0]], [LEFT, RIGHT])
    assert step.state[0].tolist() == [np.float32(-1.1), 0, 1]
    np.testing.assert_allclose(step.state[1], [1.1, 0.0515, 1], rtol=1e-6)


def drive(positions: list[float], actions: np.ndarray) -> np.ndarray:
    """The positions of cars that start at rest and follow actions [time, car]: [time, car]."""
    states = np.array([[x, 0.0, 1.0] for x in positions], np.float32)
    path = []
    for action in actions:
        step, _ = take(states, action)
        states = step.state
        path.append(states[:, 0])
    return np.array(path)


def test_steps_to_the_right_flag():
    path = drive([0.2, 0.0, -0.2], np.full((40, 3), RIGHT))
    assert [(path[:, car] >= 1).argmax() + 1 for car in range(3)] == [33, 37, 40]


@pytest.mark.parametrize(("start", "fewest"), [(0.2, 60), (0.0, 72), (-0.2, 80)])
def test_steps_to_the_left_flag_past_the_info_flag(start, fewest):
    # Full throttle to the right for k steps, then to the left; all k at once. Only those that were told count.
    turns = np.arange(COUNT)
    actions = np.where(np.arange(100)[:, None] < turns, RIGHT, LEFT)
    path = drive([start] * turns.size, actions)
    steps = []
    for car in range(turns.size):
        if path[:, car].min() <= -1:
            arrival = int((path[:, car] <= -1).argmax())
            reach = path[:arrival, car].max()
            if 0.3 <= reach < 1:
                steps.append(arrival + 1)
    assert min(steps) == fewest


def test_starts():
    env = CarFlag()

    def begin(key):
        state = env.reset(key)
        return state, env.first_observation(key, state)

    states, seen = jax.device_get(jax.jit(jax.vmap(begin))(jax.random.split(jax.random.key(0), 20_000)))
    assert set(states[:, 1].tolist()) == {0}
    assert set(states[:, 2].tolist()) == {-1, 1}
    assert (np.abs(states[:, 0]) <= np.float32(0.2)).all()
    spread = oracle.START_TO - oracle.START_FROM
    assert stats.kstest(states[:, 0], stats.uniform(oracle.START_FROM, spread).cdf).pvalue > FALSE_ALARM
    tenth = np.floor((states[:, 0] - oracle.START_FROM) / spread * 10).clip(0, 9).astype(int)
    side = (states[:, 2] > 0).astype(int)
    assert_uniform(np.stack([tenth, side], -1), (10, 2))
    np.testing.assert_array_equal(seen, states * [1, 1, 0])


def test_latents_outside_the_box_are_refused():
    env = CarFlag()
    assert env.latent_problem(np.array([0.5, 0.0, -1.0])) is None
    assert "outside" in (env.latent_problem(np.array([1.2, 0.0, 1.0])) or "")
    assert env.latent_problem(np.array([0.5, 0.0, 0.0])) is not None
    np.testing.assert_array_equal(
        env.latent(env.from_latent(jnp.array([0.5, 0.01, -1.0]))), np.array([0.5, 0.01, -1], np.float32)
    )
