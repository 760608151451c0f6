"""Settings from the command line, from files and from the paper: which counts, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from asymrl import cli
from asymrl.api.wanted import settings_for
from asymrl.cli.commands.train import Train
from asymrl.settings import A2CSettings, Settings


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch):
    """The settings that a command line stands for, without running it."""
    seen: list[Settings] = []
    monkeypatch.setattr(Train, "run", lambda self: seen.append(self.settings()) or 0)

    def chosen(*arguments: str) -> Settings:
        assert cli.main(["train", *arguments]) == 0
        return seen[-1]

    return chosen


def rates(settings: Settings) -> tuple[float, float, float]:
    return settings.actor_rate, settings.critic_rate, settings.entropy_weight


def test_the_paper_comes_before_the_defaults(chosen):
    assert rates(chosen("shopping-5")) == (1e-3, 3e-4, 3.0)
    assert rates(chosen("memory-four-rooms-7x7", "--method", "a2c")) == (3e-4, 1e-4, 0.1)


@pytest.mark.parametrize(
    "arguments", [["shopping-4"], ["shopping-5", "--method", "a2c-react-3"], ["cleaner:maze_seed=3"]]
)
def test_what_the_paper_has_not_searched_has_the_defaults(chosen, arguments: Sequence[str]):
    assert rates(chosen(*arguments)) == rates(A2CSettings())


def test_the_command_line_comes_first_even_if_it_gives_the_default(chosen, tmp_path: Path):
    assert rates(chosen("shopping-5", "--entropy-weight", "0.1")) == (1e-3, 3e-4, 0.1)
    config = tmp_path / "settings.toml"
    config.write_text("entropy_weight = 7\ncritic_rate = 1e-5\n")
    assert rates(chosen("shopping-5", "--config", str(config))) == (1e-3, 1e-5, 7.0)
    assert rates(chosen("shopping-5", "--config", str(config), "--entropy-weight", "0.1")) == (1e-3, 1e-5, 0.1)


def test_the_method_of_a_file_decides_what_the_paper_says(chosen, tmp_path: Path):
    config = tmp_path / "settings.toml"
    config.write_text('method = "a2c-asym-s"\n')
    assert rates(chosen("shopping-5", "--config", str(config))) == (1e-3, 1e-3, 10.0)
    assert rates(chosen("shopping-5", "--config", str(config), "--method", "a2c")) == (1e-3, 3e-4, 3.0)


def test_a_file_can_hold_every_kind_of_setting(chosen, tmp_path: Path):
    config = tmp_path / "settings.toml"
    config.write_text(
        'steps = 2e5\nhidden = [64, 32]\nclip_norm = 1\nwindow = "none"\nbootstrap_truncated = true\nestimator = "mc"\n'
    )
    settings = chosen("tiger", "--config", str(config))
    expected = A2CSettings(
        "tiger", steps=200_000, hidden=(64, 32), clip_norm=1.0, bootstrap_truncated=True, estimator="mc"
    )
    assert settings == expected
    assert type(settings.clip_norm) is float


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("entropy_wieght = 1", "unknown setting 'entropy_wieght'; did you mean 'entropy_weight'?"),
        ("entropy-weight = 1", "unknown setting 'entropy-weight'; did you mean 'entropy_weight'?"),
        ("qqq = 1", "unknown setting 'qqq'; there are world, method, preset"),
        ("steps = 1.5", "steps is 1.5, expected a whole number"),
        ("steps = true", "steps is True, expected a whole number"),
        ('discount = "high"', "discount is 'high', expected a number"),
        ('clip_norm = "no"', "clip_norm is 'no', expected a number or \"none\""),
        ('estimator = "td1"', "estimator is 'td1', expected one of 'td0', 'td-n', 'td-lambda', 'mc'"),
        ("hidden = [1, 2.5]", "hidden is [1, 2.5], expected a list of whole numbers"),
        ("bootstrap_truncated = 1", "bootstrap_truncated is 1, expected true or false"),
        ("seeds = 3", "seeds is not a setting of a run; give it on the command line"),
        ('world = "tiger"', "world is not a setting of a run; give it on the command line"),
        ("steps = ", "not TOML"),
    ],
)
def test_mistakes_in_a_file_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str):
    config = tmp_path / "settings.toml"
    config.write_text(text)
    assert cli.main(["train", "tiger", "--config", str(config)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"asymrl: --config {config}: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tigr",), "unknown world 'tigr'. Did you mean 'tiger'?"),
        (("tiger", "--method", "a3c"), "unknown method 'a3c'; did you mean 'a2c'? choose one of a2c, a2c-asym-s"),
        (("tiger", "--seeds", "0"), "--seeds 0: train at least one run"),
        (("tiger", "--seed-list", "3", "4", "4"), "2 runs have seed 4 and the same settings"),
        (("tiger", "--steps", "0"), "steps is 0; it must be a positive number"),
        (("tiger", "--steps", "3000000000"), "steps is 3000000000; a run can have at most"),
        (("tiger", "--memory", "gru:tape"), "memory 'gru:tape' is not one of gru, lstm, none"),
        (("tiger", "--critic-sees", "moon"), "critic_sees 'moon': tiger can tell its critic state"),
        (("tiger", "--refresh-seconds", "0"), "refresh_seconds is 0.0; it must be a positive number"),
        (("tiger", "--config", "nowhere.toml"), "--config nowhere.toml: cannot be read: No such file"),
        (("tiger", "--out", "/dev/null/runs"), "/dev/null/runs: cannot be made a folder: Not a directory"),
    ],
)
def test_mistakes_on_the_command_line_leave_nothing_behind(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: Sequence[str],
    message: str,
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"asymrl: {message}")
    assert printed.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "package", "extra"), [("--tensorboard", "tensorboardX", "tensorboard"), ("--wandb", "wandb", "wandb")]
)
def test_trackers_that_are_not_installed_say_how_to(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    option: str,
    package: str,
    extra: str,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    assert cli.main(["train", "tiger", option]) == 2
    assert f'pip install "asymrl[{extra}]"' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_from_python_the_same_settings_are_chosen():
    found = settings_for("shopping-5", "a2c-asym-s", steps=10, hidden=[3])
    assert found == replace(A2CSettings("shopping-5", "a2c-asym-s", steps=10, hidden=(3,)), entropy_weight=10.0)
    with pytest.raises(ValueError, match="unknown setting 'stepps'; did you mean 'steps'"):
        settings_for("tiger", "a2c", stepps=3)
