"""Every command works in every kind of world: ids, files, modules, gymnax, `.pomdp` files, objects made in Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import asymrl
from asymrl.cli import main
from asymrl.runs.callback import Callback
from asymrl.runs.placement import Placement
from asymrl.runs.store import Store

CODE = Path(__file__).parents[2] / "examples" / "t_maze.py"
TIGER = """discount: 0.95
states: left right
actions: listen open
observations: hear-left hear-right
T: * identity
O: * identity
R: listen : * : * : * -1
R: open : left : * : * 10
R: open : right : * : * -100
"""
WORLDS = {
    "id": "CartPole-v1",
    "id with arguments": "CartPole-v1:sutton_barto_reward=true",
    "file": "mazes.py:TMaze:length=2,noise=0.1",
    "module": "maze_module:TMaze:length=2",
    "gymnax": "gymnax:CartPole-v1",
    "gymnax with arguments": "gymnax:CartPole-v1:gravity=9.0",
    "pomdp": "tiger.pomdp",
}
TINY = {"memory_size": 4, "hidden": (4,), "time_limit": 5, "log_points": 2}
OPTIONS = ["--memory-size", "4", "--hidden", "4", "--time-limit", "5", "--log-points", "2"]
SET = ["memory_size=4", "hidden=4", "time_limit=5", "log_points=2"]
NEXT = (
    ["evaluate", "runs", "--episodes", "4"],
    ["render", "runs", "--steps", "1"],
    ["render", "runs", "--steps", "1", "-o", "moment.png"],
    ["play", "runs", "--fast", "--steps", "1"],
    ["export", "runs", "-o", "policy.npz"],
    ["report", "runs", "-o", "page.html", "--episodes", "1"],
    ["resume", "runs", "--steps", "80"],
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file, a module and a problem."""
    for name in ("mazes.py", "maze_module.py"):
        shutil.copy(CODE, tmp_path / name)
    (tmp_path / "tiger.pomdp").write_text(TIGER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "maze_module", raising=False)
    return tmp_path


def need(world: str) -> None:
    if world.startswith("gymnax"):
        pytest.importorskip("gymnax")


def complete(path: str | Path) -> list[str]:
    """The worlds of a store all of whose runs are complete."""
    store = Store.open(Path(path))
    assert not store.unfinished()
    return sorted({run.settings.world for run in store.runs})


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, as users run it."""
    line = [sys.executable, "-m", "asymrl", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=600, check=False, env=dict(os.environ))


def test_a_file_from_training_to_its_use(folder: Path, capsys: pytest.CaptureFixture[str]):
    world = WORLDS["file"]
    assert main(["train", world, "--method", "a2c", "--seeds", "1", "--steps", "40", *OPTIONS, "--out", "runs"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "runs", "--episodes", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["world"] == world
    shutil.move("runs", "moved")
    (folder / "mazes.py").unlink()
    assert main(["export", "moved", "-o", "policy.npz"]) == 0
    out = capsys.readouterr().out
    assert "mazes.py is no longer at" in out
    assert "agrees with the agent" in out


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_every_command_by_name(world: str, capsys: pytest.CaptureFixture[str]):
    need(world)
    assert main(["check", world]) == 0
    assert main(["render", world, "--steps", "1"]) == 0
    assert main(["train", world, "--seeds", "1", "--steps", "40", *OPTIONS, "--out", "runs"]) == 0
    for line in NEXT:
        assert main(line) == 0, capsys.readouterr().err
    assert Path("moment.png").exists()
    assert "No episodes" not in Path("page.html").read_text()
    assert complete("runs") == [world]
    assert Store.open(Path("runs")).runs[0].settings.steps == 80


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("placement", [[], ["--processes", "2"]], ids=["threads", "processes"])
def test_sweeps_and_comparisons_by_name(world: str, placement: list[str], capsys: pytest.CaptureFixture[str]):
    need(world)
    methods = ["--methods", "a2c", "a2c-asym-hs"]
    sweep = ["sweep", "--env", world, *methods, "--seeds", "1", "--set", *SET, "steps=40", "--out", "sweep"]
    assert main([*sweep, *placement]) == 0, capsys.readouterr().err
    assert complete("sweep") == [world]
    compare = ["compare", world, *methods, "--seeds", "2", "--steps", "40", "--set", *SET, "--out", "comparison"]
    assert main([*compare, *placement]) == 0, capsys.readouterr().err
    assert complete("comparison") == [world]


@pytest.mark.slow
@pytest.mark.parametrize("world", [WORLDS["file"], WORLDS["id"], WORLDS["gymnax"]])
def test_two_devices(world: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    need(world)
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    monkeypatch.setenv("XLA_FLAGS", flags)
    done = command("train", world, "--seeds", "2", "--steps", "40", *OPTIONS, "--out", "runs")
    assert done.returncode == 0, done.stderr
    assert complete("runs") == [world]
    done = command("resume", "runs", "--trust", "--steps", "80", "--processes", "2")
    assert done.returncode == 0, done.stderr
    assert Store.open(folder / "runs").runs[0].settings.steps == 80


class Cart(gymnasium.Wrapper):
    """An environment of the user's that has arguments."""

    def __init__(self, loud: bool = False):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.loud = loud


def made_in_python(kind: str) -> Any:
    """An object that the user made."""
    if kind == "gymnax object":
        gymnax = pytest.importorskip("gymnax")
        return asymrl.from_gymnax(*gymnax.make("CartPole-v1"), name="gymnax-cart")
    return {
        "world": lambda: asymrl.from_gymnasium(lambda: Cart(loud=True), name="loud-cart"),
        "class": lambda: Cart,
        "environment": lambda: gymnasium.make("CartPole-v1"),
        "own world": lambda: asymrl.make(f"{CODE.parent / 'my_world.py'}:Corridor"),
    }[kind]()


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("kind", ["world", "class", "environment", "own world", "gymnax object"])
def test_everything_from_python_with_objects(kind: str):
    made = made_in_python(kind)
    how: dict[str, Any] = {"display": Callback(), **TINY}
    runs = asymrl.train(made, "a2c", seeds=1, steps=40, out="runs", **how)
    assert len(runs.evaluate(episodes=4)) == 1
    runs.export("policy.npz")
    runs.render("moment.png")
    runs.report("page.html", episodes=1)
    runs = asymrl.resume("runs", steps=80, display=Callback())
    runs = asymrl.sweep(made, ["a2c"], out="sweep", seeds=1, steps=40, placement=Placement(processes=1), **how)
    assert complete("sweep") == [runs.runs[0].settings.world]
    asymrl.compare(made, ["a2c", "a2c-asym-hs"], seeds=2, steps=40, out="comparison", **how)
    complete("comparison")


@pytest.mark.usefixtures("folder")
def test_what_cannot_reach_other_processes_is_said_before_anything_is_written():
    lock = __import__("threading").Lock()
    world = asymrl.from_gymnasium(lambda: Cart(loud=lock.locked()), name="locked-cart")
    for train in (
        lambda: asymrl.train(world, "a2c", seeds=1, placement=Placement(processes=1), out="runs"),
        lambda: asymrl.sweep(world, "a2c", seeds=1, placement=Placement(processes=1), out="runs"),
        lambda: asymrl.compare(world, ["a2c"], seeds=2, placement=Placement(processes=1), out="runs"),
    ):
        with pytest.raises(ValueError, match="locked-cart was made in Python and cannot be sent to other processes"):
            train()
        assert not Path("runs").exists()
    with pytest.raises(ValueError, match="locked-cart is already made; make it with these arguments: loud"):
        asymrl.train(world, env_kwargs={"loud": True})
