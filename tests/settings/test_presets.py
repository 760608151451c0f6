"""Presets: settings with a name, below what the user gives and above everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from asymrl import cli
from asymrl.api.wanted import compared_methods, comparison_runs, settings_for, sweep_runs
from asymrl.cli.commands.compare import Compare
from asymrl.cli.commands.sweep import Sweep
from asymrl.cli.commands.train import Train
from asymrl.runs.files import RunError
from asymrl.runs.runs import Run, from_json, to_json
from asymrl.settings import A2CSettings, PPOSettings, Settings
from asymrl.settings.presets import PRESETS, preset_named

WORLD = "tiger"


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_possible_and_says_what_it_is_for(name: str):
    settings = settings_for(WORLD, preset=name)
    assert settings.preset == name
    assert settings.method == PRESETS[name].method
    assert {each: getattr(settings, each) for each in PRESETS[name].values} == dict(PRESETS[name].values)
    assert PRESETS[name].purpose
    assert len(PRESETS[name].purpose) < 90


def test_a_preset_counts_more_than_the_paper_and_less_than_what_is_given():
    paper, values = settings_for("shopping-5", "a2c"), PRESETS["a2c-short"].values
    assert paper.entropy_weight == 3.0
    chosen = settings_for("shopping-5", "a2c", preset="a2c-short")
    assert chosen.entropy_weight == values["entropy_weight"] != paper.entropy_weight
    assert chosen.critic_rate == paper.critic_rate  # the preset does not say
    assert settings_for("shopping-5", "a2c", preset="a2c-short", entropy_weight=0.5).entropy_weight == 0.5


def test_a_method_of_the_same_learner_can_be_given():
    assert settings_for(WORLD, "ppo-asym-hs", preset="ppo-small").method == "ppo-asym-hs"
    with pytest.raises(RunError, match="ppo-small has settings of ppo, but a2c is trained by a2c"):
        settings_for(WORLD, "a2c", preset="ppo-small")


def test_a_preset_that_there_is_not():
    with pytest.raises(RunError, match="unknown preset 'ppo-smal'; did you mean 'ppo-small'"):
        settings_for(WORLD, preset="ppo-smal")
    with pytest.raises(ValueError, match=r"there are .*a2c-short"):
        preset_named("x")


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch):
    """The settings that a command line of `asymrl train` stands for, without running it."""
    seen: list[Settings] = []
    monkeypatch.setattr(Train, "run", lambda self: seen.append(self.settings()) or 0)

    def chosen(*arguments: str) -> Settings:
        assert cli.main(["train", WORLD, *arguments]) == 0
        return seen[-1]

    return chosen


def test_the_command_line_and_its_file_name_a_preset(chosen, tmp_path: Path):
    assert chosen("--preset", "ppo-small") == settings_for(WORLD, preset="ppo-small")
    own = chosen("--preset", "ppo-small", "--epochs", "4", "--method", "ppo-asym-hs")
    assert own == settings_for(WORLD, "ppo-asym-hs", preset="ppo-small", epochs=4)
    file = tmp_path / "settings.toml"
    file.write_text('preset = "ppo-small"\nepochs = 3\n')
    assert chosen("--config", str(file)) == settings_for(WORLD, preset="ppo-small", epochs=3)
    assert chosen("--config", str(file), "--epochs", "7").epochs == 7
    other = chosen("--config", str(file), "--preset", "ppo-memory")
    assert other == settings_for(WORLD, preset="ppo-memory", epochs=3)
    file.write_text('preset = "a2c-short"\n')
    assert chosen("--config", str(file), "--preset", "none") == settings_for(WORLD)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--preset", "ppo-smal"], "did you mean 'ppo-small'?"),
        (["--preset", "ppo-small", "--method", "a2c"], "choose a method such as ppo"),
        (["--preset", "ppo-small", "--episodes", "3"], "episodes is a setting of a2c and dqn"),
    ],
)
def test_mistakes_are_one_line(arguments, said, capsys: pytest.CaptureFixture, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", WORLD, *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_sweep_has_a_preset_or_tries_several(tmp_path: Path):
    (run,) = Sweep(env=(WORLD,), preset="ppo-small", seeds=1).runs()
    assert run.settings == settings_for(WORLD, preset="ppo-small")
    file = tmp_path / "sweep.toml"
    file.write_text(f'env = ["{WORLD}"]\npreset = "ppo-small"\nseeds = 1\n[set]\nepochs = [2, 3]\n')
    runs = Sweep(config=file).runs()
    assert [run.settings.epochs for run in runs] == [2, 3]
    assert {run.settings.rollout for run in runs} == {PRESETS["ppo-small"].values["rollout"]}
    runs = sweep_runs([WORLD], ["ppo"], {"preset": ["none", "ppo-small", "ppo-memory"]}, [0])
    assert [run.settings.preset for run in runs] == [None, "ppo-small", "ppo-memory"]
    assert runs[0].settings == settings_for(WORLD, "ppo")


def test_a_comparison_takes_the_methods_of_the_presets_learner():
    assert "ppo-asym-hs" in compared_methods({"preset": "ppo-small"})
    assert "a2c-asym-hs" in compared_methods({})
    runs, _ = comparison_runs(WORLD, ["ppo", "ppo-asym-s"], [0, 1], {"preset": "ppo-small"})
    assert {run.settings.preset for run in runs} == {"ppo-small"}
    command = Compare(world=WORLD, preset="a2c-short", seeds=2)
    assert len(command._runs(*command._wanted())) == 10


def test_it_is_recorded_and_decides_nothing_else():
    named = settings_for(WORLD, preset="ppo-small")
    values = {**PRESETS["ppo-small"].values}
    plain = settings_for(WORLD, "ppo", **values)
    assert named != plain
    assert named.shape() == plain.shape()
    assert named.numbers() == plain.numbers()
    assert from_json(to_json([Run(named, 0)]), "here") == (Run(named, 0),)
    assert A2CSettings().preset is PPOSettings().preset is None


def test_the_command_lists_them(capsys: pytest.CaptureFixture):
    assert cli.main(["presets"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in PRESETS)
    assert cli.main(["presets", "x"]) == 2
    assert "unknown preset 'x'" in capsys.readouterr().err
