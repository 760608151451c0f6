"""Wrong values of options and names: one line on stderr that names the value, exit status 2, no traceback."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from asymrl import cli
from asymrl.cli.command import COMMANDS
from asymrl.cli.commands import envs
from asymrl.cli.parsing import LARGEST_SEED, LIMITS
from asymrl.cli.running import Training

MISTAKES = [
    ("train tiger --hidden -3", "hidden -3: a hidden layer has at least 1"),
    ("train tiger --hidden 64 0", "hidden 0: a hidden layer has at least 1"),
    ("train tiger --hidden 1e9", "hidden 1000000000: a hidden layer has at least 1 and at most 1048576 units"),
    ("train tiger --memory-size 1e15", "memory_size is 1000000000000000; it can be at most 1048576"),
    ("train tiger --time-limit 2147483648", "time_limit is 2147483648; it can be at most"),
    ("train tiger --log-points 1e9", "log_points is 1000000000; it can be at most"),
    ("train tiger --window 1e18", "window 1000000000000000000: remember at most"),
    ("train tiger --episodes 5M", "episodes is 5000000; it can be at most"),
    ("train tiger --method ppo --streams 1B", "streams is 1000000000; it can be at most"),
    ("train tiger --stop-return nan", "stop_return is nan; it must be a finite number"),
    ("train tiger --actor-rate 1e300", "actor_rate is 1e+300; it must be a positive number"),
    ("train tiger --minutes nan", "--minutes nan: choose a number between 0 and 1000000"),
    ("train tiger --minutes -1", "--minutes -1.0: choose a number between 0 and 1000000"),
    ("train tiger --refresh-seconds inf", "--refresh-seconds inf: choose a number at most 86400"),
    ("train tiger --seeds 1B", "--seeds 1000000000: choose a number at most 100000"),
    ("train tiger --seed-list 0 -3", "--seed-list -3: choose a number between 0 and 4294967295"),
    ("train tiger --seeds 3 --seed-list 1", "--seeds 3 and --seed-list: give one of them"),
    ("sweep --env tiger --methods a2c --first-seed -1 --out x", "--first-seed -1: choose a number between 0"),
    (
        "sweep --env tiger --methods a2c --actor-rate 1 --out x",
        "--actor-rate is a setting: give it as --set actor_rate=",
    ),
    ("sweep --env tiger --method a2c --out x", "--method: this command has --methods"),
    ("sweep --world tiger --methods a2c --out x", "--world: this command has --env"),
    ("compare tiger --method a2c", "--method: this command has --methods"),
    ("compare tiger --set method=a2c", "--set method: use --methods instead"),
    ("sweep --env tiger --methods a2c --set actor_rat=1 --out x", "--set: unknown setting 'actor_rat'; did you mean"),
    ("sweep --env tiger --methods a2c --set actor_rate=x --out x", "--set: actor_rate is 'x', expected a number"),
    (
        "sweep --env tiger --methods a2c --set steps=1k steps=2k --out x",
        "--set steps is given twice; write",
    ),
    ("train heaven-hell-1000000000", "world 'heaven-hell-1000000000': 1000000000 is too large; choose at most 10000"),
    ("envs shopping-100", "world 'shopping-100': 100 is too large; choose at most 40"),
    (
        "train broken.py:World",
        "world 'broken.py:World': broken.py cannot be imported: broken.py:1: ",
    ),
    ("train nowhere_at_all:Light", "nowhere_at_all cannot be imported: No module named 'nowhere_at_all'"),
    ("train fails.py:World", "world 'fails.py:World': fails.py cannot be imported: fails.py:2: ZeroDivisionError"),
    ("train raises.py:World", "world 'raises.py:World' cannot be made: raises.py:3: KeyError: 'size'"),
    ("train .", "'.' is a folder, not a world. A file of your own is FILE.py:CLASS or FILE.pomdp"),
    ("check :loads", "world ':loads': name a module or a file before the colon, as in my_file.py:MyEnv"),
    ("sweep", "--out is missing: name a folder for the sweep, such as --out runs/my-sweep"),
    ("check json:loads", "json:loads: its constructor needs s; write json:loads:s=VALUE, or use --env-args"),
    ("theory tiger -o file/bias.png", "file/bias.png: "),
    ("theory tiger --mass 2", "--mass 2.0: choose a number between 0 and 1"),
    ("train tiger --out file/runs", "file/runs: cannot be made a folder"),
    ("study bootstrap --out file/runs", "file/runs: "),
    ("demo --folder file/demo", "file/demo"),
    ("evaluate file", "file: no runs here"),
    ("evaluate shopping-5", "zoo:shopping-5 is an agent that ships with asymrl"),
    ("resume file/sub", "file/sub: "),
    ("export nowhere -o policy.npz", "nowhere: no runs here"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a regular file and some Python files in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("text")
    (tmp_path / "broken.py").write_text("class World(:\n")
    (tmp_path / "fails.py").write_text("\n1 / 0\n")
    (tmp_path / "raises.py").write_text("class World:\n    def __init__(self):\n        raise KeyError('size')\n")
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("line", "message"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str], line: str, message: str):
    assert cli.main(line.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("asymrl: ")
    first, *traceback = printed.err.splitlines()
    assert message in first
    assert bool(traceback) == ("World" in line)  # under it, the lines of the user's own code
    assert not any("src/asymrl" in each for each in traceback)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(13, "Permission denied", "somewhere"), "asymrl: somewhere: Permission denied\n"),
        (OSError(28, "No space left on device"), "asymrl: No space left on device\n"),
        (MemoryError("4 TB"), "asymrl: this does not fit into memory; choose smaller numbers (4 TB)\n"),
    ],
)
def test_what_the_machine_refuses_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: BaseException, line: str
):
    def refused(self: object) -> int:
        raise error

    monkeypatch.setattr(envs.Check, "run", refused)
    assert cli.main(["check", "tiger"]) == 2
    assert capsys.readouterr() == ("", line)


def test_limits_are_about_options_that_exist():
    assert set(LIMITS) <= {each.name for command in (*COMMANDS.values(), Training) for each in fields(command)}


def test_the_largest_seed_can_be_used(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["render", "tiger", "--steps", "1", "--seed", str(LARGEST_SEED)]) == 0
    assert "step 1" in capsys.readouterr().out


def test_a_setting_without_effect_is_mentioned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Training, "train", lambda self, store, **_: store.release() or 0)
    for method, mentioned in (("a2c", True), ("a2c-asym-hs", False)):
        line = ["train", "tiger", "--method", method, "--critic-sees", "time", "--out", str(tmp_path / method)]
        assert cli.main(line) == 0
        assert ("critic_sees has no effect: the critic of a2c reads" in capsys.readouterr().out) is mentioned
