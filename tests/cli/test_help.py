"""Help, completion and what the parser says. The texts of help themselves are docs/reference/commands.md."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from asymrl import cli
from asymrl.cli.command import COMMANDS
from asymrl.cli.commands.sweep import Sweep, read_config
from asymrl.cli.commands.train import Train
from asymrl.cli.parsing import help_text, parse
from asymrl.cli.running import SEEDS
from asymrl.cli.settings_options import BASIC, NETWORK
from asymrl.cli.usage import UsageError
from asymrl.settings import SETTINGS


def options_of(command: type) -> set[str]:
    """The options that the help of a command lists."""
    return set(re.findall(r"--[a-z][a-z0-9-]*", help_text(command, "command")))


def test_every_setting_is_an_option_and_stands_once():
    assert {f"--{name.replace('_', '-')}" for name in SETTINGS if name != "world"} <= options_of(Train)
    assert len(set(BASIC) | set(NETWORK)) == len(BASIC) + len(NETWORK)


def test_only_what_is_given_is_parsed():
    train = parse(Train, ["tiger", "--steps", "2M", "--clip-norm", "none", "--no-anneal"], "asymrl train")
    assert (train.basic, train.network) == ({"steps": 2_000_000}, {})
    assert train.learner == {"clip_norm": None, "anneal": False}


@pytest.mark.parametrize("columns", [60, 100])
def test_help_fits_into_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int):
    monkeypatch.setenv("COLUMNS", str(columns))
    options = help_text(Train, "train").partition("--env-args")[2]
    assert max(map(len, options.splitlines())) <= columns


def test_the_overview_lists_every_command(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["--help"]) == cli.main([]) == 0
    out = capsys.readouterr().out
    assert set(re.findall(r"^  ([a-z]+)  ", out, re.MULTILINE)) == set(COMMANDS)
    with pytest.raises(SystemExit) as end:
        cli.main(["evaluate", "--help"])
    assert end.value.code == 0
    assert "asymrl evaluate runs/tiger-a2c-asym-hs --json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("train", "WORLD"),
        ("train tiger --steps many", "'many' is not a whole number"),
        ("train tiger --stesp 3", "--steps INT"),
        ("envs --jsno", "--json"),
    ],
)
def test_the_parser_names_what_is_wrong(capsys: pytest.CaptureFixture[str], line: str, said: str):
    with pytest.raises(SystemExit) as stopped:
        cli.main(line.split())
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_a_method_that_does_not_exist_is_named_with_those_that_do(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["train", "tiger", "--method", "a2c-window"]) == 2
    assert "a2c-react-k" in capsys.readouterr().err


def test_counts_are_understood_on_the_command_line():
    def options(kind: type[Any], *arguments: str) -> Any:
        return parse(kind, arguments, "asymrl")

    line = ["tiger", "--steps", "2M", "--entropy-steps", "500k", "--window", "none", "--hidden", "1e2", "8"]
    settings = options(Train, *line).settings()
    assert (settings.steps, settings.entropy_steps, settings.window) == (2_000_000, 500_000, None)
    assert settings.hidden == (100, 8)
    assert options(Train, "tiger", "--hidden", "64,32").network == {"hidden": (64, 32)}
    for wrong in (["--hidden", ","], ["--window", "1,000"], ["--minutes", "1,5"], ["--seeds", "0,7"]):
        with pytest.raises(SystemExit):
            options(Train, "tiger", *wrong)
    assert options(COMMANDS["resume"], "runs/x", "--steps", "1e6").steps == 1_000_000
    runs = options(Sweep, "--env", "tiger", "--methods", "a2c", "--set", "steps=2k,1e4", "--seeds", "1").runs()
    assert [run.settings.steps for run in runs] == [2000, 10_000]


def test_counts_are_understood_in_the_configuration_of_a_sweep(tmp_path: Path):
    config = tmp_path / "sweep.toml"
    config.write_text('env = ["tiger"]\nmethods = ["a2c"]\nseeds = "1e1"\n[set]\nsteps = ["2k", "1M"]\n')
    parsed = parse(Sweep, ["--config", str(config)], "asymrl")
    assert {run.settings.steps for run in parsed.runs()} == {2000, 1_000_000}
    assert len(parsed.runs()) == 20
    config.write_text('seeds = "many"')
    with pytest.raises(UsageError, match="seeds is 'many', expected a whole number"):
        read_config(config)


def test_as_many_seeds_everywhere():
    sweep = parse(Sweep, ["--env", "tiger", "--methods", "a2c"], "asymrl sweep")
    trained = parse(Train, ["tiger"], "asymrl train").chosen_seeds()
    assert len(trained) == len(sweep.runs()) == COMMANDS["compare"].seeds == SEEDS


def test_messages_have_no_colour_if_that_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with pytest.raises(SystemExit):
        cli.main(["envs", "--jsno"])
    assert "\x1b[3" not in capsys.readouterr().err
    cli.main(["--help"])
    cli.main(["envs", "tiger"])
    assert not re.search(r"\x1b\[[0-9;]*[34]\d", capsys.readouterr().out)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_knows_commands_and_options(capfd: pytest.CaptureFixture[str], shell: str):
    assert cli.main(["completion", shell]) == 0
    script = capfd.readouterr().out
    assert all(word in script for word in ("doctor", "reproduce", "critic-sees"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_offers_options_and_names(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    assert cli.main(["completion", "bash"]) == 0
    (tmp_path / "asymrl.bash").write_text(capfd.readouterr().out)
    offers = {
        "train tiger --me": ["--memory", "--memory-size", "--method"],
        "train tiger --method a2c-asym": ["a2c-asym-hs", "a2c-asym-s"],
        "compare tiger --methods a2c ppo-react": ["ppo-react-2", "ppo-react-4"],
        "train tiger --preset ppo-s": ["ppo-small"],
        "sweep --env tiger heaven": ["heaven-hell-3", "heaven-hell-4"],
        "train tiger --estimator td-": ["td-lambda", "td-n"],
    }
    for typed, offered in offers.items():
        words = f"COMP_WORDS=(asymrl {typed}); COMP_CWORD={len(typed.split())}"
        ask = f'source {tmp_path}/asymrl.bash; {words}; _tyro_asymrl; printf "%s\\n" "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, timeout=60)
        assert sorted(done.stdout.split()) == offered, typed
