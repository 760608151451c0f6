"""The command line: what it prints, where it writes, and how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import pytest
from PIL import Image

import asymrl
from asymrl import cli
from asymrl.cli.command import COMMANDS
from asymrl.cli.commands import demo, envs
from asymrl.runs.trained import load_trained
from asymrl.worlds import WORLDS, Box, CarFlag, scores

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process: status, stdout, stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = cli.main(arguments)
        except SystemExit as leaving:  # how the parser ends
            status = int(leaving.code or 0)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120)


def test_help_is_printed_without_importing_anything_heavy():
    """Of all commands, in one process, one after the other."""
    script = """
import sys
from asymrl.cli import main
from asymrl.cli.command import COMMANDS
for command in ([], *([name] for name in COMMANDS)):
    try:
        assert main([*command, "--help"]) == 0
    except SystemExit as end:
        assert end.code == 0
print(*sys.modules, file=sys.stderr)
"""
    done = python("-c", script)
    assert done.returncode == 0
    assert all(f"usage: asymrl {name}" in done.stdout for name in ("COMMAND", *COMMANDS))
    heavy = {"jax", "equinox", "matplotlib", "PIL", "polars", "rich.live", "asymrl.worlds.world"}
    assert not heavy & set(done.stderr.split())


def test_both_ways_to_call_it_are_the_same():
    script = Path(sys.executable).with_name("asymrl")
    spoken = [
        subprocess.run([*how, "--version"], capture_output=True, text=True)
        for how in ([script], [sys.executable, "-m", "asymrl"])
    ]
    assert [(one.returncode, one.stdout) for one in spoken] == [(0, f"asymrl {asymrl.__version__}\n")] * 2


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_other_errors_keep_their_traceback(monkeypatch: pytest.MonkeyPatch, error: type[Exception]):
    def broken(self: object) -> int:
        raise error("a bug")

    monkeypatch.setattr(envs.Check, "run", broken)
    with pytest.raises(error, match="a bug"):
        cli.main(["check", "tiger"])


def test_an_interrupt_ends_quietly(monkeypatch: pytest.MonkeyPatch, run: Run):
    def interrupted(self: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(envs.Check, "run", interrupted)
    assert run("check", "tiger") == (130, "", "")


@pytest.mark.parametrize("arguments", [["envs"], ["envs", "--json"], ["render", "heaven-hell-3"]])
def test_a_reader_that_leaves_is_no_error(arguments: list[str]):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "asymrl", *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120
        )
    finally:
        os.close(writing)
    assert done.stderr == ""
    assert done.returncode in (1, 141)


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_table_of_worlds_fits_and_is_whole(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int):
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, _ = run("envs")
    assert status == 0
    assert max(len(line.rstrip()) for line in out.splitlines()) <= max(columns, 80)
    assert "…" not in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.split()}
    assert rows["shopping-6"][1:8] == ["1296", "6", "72", "0.99", "100", "-154.03", "3"]
    assert rows["cleaner"][1:8] == ["R^845", "16", "R^54", "0.99", "100", "~13.57", "71"]
    assert rows["memory-four-rooms-9x9"][1:4] == ["9x9", "6", "2x3"]
    assert set(WORLDS) <= set(rows)
    assert ("asymrl/HeavenHell-3-v0" in out) is (columns == 120)


def test_the_worlds_as_json(run: Run):
    status, out, _ = run("envs", "--json")
    worlds = {world["name"]: world for world in json.loads(out)}
    assert status == 0
    assert tuple(worlds) == WORLDS
    assert [worlds[name]["kind"] for name in ("tiger", "car-flag", "memory-four-rooms-7x7")] == [
        "categorical",
        "feature-vector",
        "gridverse",
    ]
    rooms = worlds["memory-four-rooms-7x7"]
    assert rooms["states"] == {"grid": [7, 7, 3], "agent": [6], "item": [3], "agent_id_grid": [7, 7]}
    assert rooms["observations"] == {"grid": [2, 3, 3], "item": [3]}
    best = scores("cleaner")
    assert best is not None
    assert worlds["cleaner"]["returns"]["best"]["high"] == best.undiscounted["best"].high
    assert worlds["heaven-hell-3"]["observations"] == 15


def test_a_named_world_says_what_a_critic_may_see_there(run: Run):
    _, out, _ = run("envs", "heaven-hell-3", "car-flag")
    finite, continuous = out.split("What a critic may see in ")[1:]
    assert {line.split()[0] for line in finite.splitlines() if line.startswith("  ")} == {
        *("state", "heaven-side", "position", "at-priest", "belief", "sampled-state", "time")
    }
    assert "motion          position and velocity" in continuous
    assert "belief" not in continuous


def test_an_episode_as_text(run: Run):
    status, out, _ = run("render", "heaven-hell-3", "--policy", "s, E,2,E,W", "--steps", "4")
    moments = out.split("\n\n")
    assert status == 0
    assert [moment.splitlines()[0] for moment in moments] == [
        "heaven-hell-3, at the start",
        "heaven-hell-3, after S",
        *["heaven-hell-3, after E"] * 3,
    ]
    assert "priest: heaven" in moments[4]
    assert moments[4].splitlines()[-1] == "step 4  reward 0  return 0"


def test_a_replay_ends_with_the_episode(run: Run):
    _, out, _ = run("render", "heaven-hell-1", "--policy", "N,W,W,W,W", "-o", "-")
    last = out.split("\n\n")[-1].splitlines()
    reward = 1 if "heaven left" in out else -1
    assert last[-1] == f"step 3  reward {reward}  return {reward} (the end)"
    assert "the episode has ended" in out


def test_the_same_seed_gives_the_same_episode(run: Run):
    same, again, other = (run("render", "tiger", "--steps", "8", "--seed", seed)[1] for seed in ("3", "3", "4"))
    assert same == again
    assert same != other


def test_an_episode_as_film_and_as_picture(run: Run, tmp_path: Path):
    film, picture = tmp_path / "a.gif", tmp_path / "b.PNG"
    status, out, _ = run("render", "shopping-2", "--steps", "3", "-o", str(film), "--dpi", "50", "--seconds", "0.1")
    assert (status, out) == (0, f"{film}: shopping-2, 3 steps, return {out.split()[-1]}\n")
    with Image.open(film) as opened:
        assert (opened.format, opened.size, opened.info["duration"]) == ("GIF", (400, 224), 100)
        assert opened.n_frames == 4  # pyright: ignore[reportAttributeAccessIssue]
    assert run("render", "shopping-2", "--steps", "0", "-o", str(picture))[0] == 0
    with Image.open(picture) as opened:
        assert (opened.format, opened.size) == ("PNG", (800, 450))


def test_a_sound_world_passes_the_check(run: Run):
    status, out, _ = run("check", "tiger:episodic=true")
    assert status == 0
    assert out.startswith("tiger: ")
    assert "ok" in out


class Misdescribed(CarFlag):
    """Shows three numbers and says that it shows two."""

    name: str = eqx.field(static=True, default="misdescribed")

    @property
    def observation_space(self) -> Box:
        return Box((2,))


def test_a_broken_world_fails_the_check(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(envs, "world_named", lambda name: Misdescribed())
    status, out, err = run("check", "misdescribed")
    assert (status, out) == (1, "")
    assert err.startswith("asymrl: misdescribed: ")
    assert err.count("\n") == 1
    assert "expected" in err


def test_the_demo_trains_until_it_is_solved_and_films_both_sides(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    # A small network that is content with any return: it stops after its first 100 episodes.
    small = {"memory_size": 8, "hidden": (8,), "time_limit": 10, "log_points": 5, "steps": 100_000, "stop_return": -2.0}
    monkeypatch.setattr(demo, "CHOSEN", small)
    status, out, _ = run("demo", "--folder", str(tmp_path))
    assert status == 0
    (folder,) = tmp_path.iterdir()
    films = {"heaven-in-the-west.gif", "heaven-in-the-east.gif"}
    assert films | {"curve.png", "metrics.parquet", "settings.json"} <= {path.name for path in folder.iterdir()}
    assert "1000 new episodes" in out
    assert all(film in out for film in films)
    (trained,) = load_trained(folder)
    assert trained.states.episodes.tolist() == [100]


def test_the_documentation_lists_the_worlds_with_the_numbers_of_the_package(run: Run):
    docs = Path(__file__).parents[2] / "docs"
    worlds = {world["name"]: world for world in json.loads(run("envs", "--json")[1])}
    rows = [line.replace(r"\|", "").split("|")[1:-1] for line in (docs / "worlds/index.md").read_text().splitlines()]
    table = {cells[0].split("`")[1]: [cell.strip() for cell in cells] for cells in rows if cells and "`" in cells[0]}
    assert set(table) == set(WORLDS)
    for name, (link, kind, _, actions, _, *returns, _) in table.items():
        world = worlds[name]
        assert (docs / "worlds" / link.split("(")[1].rstrip(")")).is_file()
        assert (kind, actions) == (world["kind"], str(world["actions"]))
        assert returns == [envs.format_score(world["returns"][who]) for who in ("random", "best")]
    for picture in (docs / "images").iterdir():
        assert picture.stat().st_size < 100_000, picture.name
