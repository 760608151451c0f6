from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import gymnasium
import pytest

import asymrl
from asymrl.envs.registration import register_worlds

IDS = [
    "asymrl/HeavenHell-3-v0",
    "asymrl/HeavenHell-4-v0",
    "asymrl/Shopping-5-v0",
    "asymrl/Shopping-6-v0",
    "asymrl/CarFlag-v0",
    "asymrl/Cleaner-v0",
    "asymrl/MemoryFourRooms-7x7-v0",
    "asymrl/MemoryFourRooms-9x9-v0",
    "asymrl/GoodBad-v0",
    "asymrl/Tiger-v0",
    "asymrl/CartPole-v0",
    "asymrl/TMaze-10-v0",
    "asymrl/RockSample-4-4-v0",
    "asymrl/RockSample-7-8-v0",
    "asymrl/RockSample-11-11-v0",
]


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_registers_the_worlds_and_does_not_import_jax():
    printed = run_python(
        "import sys, gymnasium, asymrl, asymrl.envs, asymrl.worlds.registry\n"
        "print(*[id for id in gymnasium.registry if id.startswith('asymrl/')])\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('jax', 'equinox', 'matplotlib')])\n"
    )
    ids, heavy = printed.splitlines()
    assert ids.split() == IDS
    assert heavy == "[]"


def test_gymnasium_can_import_the_package_itself():
    printed = run_python(
        "import gymnasium\n"
        "env = gymnasium.make('asymrl:asymrl/Tiger-v0')\n"
        "print(type(env.unwrapped).__name__, env.reset(seed=0)[0])\n"
    )
    assert printed == "Environment 2\n"


def test_registering_again_changes_nothing():
    before = dict(gymnasium.registry)
    register_worlds()
    assert gymnasium.registry == before


def test_the_entry_point_registers_the_worlds():
    (entry,) = metadata.entry_points(group="gymnasium.envs", name="asymrl")
    assert entry.load() is register_worlds


@pytest.mark.parametrize("gymnasium_id", IDS)
def test_time_limits(gymnasium_id: str):
    limit = 500 if gymnasium_id == "asymrl/CartPole-v0" else 100  # the paper's, and that of Gymnasium's CartPole-v1
    assert gymnasium.spec(gymnasium_id).max_episode_steps == limit


def test_classes_are_found_in_the_package():
    from asymrl.envs.gymnasium_out import Environment, VectorEnvironment

    assert asymrl.envs.Environment is Environment
    assert asymrl.envs.VectorEnvironment is VectorEnvironment
    assert {"Environment", "VectorEnvironment"} < set(dir(asymrl.envs))
    with pytest.raises(AttributeError, match="no attribute 'Enviroment'"):
        _ = asymrl.envs.Enviroment  # pyright: ignore[reportAttributeAccessIssue]
