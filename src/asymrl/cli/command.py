"""The command `asymrl`: chooses a command, runs it, and turns errors of the user into one line."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
import io
import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from asymrl import __version__
from asymrl.cli.commands.compare import Compare
from asymrl.cli.commands.demo import Demo
from asymrl.cli.commands.doctor import Doctor
from asymrl.cli.commands.envs import Check, Envs
from asymrl.cli.commands.evaluate import Evaluate
from asymrl.cli.commands.export_command import Export
from asymrl.cli.commands.play import Play
from asymrl.cli.commands.presets_command import Presets
from asymrl.cli.commands.render_command import Render
from asymrl.cli.commands.report_command import WriteReport
from asymrl.cli.commands.reproduce import Reproduce
from asymrl.cli.commands.sweep import Sweep
from asymrl.cli.commands.theory_command import Theory
from asymrl.cli.commands.train import Resume, Train
from asymrl.cli.commands.tune_command import Tune
from asymrl.cli.commands.watch import Watch
from asymrl.cli.output import redirected
from asymrl.cli.parsing import CONFIG, REGISTRY, parse, summary
from asymrl.cli.usage import UsageError
from asymrl.runs.cache import use_compilation_cache
from asymrl.runs.interrupts import INTERRUPTED
from asymrl.settings import SETTINGS
from asymrl.settings.methods import METHODS
from asymrl.settings.presets import PRESETS
from asymrl.worlds.registry import WORLDS

if TYPE_CHECKING:
    from asymrl.worlds.stepped_world import UserCodeError

SPECIFICATION = "COMPLETION_SPEC = "  # the options and their descriptions, in the scripts of tyro
OFFERED = {"--env": WORLDS, "--method": METHODS, "--methods": METHODS, "--preset": PRESETS}  # when Tab is pressed


@dataclass(frozen=True)
class Completion:
    """Print a script that completes commands and options in a shell when Tab is pressed.

    asymrl completion bash > ~/.local/share/bash-completion/completions/asymrl
    asymrl completion zsh > ~/.zfunc/_asymrl
    """

    shell: Annotated[tyro.conf.Positional[Literal["bash", "zsh", "fish"]], tyro.conf.arg(metavar="SHELL")]
    """bash, zsh or fish."""

    def run(self) -> int:
        script, status = io.StringIO(), 0
        try:
            with contextlib.redirect_stdout(script):
                tyro.extras.subcommand_cli_from_dict(
                    COMMANDS, prog="asymrl", args=["--tyro-print-completion", self.shell], registry=REGISTRY,
                    config=CONFIG,
                )  # fmt: skip
        except SystemExit as done:
            status = int(done.code or 0)
        for line in script.getvalue().splitlines():
            if line.startswith(SPECIFICATION):
                line = line if self.shell == "fish" else _with_names(line)  # fish has it inside quotes
                # The script offers every line of a description as a word, so that each has to be one line.
                line = re.sub(r"\\+n", " ", line)
            print(line)
        return status


def _with_names(line: str) -> str:
    """The specification in a script of tyro, with the names that options usually take; others are valid too."""
    specification = ast.literal_eval(line.removeprefix(SPECIFICATION))
    for command in specification["subcommands"].values():
        for option in command["options"]:
            if names := OFFERED.get(option["flags"][-1]):
                option |= {"type": "choice", "choices": [*names]}
    return f"{SPECIFICATION}{specification!r}"


COMMANDS = {
    "train": Train,
    "resume": Resume,
    "sweep": Sweep,
    "compare": Compare,
    "tune": Tune,
    "reproduce": Reproduce,
    "watch": Watch,
    "play": Play,
    "report": WriteReport,
    "evaluate": Evaluate,
    "render": Render,
    "export": Export,
    "theory": Theory,
    "envs": Envs,
    "presets": Presets,
    "check": Check,
    "doctor": Doctor,
    "demo": Demo,
    "completion": Completion,
}
DESCRIPTION = (
    "Agents that act on what they have seen, with critics that train on what is true.\n"
    "`asymrl COMMAND --help` explains a command; `asymrl --version` prints the version."
)

USAGE_ERROR, OUTPUT_CLOSED = 2, 141  # as the shell and other commands have it


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (by default that of the process) and returns its exit status.

    0: success. 1: a run failed, or a fault was found. 2: the command line was wrong, as a line on stderr says. An
    exception that the user did not cause leaves with its traceback.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    usual_format, warnings.formatwarning = warnings.formatwarning, _as_a_line
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except ValueError as error:
        mistake = _environment_mistake(error)
        if mistake is None and not isinstance(error, UsageError):
            raise
        print(f"asymrl: {error}", file=sys.stderr)
        if mistake is not None and mistake.traceback:
            print(mistake.traceback, file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has left (`asymrl envs | head -1`). What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    except MemoryError as error:
        print(f"asymrl: this does not fit into memory; choose smaller numbers ({error})", file=sys.stderr)
        return USAGE_ERROR
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        print(f"asymrl: {place}{error.strerror or error}", file=sys.stderr)
        return USAGE_ERROR
    finally:
        warnings.formatwarning = usual_format


def _refuse_settings_as_options(command: Any, arguments: Sequence[str]) -> None:
    """Commands that take settings by --set have no options of their names."""
    options = {each.name for each in dataclasses.fields(command)}
    names = [text[2:].partition("=")[0].replace("-", "_") for text in arguments if text.startswith("--")]
    for name in names if "set" in options else []:
        if name in ("world", "method") and name not in options:
            several = "--methods" if name == "method" else "--env" if "env" in options else "the first argument"
            raise UsageError(f"--{name}: this command has {several}")
        if name in SETTINGS and name not in options:
            raise UsageError(f"--{name.replace('_', '-')} is a setting: give it as --set {name}=VALUE")


def _environment_mistake(error: BaseException | None) -> UserCodeError | None:
    """What is wrong with the user's environment, if that is what an error comes from."""
    if error is None or "asymrl.worlds.stepped_world" not in sys.modules:
        return None
    from asymrl.worlds.stepped_world import UserCodeError

    return error if isinstance(error, UserCodeError) else _environment_mistake(error.__cause__)


def _as_a_line(message: Warning | str, *_: object, **__: object) -> str:
    """A warning as users of the command want it: without the line of our source that gave it."""
    return f"asymrl: {message}\n"


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        print(f"asymrl {__version__}")
        return 0
    first = arguments[0] if arguments else "--help"
    if first in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if first not in COMMANDS:
        close = difflib.get_close_matches(first, COMMANDS, n=1, cutoff=0.6)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        raise UsageError(f"unknown command {first!r}. {hint}Commands: {', '.join(COMMANDS)}.")
    _refuse_settings_as_options(COMMANDS[first], arguments[1:])
    command = parse(COMMANDS[first], arguments[1:], f"asymrl {first}")
    use_compilation_cache()
    quiet = getattr(command, "quiet", False) or getattr(getattr(command, "training", None), "quiet", False)
    with redirected(quiet=quiet, as_json=getattr(command, "json", False)):
        return command.run()


def _overview() -> str:
    """Each command with the first sentence of its help."""
    width = min(shutil.get_terminal_size().columns, 110)
    lines = [
        textwrap.fill(f"  {name:<12}{summary(command)}", width, subsequent_indent=" " * 14, break_on_hyphens=False)
        for name, command in COMMANDS.items()
    ]
    return "\n".join(["usage: asymrl COMMAND [OPTIONS]", "", DESCRIPTION, "", *lines])
