"""`asymrl COMMAND --help`: options in groups, as wide as the terminal, with examples at the end."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from asymrl.cli.examples import EXAMPLES
from asymrl.cli.option_table import Option, options_of, paragraphs
from asymrl.cli.running import NetworkOptions, Running
from asymrl.settings import SETTINGS

NARROWEST, WIDEST = 40, 110
NAME_WIDTH = 28  # columns of an option's name; longer ones have a line of their own
HELP = Option("help", ("-h", "--help"), "", "", "Show this help.", is_needed=False)

RUN = ("world", "method", "preset", "start_from", "steps", "stop_return", "discount", "time_limit")
NETWORK = ("actor_sees", "critic_sees", "observation_features", "state_features",
           "memory", "actor_memory", "critic_memory", "memory_size", "window", "attention_heads",
           "hidden", "shared_memory", "precision")  # fmt: skip
OUTPUT = ("out", "report", "quiet", "json", *(each.name for each in fields(NetworkOptions)), "log_points",
          "evaluation_episodes", "evaluation_greedy", "checkpoint", "checkpoint_seconds", "refresh_seconds",
          "tensorboard", "wandb")  # fmt: skip
MACHINE = tuple(each.name for each in fields(Running) if each.name not in OUTPUT)
LEARNER = tuple(name for name in SETTINGS if name not in (*RUN, *NETWORK, *OUTPUT))
GROUPS = {"learner": LEARNER, "network": NETWORK, "output": OUTPUT, "machine": MACHINE}


def group_of(option: Option) -> str:
    """The heading under which an option of a command that trains stands: run, learner, network, output or machine."""
    return next((group for group, names in GROUPS.items() if option.name in names), "run")


def command_help(name: str, command: type) -> Iterator[tuple[str, bool]]:
    """The lines of the help of a command, and whether each is a heading."""
    width = _width()
    options = options_of(command)
    places = [option for option in options if not option.flags]
    usage = " ".join(["usage: asymrl", name, *(option.place for option in places), "[OPTIONS]"])
    yield from _plain(textwrap.wrap(usage, width, subsequent_indent="    ", break_on_hyphens=False))
    for paragraph in paragraphs(command):
        yield "", False
        yield from _plain(textwrap.wrap(paragraph, width, break_on_hyphens=False))
    yield from _group("arguments", places, width)
    groups: dict[str, list[Option]] = {"run": []} | {group: [] for group in GROUPS}
    for option in options:
        if option.flags:
            groups[group_of(option)].append(option)
    groups["run"].append(HELP)
    groups["output"].sort(key=lambda option: OUTPUT.index(option.name))
    if not issubclass(command, Running):
        groups = {"options": [option for group in groups.values() for option in group]}
    for group, members in groups.items():
        yield from _group(group, members, width)
    yield from _examples(EXAMPLES.get(name, ()), width)


def overview(description: str, commands: Mapping[str, type]) -> Iterator[tuple[str, bool]]:
    """The lines of `asymrl --help`: each command with its first sentence."""
    width = _width()
    yield "usage: asymrl COMMAND [OPTIONS]", False
    yield "", False
    for paragraph in description.splitlines():
        yield from _plain(textwrap.wrap(paragraph, width, break_on_hyphens=False))
    rows = [
        Option(name, (name,), "", "", paragraphs(command)[0], is_needed=False) for name, command in commands.items()
    ]
    yield from _group("commands", rows, width, name_width=max(map(len, commands)) + 4)
    yield from _examples([EXAMPLES[name][0] for name in ("train", "evaluate", "theory")], width)


def print_help(lines: Iterator[tuple[str, bool]]) -> None:
    """Prints help; headings are bold in a terminal."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    for line, is_heading in lines:
        console.print(line, style="bold" if is_heading else None, soft_wrap=True)


def _group(
    title: str, options: Sequence[Option], width: int, name_width: int = NAME_WIDTH
) -> Iterator[tuple[str, bool]]:
    name_width = min(name_width, width // 2)
    lines = [line for option in options for line in _option_lines(option, width, name_width)]
    yield from _lines_under(title, lines)


def _option_lines(option: Option, width: int, name_width: int) -> Iterator[str]:
    name = f"  {option.usage}"
    default = f" (default: {option.default})" if option.default else ""
    described = textwrap.wrap(option.text + default, width - name_width, break_on_hyphens=False)
    if len(name) > name_width - 2:
        yield from textwrap.wrap(
            option.usage, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
        )
        name = ""
    for i, text in enumerate(described):
        yield f"{'' if i else name:<{name_width}}{text}"


def _examples(commands: Sequence[str], width: int) -> Iterator[tuple[str, bool]]:
    """Commands that are wrapped so that they can still be copied into a shell."""
    wrapped = [
        textwrap.wrap(command, width - 2, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)
        for command in commands
    ]
    yield from _lines_under("examples", [" \\\n".join(lines) for lines in wrapped])


def _lines_under(title: str, lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    if lines:
        yield "", False
        yield title, True
        yield from _plain(lines)


def _plain(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    yield from ((line, False) for line in lines)


def _width() -> int:
    return min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)
