"""Every command that the documentation shows is understood, with all of its options; none is carried out."""

from __future__ import annotations

import itertools
import re
import shlex
from dataclasses import fields, replace
from pathlib import Path

import pytest

from asymrl import cli
from asymrl.cli.command import COMMANDS
from asymrl.cli.commands.envs import Envs
from asymrl.cli.commands.train import Train
from tests.cli.test_help import options_of
from tests.doc_pages import DOCS, READERS, commands, inline_code, name_of

# Pages and their commands; the generated page has usage lines instead, with names in place of values.
WITH_COMMANDS = [path for path in READERS if path != DOCS / "reference" / "commands.md" and commands(path)]
STAND_INS = {"WORLD": "tiger", "COMMAND": "train", "SHELL": "bash", "N": "2", "...": ""}


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """Commands that were understood, instead of carried out; with configuration files where the pages expect some."""
    understood: list[object] = []
    for command in COMMANDS.values():
        monkeypatch.setattr(command, "run", lambda self: understood.append(self) or 0)
    for name in ("mine", "rates", "grid"):
        (tmp_path / f"{name}.toml").touch()
    monkeypatch.chdir(tmp_path)
    return understood


def shell_words(command: str) -> list[str]:
    """The words of a line up to its comment, a pipe or a file for the output."""
    return list(itertools.takewhile(lambda word: word not in (">", "|"), shlex.split(command, comments=True)))


def arguments(command: str) -> list[str]:
    """The words of a command, with a world where prose leaves it out, as in `asymrl theory --json`."""
    name, *rest = [STAND_INS.get(word, word) for word in shell_words(command)[1:]]
    has_place = any(each.name in ("world", "folder") for each in fields(COMMANDS.get(name, Envs)))
    return [name, *(["tiger"] if has_place and rest and rest[0].startswith("-") else []), *filter(None, rest)]


@pytest.mark.parametrize("path", WITH_COMMANDS, ids=name_of)
def test_commands_of_a_page_are_understood(path: Path, parsed: list[object], capsys: pytest.CaptureFixture[str]):
    for command in dict.fromkeys(commands(path)):
        words = arguments(command)
        if len(words) == 1 and words[0] in COMMANDS:  # a name, not a whole command
            continue
        try:
            status = cli.main(words)
        except SystemExit as end:  # of --help, or of a command that is not understood
            status = end.code
        assert status == 0, f"{command}\n{capsys.readouterr().err}"
    for command in parsed:
        if isinstance(command, Train):
            replace(command, world="tiger", env_args=None).settings()


def test_a_command_that_does_not_exist_is_noticed(parsed: list[object]):
    assert cli.main(["trian", "tiger"]) == 2
    with pytest.raises(SystemExit) as end:
        cli.main(["evaluate", "runs/mine", "--no-such-option"])
    assert end.value.code == 2
    assert parsed == []


# The page of benchmarks is about options of scripts, too.
@pytest.mark.parametrize("path", [path for path in READERS if path != DOCS / "benchmarks.md"], ids=name_of)
def test_options_that_are_mentioned_exist(path: Path):
    known = {"--help", "--version"}.union(*map(options_of, COMMANDS.values()))
    mentioned = {code.partition(" ")[0] for code in inline_code(path) if re.match(r"--[a-z]", code)}
    assert sorted(mentioned - known) == []
