"""A file is a world wherever the name of one is accepted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asymrl.api.wanted import settings_for
from asymrl.cli import main
from asymrl.envs.pomdp_files import to_text
from asymrl.runs.files import RunError
from asymrl.runs.options import world_settings
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.settings import A2CSettings
from asymrl.theory.exact.analysis import as_pomdp
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.registry import make
from tests.envs.pomdp_files.texts import TIGER


@pytest.fixture
def tiger(tmp_path: Path) -> Path:
    path = tmp_path / "my tiger.pomdp"
    path.write_text(TIGER)
    return path


def test_the_world_of_a_file_is_the_built_in_one(tiger: Path) -> None:
    world, built_in = make(str(tiger)), make("tiger:episodic=true")
    assert isinstance(world, FiniteWorld)
    assert isinstance(built_in, FiniteWorld)
    assert (world.name, world.discount, world.time_limit) == ("my tiger", 0.95, 100)
    assert world.observation_space == built_in.observation_space
    for table in "TORD":
        np.testing.assert_array_equal(getattr(world, table), getattr(built_in, table))


def test_heaven_hell_from_a_file(tmp_path: Path) -> None:
    path, built_in = tmp_path / "heaven-hell.pomdp", make("heaven-hell-3")
    assert isinstance(built_in, FiniteWorld)
    path.write_text(to_text(built_in))
    world = make(str(path))
    assert isinstance(world, FiniteWorld)
    for table in "TORD":
        np.testing.assert_array_equal(getattr(world, table), getattr(built_in, table))


def test_options_behind_the_path(tiger: Path) -> None:
    world = make(f"{tiger}:time_limit=7,discount=0.5,episodic=false")
    assert isinstance(world, FiniteWorld)
    assert (world.time_limit, world.discount, world.D.any()) == (7, 0.5, False)
    assert make(str(tiger), time_limit=9).time_limit == 9
    with pytest.raises(ValueError, match="has no option 'time_limitt'; its options are discount, episodic, time_limit"):
        make(f"{tiger}:time_limitt=7")
    with pytest.raises(ValueError, match="option episodic is 3, expected bool"):
        make(f"{tiger}:episodic=3")
    with pytest.raises(ValueError, match="'episodic' is not an option; write PATH:key=value"):
        make(f"{tiger}:episodic")
    with pytest.raises(ValueError, match="No such file"):
        make(str(tiger.with_name("other.pomdp")))


def test_theory_takes_the_path(tiger: Path) -> None:
    assert as_pomdp(str(tiger)).state_names == ("tiger-left", "tiger-right")


def test_a_changed_file_is_another_world(tiger: Path) -> None:
    assert make(str(tiger)).discount == 0.95
    tiger.write_text(TIGER.replace("0.95", "0.9"))
    assert make(str(tiger)).discount == 0.9


def test_the_discount_of_the_file_is_the_default(tiger: Path) -> None:
    assert world_settings(f"{tiger}:time_limit=12") == {"discount": 0.95, "time_limit": 12}
    assert world_settings("heaven-hell-3") == {}
    assert world_settings("cart-pole:velocities=true") == {"time_limit": 500}
    assert settings_for(str(tiger), "a2c").discount == 0.95
    assert settings_for(str(tiger), "a2c", discount=0.5).discount == 0.5


def test_runs_continue_with_the_file_as_it_was(tiger: Path, tmp_path: Path) -> None:
    Store.create(tmp_path / "runs", [Run(A2CSettings(world=str(tiger)), seed=0)]).release()
    told: list[str] = []
    Store.open(tmp_path / "runs").make_ready(say=told.append)
    assert told == []
    tiger.write_text(TIGER.replace("0.95", "0.9"))
    store = Store.take(tmp_path / "runs")
    store.extend(4_000_000)  # writes the settings again, and must not accept the changed file
    store.release()
    store = Store.open(tmp_path / "runs")
    store.make_ready(say=told.append)
    assert "has changed since the runs began; using the copy" in told[0]
    assert make(str(tiger), trust=False).discount == 0.95  # as the store has it
    assert make(str(tiger)).discount == 0.9  # as the user who names it means it
    copy = store.path / str(store.sources[str(tiger)].copy)
    copy.write_text(TIGER + "# changed, too")
    with pytest.raises(RunError, match=r"has changed since the runs began; its copy .* is damaged"):
        store.make_ready()
    tiger.write_text(TIGER)
    store.make_ready()


def test_commands(tiger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(tiger), "--steps", "1"]) == 0
    assert "tiger-" in capsys.readouterr().out
    assert main(["check", str(tiger)]) == 0
    assert "my tiger: 2 states" in capsys.readouterr().out
    broken = tmp_path / "broken.pomdp"
    broken.write_text(TIGER.replace("start: uniform", "start: tiger-left tiger-right"))
    for command in ("render", "check", "train"):
        assert main([command, str(broken)]) == 2
        assert "broken.pomdp, line 6, column 19: found 'tiger-right'" in capsys.readouterr().err
