"""Worlds that are not part of the package, by name."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium.envs import registration

import asymrl
from asymrl.api.wanted import known_by_name, sweep_runs, world_names
from asymrl.envs import register, user_code
from asymrl.envs.surroundings import surroundings_of
from asymrl.settings import A2CSettings
from asymrl.worlds.builtin.tiger import Tiger
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.registry import make, source_of, split_options
from asymrl.worlds.stepped_world import SteppedWorld, UserCodeError

PACKAGE = Path(asymrl.__file__).parent
OWN = """
from asymrl.worlds import Tiger


class Loud(Tiger):
    def __init__(self, *, episodic=True):
        super().__init__(episodic=episodic)


quiet = Tiger(time_limit=7)
number = 3
"""

TINY_PROBLEM = """discount: 0.95
states: left right
actions: listen open
observations: quiet
T: * identity
O: * uniform
R: open : left : * : * 1
"""
ON_ANOTHER_MACHINE = """
import pickle, sys, asymrl
pickle.load(sys.stdin.buffer).set_up()
own, problem = (asymrl.make(name, trust=False) for name in sys.argv[1:])
print(own.name, problem.latent_space.n)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "own_worlds.py"
    path.write_text(OWN)
    return str(path)


def test_a_world_in_a_file_of_the_user(file: str):
    assert make(f"{file}:Loud").name == "tiger"
    assert make(f"{file}:Loud", time_limit=5).time_limit == 5
    world = make(f"{file}:Loud:episodic=false,time_limit=6")
    assert isinstance(world, Tiger)
    assert (world.episodic, world.time_limit) == (False, 6)
    assert make(f"{file}:quiet").time_limit == 7


GUESSING = """
import gymnasium
from beside import SIDES


class Coin(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(1)
    action_space = gymnasium.spaces.Discrete(SIDES)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side = int(self.np_random.integers(SIDES))
        return 0, {}

    def step(self, action):
        return 0, float(action == self.side), True, False, {}


def truth(env):
    return env.unwrapped.side


gymnasium.register("BesideCoin-v0", entry_point=Coin)
"""


