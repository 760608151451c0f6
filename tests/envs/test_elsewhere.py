"""Worlds that are not part of the package, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from asymrl.envs.classics import Tiger
from asymrl.envs.elsewhere import register, with_limit
from asymrl.envs.registry import make
from asymrl.names import is_from_elsewhere, split_options
from asymrl.training import _known_by_name

OWN = """
from asymrl.envs import Tiger


class Loud(Tiger):
    def __init__(self, *, episodic=True):
        super().__init__(episodic=episodic)


quiet = Tiger(time_limit=7)
number = 3
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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{file}:Nobody", "has no 'Nobody'"),
        ("{file}:number", "is a int; expected a World"),
        ("{file}:quiet:episodic=true", "is built already; it can not have the options episodic"),
        ("nowhere_at_all:World", "nowhere_at_all can not be imported"),
        ("missing.py:World", "there is no file missing.py"),
    ],
)
def test_what_is_wrong_is_named(file: str, name: str, message: str):
    with pytest.raises(ValueError, match=message):
        make(name.format(file=file))


def test_a_world_from_python_is_known_by_its_name():
    name, settings = _known_by_name(Tiger(time_limit=9), {"steps": 5})
    assert (name, settings) == ("tiger", {"discount": 0.95, "time_limit": 9, "steps": 5})
    register("my tiger", lambda time_limit=3: Tiger(time_limit=time_limit))
    assert make("my tiger").time_limit == 3
    assert make("my tiger", time_limit=4).time_limit == 4
    with pytest.raises(TypeError, match="is no world"):
        _known_by_name(3, {})  # pyright: ignore[reportArgumentType]


def test_another_limit_leaves_the_world_alone():
    world = Tiger(time_limit=9)
    assert (with_limit(world, 2).time_limit, world.time_limit) == (2, 9)


@pytest.mark.parametrize(
    ("name", "base", "options", "elsewhere"),
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
def test_names_and_their_options(name: str, base: str, options: str, elsewhere: bool):
    assert split_options(name) == (base, options)
    assert is_from_elsewhere(name) == elsewhere
