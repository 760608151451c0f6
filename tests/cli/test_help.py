"""Help, completion and what the parser says."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from asymrl import cli
from asymrl.cli import command
from asymrl.cli.command import COMMANDS
from asymrl.cli.commands.sweep import Sweep, read_config
from asymrl.cli.commands.train import TRAIN, Train, train_command
from asymrl.cli.examples import EXAMPLES
from asymrl.cli.help_page import GROUPS, RUN
from asymrl.cli.parsing import parse
from asymrl.cli.running import SEEDS
from asymrl.cli.usage import UsageError

LINES = [line for lines in EXAMPLES.values() for line in lines]


def printed_help(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main([*arguments, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("learner", TRAIN)
def test_options_of_training_stand_in_groups(capsys: pytest.CaptureFixture[str], learner: str):
    out = printed_help(capsys, "train", "tiger", "--method", learner)
    headings = [line for line in out.splitlines() if re.fullmatch(r"[a-z]+", line)]
    assert headings == ["arguments", "run", "learner", "network", "output", "machine", "examples"]
    shown = re.findall(r"^  (?:-\w, )?--(?:\[no-\])?([a-z0-9-]+)", out, re.MULTILINE)
    names = {each.name.replace("_", "-") for each in fields(TRAIN[learner])} - {"world"}
    assert sorted(shown) == sorted(names | {"help"})


def test_a_command_without_its_arguments_names_them(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["train"])
    assert stopped.value.code == 2
    assert "WORLD" in capsys.readouterr().err


def test_no_option_is_in_two_groups():
    names = [name for group in (RUN, *GROUPS.values()) for name in group]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", COMMANDS)
def test_types_are_readable(capsys: pytest.CaptureFixture[str], name: str):
    out = printed_help(capsys, name)
    assert "{" not in out.replace("{curves,critics,grid,claims}", "")
    assert "None" not in out
    assert ("examples" in out.splitlines()) is (name in EXAMPLES)


@pytest.mark.parametrize("columns", [40, 70, 100, 300])
def test_help_is_as_wide_as_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = printed_help(capsys, "train").partition("\nexamples\n")[0].splitlines()
    assert columns - 12 <= max(map(len, lines)) <= columns or (columns == 300 and max(map(len, lines)) <= 110)


def test_windows_of_any_length_are_listed(capsys: pytest.CaptureFixture[str]):
    assert "a2c-react-k" in printed_help(capsys, "train")
    assert cli.main(["train", "tiger", "--method", "a2c-window"]) == 2
    assert "a2c-react-k" in capsys.readouterr().err


@pytest.mark.parametrize("line", LINES)
def test_examples_are_understood(line: str):
    program, name, *arguments = shlex.split(line.partition(" > ")[0])
    assert program == "asymrl"
    kind = COMMANDS[name]
    if name == "train":
        kind = train_command([argument for argument in arguments if argument not in ("--config", "settings.toml")])
    assert isinstance(parse(kind, arguments, "asymrl"), kind)


def test_counts_are_understood_on_the_command_line():
    def options(kind: type[Any], *arguments: str) -> Any:
        return parse(kind, arguments, "asymrl")

    train = options(
        Train, "tiger", "--steps", "2M", "--entropy-steps", "500k", "--window", "none", "--hidden", "1e2", "8"
    )
    assert (train.steps, train.entropy_steps, train.window, train.hidden) == (2_000_000, 500_000, None, (100, 8))
    assert options(Train, "tiger", "--hidden", "64,32").hidden == (64, 32)
    for line in (["--hidden", ","], ["--window", "1,000"], ["--minutes", "1,5"], ["--seeds", "0,7"]):
        with pytest.raises(SystemExit):
            options(Train, "tiger", *line)
    assert options(COMMANDS["resume"], "runs/x", "--steps", "1e6").steps == 1_000_000
    runs = options(Sweep, "--env", "tiger", "--methods", "a2c", "--set", "steps=2k,1e4", "--seeds", "1").runs()
    assert [run.settings.steps for run in runs] == [2000, 10_000]


def test_counts_are_understood_in_the_configuration_of_a_sweep(tmp_path: Path):
    config = tmp_path / "sweep.toml"
    config.write_text('env = ["tiger"]\nmethods = ["a2c"]\nseeds = "1e1"\n[set]\nsteps = ["2k", "1M"]\n')
    parsed = parse(Sweep, ["--config", str(config)], "asymrl")
    assert {run.settings.steps for run in parsed._with_config().runs()} == {2000, 1_000_000}
    assert len(parsed._with_config().runs()) == 20
    config.write_text('seeds = "many"')
    with pytest.raises(UsageError, match="seeds is 'many', expected a whole number"):
        read_config(config)


def test_a_number_that_is_none_is_named(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        cli.main(["train", "tiger", "--steps", "many"])
    err = capsys.readouterr().err
    assert "'many' is not a whole number" in err


def test_as_many_seeds_everywhere():
    sweep = parse(Sweep, ["--env", "tiger", "--methods", "a2c"], "asymrl sweep")
    trained = parse(Train, ["tiger"], "asymrl train").chosen_seeds()
    assert len(trained) == len(sweep.runs()) == COMMANDS["compare"].seeds == SEEDS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(capfd: pytest.CaptureFixture[str], shell: str):
    assert cli.main(["completion", shell]) == 0
    script = capfd.readouterr().out
    assert all(word in script for word in ("doctor", "reproduce", "critic-sees"))
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True).stderr == ""


def test_messages_of_the_parser_have_no_colour_if_that_is_asked_for(
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


def test_the_overview_lists_every_command(capsys: pytest.CaptureFixture[str]):
    out = printed_help(capsys)
    assert out == (cli.main([]), capsys.readouterr().out)[1]
    listed = re.findall(r"^  ([a-z]+)  ", out, re.MULTILINE)
    assert set(listed) == set(command.COMMANDS)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_offers_options_and_nothing_else(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    assert cli.main(["completion", "bash"]) == 0
    (tmp_path / "asymrl.bash").write_text(capfd.readouterr().out)
    typed = 'COMP_WORDS=(asymrl train tiger --me); COMP_CWORD=3; _tyro_asymrl; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f"source {tmp_path}/asymrl.bash; {typed}"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["--method", "--memory", "--memory-size"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("train tiger --method a2c-asym", ["a2c-asym-s", "a2c-asym-hs"]),
        ("compare tiger --methods a2c ppo-react", ["ppo-react-2", "ppo-react-4"]),
        ("train tiger --preset ppo-s", ["ppo-small"]),
        ("sweep --env tiger heaven", ["heaven-hell-3", "heaven-hell-4"]),
        ("train tiger --estimator td-", ["td-n", "td-lambda"]),
        ("study bootstrap --phase f", ["final"]),
    ],
)
def test_bash_offers_names(capfd: pytest.CaptureFixture[str], tmp_path: Path, typed: str, offered: list[str]):
    assert cli.main(["completion", "bash"]) == 0
    (tmp_path / "asymrl.bash").write_text(capfd.readouterr().out)
    words = typed.split()
    ask = f'COMP_WORDS=(asymrl {typed}); COMP_CWORD={len(words)}; _tyro_asymrl; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", f"source {tmp_path}/asymrl.bash; {ask}"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == offered


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_into_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv("COLUMNS", "60")
    lines = printed_help(capsys, name).splitlines()
    too_wide = [line for line in lines if len(line) > 60]
    assert all(" " not in line.strip().removesuffix(" \\") for line in too_wide)  # such as the name of a file
    examples = "\n".join(lines[lines.index("examples") + 1 :]) if name in EXAMPLES else ""
    assert [shlex.split(line) for line in examples.replace("\\\n", "").splitlines()] == [
        shlex.split(line) for line in EXAMPLES.get(name, ())
    ]


def test_messages_write_numbers_as_the_help_does(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        cli.main(["train", "tiger", "--steps", "many"])
    assert "(default: 2M)" in capsys.readouterr().err
