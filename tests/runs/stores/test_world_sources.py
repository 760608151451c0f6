"""Stores that came from somewhere else: what they bring along, and whose code runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import gymnasium
import pytest

import asymrl
from asymrl.api.wanted import known_by_name
from asymrl.cli import main
from asymrl.envs import sources, user_code
from asymrl.envs.sources import code_sources
from asymrl.runs.files import RunError
from asymrl.runs.store import Store
from asymrl.worlds import allowed_code
from asymrl.worlds.allowed_code import UntrustedCodeError, allow
from asymrl.worlds.registry import make
from tests.runs.stores.foreign_stores import digest, fresh, store_of, write_code

__all__ = ["fresh"]

COMMANDS = (
    ["evaluate", "runs"],
    ["render", "runs"],
    ["play", "runs", "--fast"],
    ["export", "runs", "-o", "policy.npz"],
    ["resume", "runs"],
    ["resume", "runs", "--steps", "4000000"],
)


@pytest.mark.parametrize(
    "world", ["evil.py:Env", "evil:Env", "evil.py:Env-v0", "evil:Env-v0:size=3", "CartPole-v1:latent=evil:truth"]
)
def test_a_store_from_elsewhere_runs_nothing(world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    mark = tmp_path / "mark"
    write_code(Path("evil.py"), mark)
    store_of(world)
    before = digest(Path())
    for command in COMMANDS:
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "evil" in said.partition("would run")[2], said
        assert "--trust" in said
        assert digest(Path()) == before
    # The page has tables and curves, whose worlds are named in files, too; it says why there are no episodes.
    assert main(["report", "runs", "-o", "page.html"]) == 0
    assert "would run" in Path("page.html").read_text()
    runs = asymrl.load("runs")
    _ = runs.summary(), runs.ranking(), runs.table, repr(runs), runs._repr_html_()
    with pytest.raises(RunError, match="trust=True"):
        runs.best()
    with pytest.raises(RunError, match="trust=True"):
        asymrl.Policy("runs")
    with pytest.raises(UntrustedCodeError, match="would run code"):
        make(world, trust=False)
    assert not mark.exists()


def test_with_the_users_word_it_runs(tmp_path: Path):
    write_code(Path("evil.py"), tmp_path / "mark")
    store_of("evil.py:Env")
    with pytest.raises(RunError, match="no checkpoint yet"):
        asymrl.load("runs", trust=True).best()
    assert not (tmp_path / "mark").exists()  # there is nothing to load, so nothing is made
    assert make("evil.py:Env", trust=False).name == "evil.py:Env"
    assert (tmp_path / "mark").exists()


def test_a_file_that_the_user_has_named_is_not_one_of_the_same_name_from_elsewhere(tmp_path: Path):
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    write_code(Path("own.py"), theirs)
    store_of("own.py:Env")
    write_code(Path("own.py"), own)
    make("own.py:Env", trust=True)
    with pytest.raises(RunError, match=r"own.py:Env would run the file .*sources.*--trust"):
        told()
    user_code.load_attribute("env", "own.py", "Env")
    assert own.exists()
    assert not theirs.exists()


def trained_here(world: str) -> Store:
    """A store that was made in another process."""
    allow(world)
    store = store_of(world)
    allowed_code._ALLOWED.clear()
    user_code._LOCATIONS.clear()
    return store


def told(folder: str | Path = "runs", *, trust: bool = False) -> list[str]:
    """What is said when the worlds of a store are made ready."""
    said: list[str] = []
    Store.open(Path(folder), trust=trust).make_ready(say=said.append)
    return said


def test_the_file_is_found_where_it_was_or_where_its_name_leads_or_in_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_code(Path("own.py"), tmp_path / "mark")
    trained_here("own.py:Env:size=3")
    assert str(tmp_path) not in Path("runs/settings.json").read_text(), "nobody reads how the user's folders are called"
    assert told(trust=True) == []
    monkeypatch.chdir(tmp_path)  # another folder, with another file of this name
    Path("own.py").write_text("raise SystemExit")
    assert told("here/runs", trust=True) == []
    assert make("own.py:Env:size=3", trust=False).name == "own.py:Env:size=3"
    Path("far/away").mkdir(parents=True)
    shutil.copytree("here/runs", "far/away/moved")
    (said,) = told("far/away/moved", trust=True)
    assert "own.py is no longer at" in said
    assert "using the copy far/away/moved/sources/" in said
    assert told("far/away/moved", trust=True) == [], "once is enough"
    assert make("own.py:Env:size=3", trust=False).name == "own.py:Env:size=3"
    Path("here/own.py").write_text("raise SystemExit")
    assert "own.py has changed since the runs began" in told("here/runs", trust=True)[0]


def test_current_files_need_trust(tmp_path: Path):
    mark, code = tmp_path / "mark", Path("own.py")
    write_code(code, mark)
    trained_here("own.py:Env")
    settings = Path("runs/settings.json")
    before = settings.read_bytes()
    code.write_text(code.read_text() + "\n")

    opened = Store.open(Path("runs"))
    opened.use_current_files()
    assert settings.read_bytes() == before, "it was only opened"
    with pytest.raises(RunError, match="would run the file"):
        opened.make_ready()
    assert not mark.exists()

    taken = Store.take(Path("runs"), trust=True)
    taken.use_current_files()
    taken.release()
    said: list[str] = []
    taken.make_ready(say=said.append)
    assert said == [], "the file is used, not its copy"
    assert taken.sources["own.py"].sha256 == hashlib.sha256(code.read_bytes()).hexdigest()
    again = Store.open(Path("runs"))
    assert again.sources == taken.sources
    copy = again.sources["own.py"].copy
    assert copy is not None
    assert (again.path / copy).read_bytes() == code.read_bytes()


def test_a_path_of_earlier_code_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_code(Path("own.py"), tmp_path / "mark")
    trained_here("own.py:Env")
    settings = Path("runs/settings.json")
    settings.write_text(settings.read_text().replace('"../own.py"', f'"{Path("own.py").absolute()}"'))
    monkeypatch.chdir(tmp_path)
    assert told("here/runs", trust=True) == []


def test_installed_environments_need_no_word_unless_they_get_arguments():
    store_of("CartPole-v1")
    assert told() == []
    assert Store.open(Path("runs")).sources["CartPole-v1"].version
    shutil.rmtree("runs")
    store_of("CartPole-v1:sutton_barto_reward=true")
    with pytest.raises(RunError, match="would run an installed environment with these arguments"):
        told()
    assert told(trust=True) == []


def test_files_in_the_current_folder_are_no_modules_unless_code_is_wanted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    with user_code.user_path():
        assert os.getcwd() not in sys.path
    Path("own.py").write_text("VALUE = 1")
    user_code.load_module("x", "own.py")
    with user_code.user_path():
        assert sys.path[0] == os.getcwd()
    assert os.getcwd() not in sys.path


def test_bytecode_beside_a_file_is_not_run(tmp_path: Path):
    import py_compile

    Path("own.py").write_text("VALUE = 1")
    compiled = py_compile.compile("own.py", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert compiled is not None
    Path("own.py").write_text("VALUE = 2")
    assert user_code.load_attribute("x", "own.py", "VALUE") == 2


def test_a_world_made_in_python_needs_its_maker():
    world = asymrl.from_gymnasium(lambda: gymnasium.make("CartPole-v1"), name="mine")
    store_of(known_by_name(world)[0])
    assert told() == []
    sources._REGISTERED.pop("mine")
    with pytest.raises(RunError, match=r"mine was made in Python.*asymrl.register\('mine'"):
        told()
    asymrl.register("mine", lambda time_limit: world.with_time_limit(time_limit))
    assert told() == []


def test_a_world_made_in_python_from_a_name_is_made_again():
    store_of(known_by_name(asymrl.from_gymnasium("CartPole-v1", name="carts"))[0])
    assert Store.open(Path("runs")).sources["carts"].recipe == "CartPole-v1"
    sources._REGISTERED.pop("carts")
    assert told() == []
    assert make("carts", trust=False, time_limit=7).time_limit == 7
    sources._REGISTERED.pop("carts")


def test_the_files_and_modules_of_a_name():
    assert code_sources("a.py:E:length=3") == ("a.py",)
    assert code_sources("pkg.mod:E-v0:latent=b.py:truth") == ("pkg.mod", "b.py")
    assert code_sources("CartPole-v1") == code_sources("gymnax:CartPole-v1") == code_sources("x.pomdp") == ()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_failed_command_changes_nothing(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_code(Path("own.py"), tmp_path / "mark")
    allow("own.py:Env")
    store_of("own.py:Env")
    Path("own.py").unlink()
    shutil.rmtree("runs/sources")
    before = digest(Path())
    assert main(command) == 2
    assert "own.py is no longer at" in capsys.readouterr().err
    assert digest(Path()) == before


@pytest.mark.parametrize("world", ["gone.py:Env", "gone:Env", "Gone-v0", "gymnax:Gone", "gone.pomdp"])
@pytest.mark.parametrize(
    "command",
    [["train"], ["compare"], ["sweep", "--methods", "a2c", "--out", "runs", "--env"], ["check"], ["render"]],
    ids=lambda command: command[0],
)
def test_a_command_with_a_failing_environment_writes_nothing(
    command: list[str], world: str, capsys: pytest.CaptureFixture[str]
):
    if world.startswith("gymnax"):
        pytest.importorskip("gymnax")
    assert main([*command, world]) in (1, 2)
    said = capsys.readouterr().err
    assert said.startswith("asymrl: ")
    assert said.count("\n") == 1
    assert not list(Path().iterdir())