@pytest.fixture
def coin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with an environment that imports another file of its folder, which is not the current one."""
    monkeypatch.setattr(user_code, "_FILES", {})
    monkeypatch.setattr(registration, "registry", dict(registration.registry))
    (tmp_path / "beside.py").write_text("SIDES = 2")
    path = tmp_path / "coins.py"
    path.write_text(GUESSING)
    return str(path)


def test_an_environment_in_a_file_and_a_function_that_tells_its_latent_state(coin: str):
    before = list(sys.path)
    for name in (f"{coin}:Coin", f"{coin}:BesideCoin-v0"):
        world = make(f"{name}:latent={coin}:truth")
        assert isinstance(world, SteppedWorld)
        assert (len(world.action_names), world.without_latent) == (2, None)
    assert sys.path == before
    with pytest.raises(ValueError, match=r"latent '.*coins.py:lie': .* has no 'lie'"):
        make(f"{coin}:Coin:latent={coin}:lie")


@pytest.mark.slow
def test_processes_find_the_users_files(coin: str):
    world = make(f"{coin}:Coin:latent={coin}:truth,stepping=processes")
    assert isinstance(world, SteppedWorld)
    envs = world.open(2)
    try:
        _, latents = envs.reset([0, 1])
        assert np.isin(latents, [0, 1]).all()
    finally:
        envs.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{file}:Nobody", "has no 'Nobody'"),
        ("{file}:number", "is of type int; expected a World"),
        ("{file}:quiet:episodic=true", "is already built; it cannot take the options episodic"),
        ("nowhere_at_all:World", "nowhere_at_all cannot be imported"),
        ("missing.py:World", "there is no file missing.py"),
        ("{file}", r"is a file; name the class or function in it that makes the environment: .*own_worlds.py:Loud"),
        ("missing.py", "missing.py cannot be read: .*No such file"),
    ],
)
def test_what_is_wrong_is_named(file: str, name: str, message: str):
    with pytest.raises(ValueError, match=message):
        make(name.format(file=file))


@pytest.mark.parametrize(
    ("code", "cause", "last"),
    [
        (
            "import nothing_at_all",
            "own_worlds.py:1: ModuleNotFoundError: No module named",
            "No module named 'nothing_at",
        ),
        ("class Loud(:", "own_worlds.py:1: invalid syntax", "SyntaxError: invalid syntax"),
        ("1 / 0", "own_worlds.py:1: ZeroDivisionError: division by zero", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_that_fails_shows_the_users_own_lines(file: str, code: str, cause: str, last: str):
    Path(file).write_text(code)
    with pytest.raises(UserCodeError, match=cause) as caught:
        make(f"{file}:Loud")
    assert "\n" not in str(caught.value)
    assert code in caught.value.traceback
    assert last in caught.value.traceback.splitlines()[-1]
    assert str(PACKAGE) not in caught.value.traceback


def test_another_machine_gets_the_files_that_names_refer_to(file: str, tmp_path: Path):
    problem = tmp_path / "tiger.pomdp"
    problem.write_text(TINY_PROBLEM)
    names = [f"{file}:Loud", str(problem)]
    for name in names:
        make(name)
    sent = surroundings_of(names)
    Path(file).write_text("raise RuntimeError('another file of the same name')")
    problem.unlink()
    line = [sys.executable, "-c", ON_ANOTHER_MACHINE, *names]
    done = subprocess.run(line, input=pickle.dumps(sent), capture_output=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, [b"tiger", b"2"]), done.stderr.decode()


def test_a_world_from_python_is_known_by_its_name():
    name, settings = known_by_name(Tiger(time_limit=9))
    assert (name, settings) == ("tiger", {"discount": 0.95, "time_limit": 9})
    register("my tiger", lambda time_limit=3: Tiger(time_limit=time_limit))
    assert make("my tiger").time_limit == 3
    assert make("my tiger", time_limit=4).time_limit == 4
    with pytest.raises(ValueError, match="'tiger' is the name of a world of asymrl"):
        register("tiger", Tiger)
    with pytest.raises(ValueError, match="its name 'tiger' means a world of asymrl"):
        known_by_name(Tiger(episodic=True))
    with pytest.raises(TypeError, match="is not a world"):
        world_names([3], None)


def test_worlds_of_a_sweep_keep_their_own_settings():
    T, O, R, start = np.eye(2)[:, None], np.eye(2)[None], np.zeros((2, 1)), np.full(2, 0.5)
    own = [(10, 0.9), (30, 0.5)]
    worlds = [FiniteWorld.from_tables(f"own {n}", T, O, R, start, discount=gamma, time_limit=n) for n, gamma in own]
    names, brought = world_names([*worlds, "heaven-hell-3"], None)
    assert brought == {}
    planned = [(run.settings.time_limit, run.settings.discount) for run in sweep_runs(names, ["a2c"], {}, [0])]
    assert planned == [*own, (A2CSettings.time_limit, A2CSettings.discount)]


def test_another_limit_leaves_the_world_alone():
    world = Tiger(time_limit=9)
    assert (world.with_time_limit(2).time_limit, world.time_limit) == (2, 9)


@pytest.mark.parametrize(
    ("name", "base", "options", "outside"),
    [
        ("tiger", "tiger", "", False),
        ("tiger:episodic=true", "tiger", "episodic=true", False),
        ("CartPole-v1", "CartPole-v1", "", True),
        ("mine:Env-v0", "mine:Env-v0", "", True),
        ("mine:Env-v0:latent=mine:f,time_limit=5", "mine:Env-v0", "latent=mine:f,time_limit=5", True),
        ("gymnax:Pendulum-v1:time_limit=5", "gymnax:Pendulum-v1", "time_limit=5", True),
        ("asymrl/Tiger-v0", "asymrl/Tiger-v0", "", True),
    ],
)
def test_names_and_their_options(name: str, base: str, options: str, outside: bool):
    assert split_options(name) == (base, options)
    assert (source_of(name) is not None) == outside
