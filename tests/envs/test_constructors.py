"""Arguments of an environment's constructor: in its name, in a file, from Python, and in a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gymnasium.envs import registration

from asymrl.api.wanted import settings_for, sweep_runs, world_names
from asymrl.cli import main
from asymrl.envs.constructors import checked_arguments, parameters_of
from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.envs.sources import GYMNASIUM_OPTIONS
from asymrl.runs.files import RunError
from asymrl.runs.tables import runs_table, shown_settings
from asymrl.runs.trained import choose_runs
from asymrl.worlds.name_options import parse_options, with_options
from asymrl.worlds.registry import arguments_of, full_name, make
from asymrl.worlds.stepped_world import SteppedWorld

LAMPS = """
import gymnasium


class Base(gymnasium.Env):
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, lamps: int = 2, *, dim: float = 0.5, label: str | None = None, discount=1.0):
        self.observation_space = gymnasium.spaces.MultiDiscrete([2] * lamps)
        self.dim, self.label, self.discount = dim, label, discount

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {"state": 0}

    def step(self, action):
        return self.observation_space.sample(), self.dim, True, False, {"state": 0}


class Lamps(Base):
    def __init__(self, bulbs=1, **kwargs):
        super().__init__(**kwargs)
        self.bulbs = bulbs


def row(count: int):
    return Base(count)


def hall(count: int, lit: bool):
    return Base(count)


gymnasium.register("Lamps-v0", entry_point=Base, kwargs={"lamps": 3})
"""


@pytest.fixture
def lamps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registration, "registry", dict(registration.registry))
    path = tmp_path / "lamps.py"
    path.write_text(LAMPS)
    return path


def made(name: str, **options: Any) -> Any:
    world = make(name, **options)
    assert isinstance(world, SteppedWorld)
    return world.make().unwrapped


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a=1,b=0.5,c=true,d=none,e=word", {"a": 1, "b": 0.5, "c": True, "d": None, "e": "word"}),
        ('a="1",b="x,y",c=[1,2],d={"k":[1]}', {"a": "1", "b": "x,y", "c": [1, 2], "d": {"k": [1]}}),
        ("env.a=1,latent=m.py:f", {"env.a": 1, "latent": "m.py:f"}),
    ],
)
def test_options_are_text(text: str, options: dict[str, Any]):
    assert parse_options("world", text) == options
    assert parse_options("world", with_options("", options)[1:]) == options


def test_names_of_equal_worlds_are_equal():
    assert full_name("lamps.py:Base:dim=0.1,lamps=4") == full_name("lamps.py:Base:lamps=4", {"dim": 0.1})
    assert full_name("lamps.py:Base", {"discount": 0.5}) == "lamps.py:Base:env.discount=0.5"  # also an option of ours
    assert full_name("cleaner:maze_seed=7", {"maze_seed": 8}) == "cleaner:maze_seed=8"
    assert full_name("CartPole-v1") == "CartPole-v1"
    with pytest.raises(ValueError, match="the argument wrapper is a type, which cannot be kept with a run"):
        full_name("lamps.py:Base", {"wrapper": int})
    assert arguments_of("lamps.py:Base:dim=0.1,env.discount=0.5,stepping=processes") == {"dim": 0.1, "discount": 0.5}


def test_arguments_reach_the_constructor(lamps: Path):
    env = made("lamps.py:Base:lamps=4,dim=1,label=none,env.discount=0.5")
    assert (env.observation_space.shape, env.dim, env.discount) == ((4,), 1.0, 0.5)
    assert isinstance(env.dim, float)
    assert made("lamps.py:Lamps", env_kwargs={"bulbs": 3, "lamps": 5}).bulbs == 3
    assert made("lamps.py:row:count=6").observation_space.shape == (6,)
    assert made("lamps.py:Lamps-v0").observation_space.shape == (3,)
    assert made("lamps.py:Lamps-v0:dim=2").dim == 2
    assert made("CartPole-v1:sutton_barto_reward=true")._sutton_barto_reward
    assert make("lamps.py:Base:time_limit=9,lamps=4", time_limit=8).time_limit == 8


def test_gymnax_arguments():
    pytest.importorskip("gymnax")
    world: Any = make("gymnax:CartPole-v1:gravity=3.5")
    assert world.params.gravity == 3.5
    assert world.name == "gymnax:CartPole-v1:gravity=3.5"
    with pytest.raises(ValueError, match="no argument 'gravitty'; did you mean 'gravity'"):
        make("gymnax:CartPole-v1:gravitty=3.5")
    with pytest.raises(ValueError, match="the argument gravity is 'high', expected a number"):
        make("gymnax:CartPole-v1:gravity=high")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lamps.py:Base:lamp=4", "lamps.py:Base: its constructor has no argument 'lamp'; did you mean 'lamps'? it has"),
        ("lamps.py:Base:lamps=many", "the argument lamps is 'many', expected a whole number"),
        ("lamps.py:Base:lamps=true", "the argument lamps is True, expected a whole number"),
        ("lamps.py:Base:label=9", 'the argument label is 9, expected text or none; write label="9"'),
        ("lamps.py:Lamps:bulbs=many", "the argument bulbs is 'many', expected a number, as its default 1"),
        ("lamps.py:Lamps:bulb=2", "no argument 'bulb'; did you mean 'bulbs'"),
        ("lamps.py:row", "its constructor needs count; write lamps.py:row:count=VALUE"),
        ("lamps.py:hall:lit=true", "its constructor needs count; write lamps.py:hall:lit=true,count=VALUE"),
        ("lamps.py:Lampps", "lamps.py has no 'Lampps'; did you mean 'Lamps'?"),
        (
            "lamps.py:Base:discount=0.5",
            "discount is an option of asymrl and an argument of the constructor; write env.d",
        ),
        ("lamps.py:Lamps-v0:discount=0.5", "write env.discount for the argument, or --discount for the run"),
        ("CartPole-v1:nonsense=1", "its constructor has no argument 'nonsense'; it has sutton_barto_reward"),
    ],
)
def test_wrong_arguments_are_named(lamps: Path, name: str, message: str):
    with pytest.raises(ValueError) as caught:
        make(name)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_of_ours_are_those_of_from_gymnasium():
    known, _ = parameters_of(from_gymnasium)
    assert set(known) - {"env", "env_kwargs", "name"} == GYMNASIUM_OPTIONS


def test_what_cannot_be_known_is_left_to_the_constructor():
    assert checked_arguments("x", lambda **anything: None, {"a": [1]}) == {"a": [1]}
    assert checked_arguments("x", lambda a: None, {"a": {"b": 1}}) == {"a": {"b": 1}}


def test_arguments_are_part_of_the_settings(lamps: Path):
    settings = settings_for("lamps.py:Base:lamps=4,dim=1", "a2c")
    assert settings.world == "lamps.py:Base:dim=1,lamps=4"
    (name,), _ = world_names(["lamps.py:Base"], {"lamps": 4})
    assert name == "lamps.py:Base:lamps=4"


def test_an_argument_is_an_axis_of_a_sweep_and_a_column(lamps: Path):
    runs = sweep_runs(["lamps.py:Base:dim=2"], ["a2c"], {"env.lamps": [3, 4], "env.label": [None, "b"]}, [0])
    worlds = [run.settings.world for run in runs]
    assert worlds[0] == "lamps.py:Base:dim=2,label=none,lamps=3"
    assert len(set(worlds)) == 4
    table = runs_table(dict(enumerate(runs)), {}, shown_settings(runs))
    assert table["env.lamps"].to_list() == [3, 3, 4, 4]
    assert table["env.label"].to_list() == [None, "b", None, "b"]
    assert choose_runs(runs, {"env.lamps": "4", "env.label": "b"}) == [3]
    with pytest.raises(RunError, match=r"no run has env.lamps=9; env.lamps is 3 or 4"):
        choose_runs(runs, {"env.lamps": 9})
    with pytest.raises(ValueError, match="no argument 'lmps'"):
        sweep_runs(["lamps.py:Base"], ["a2c"], {"env.lmps": [3]}, [0])


def test_a_file_of_arguments(lamps: Path, capsys: pytest.CaptureFixture[str]):
    Path("args.toml").write_text("lamps = 0.5")
    for command in (["train", "lamps.py:Base"], ["compare", "lamps.py:Base"], ["render", "lamps.py:Base"]):
        assert main([*command, "--env-args", "args.toml"]) == 2
        assert "the argument lamps is 0.5, expected a whole number" in capsys.readouterr().err
    assert main(["train", "lamps.py:Base", "--env-args", "none.toml"]) == 2
    assert "--env-args none.toml: cannot be read" in capsys.readouterr().err
