"""`asymrl play`: an episode of a trained agent in the terminal, step by step."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from asymrl.cli.commands.render_command import check_film, save_film
from asymrl.cli.usage import (
    ZOO,
    Flag,
    RunSeed,
    Trust,
    UsageError,
    Where,
    holds_runs,
    select_run,
)

if TYPE_CHECKING:
    from asymrl.runs.trained import TrainedRun

ENDINGS = (".gif", ".png")


@dataclass(frozen=True)
class Play:
    """Watch a trained agent act, step by step: one that ships with asymrl, or one of your own runs.

    Without a name, lists the agents that ship with asymrl.
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME|FOLDER", help_behavior_hint="")] = ""
    """Name of a shipped agent, such as heaven-hell-3, or a folder with runs."""

    output: Annotated[str, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = "-"
    """A .gif film of the whole episode, a .png picture of its last moment, or - for text on the terminal."""

    seed: int = 0
    """Seed of the episode."""

    steps: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: to its end)")] = None
    """Stop the episode after this many steps; 0 shows the start."""

    sample: Flag = False
    """Sample the actions, as in training, instead of taking the most likely ones."""

    fast: Flag = False
    """Print all steps at once, one below the other, instead of animating them in place."""

    seconds: float = 0.6
    """How long each step is shown."""

    run_seed: RunSeed = None

    where: Where = ()

    trust: Trust = False

    def run(self) -> int:
        if not self.name:
            return _print_agents()
        check_film(self.output, ENDINGS, self.steps, self.seconds)
        name = _agent_named(self.name)
        trained_run = select_run(name, self.run_seed, self.where, trust=self.trust)

        from asymrl.report.films import film_of_run

        film = film_of_run(trained_run, seed=self.seed, greedy=not self.sample, steps=self.steps)
        if self.output == "-":
            _show(film.lines(), None if self.fast or not sys.stdout.isatty() else self.seconds)
        else:
            save_film(film, self.output, "", self.seconds)
        print(f"\n{_described(name, trained_run)}")
        return 0


def _agent_named(name: str) -> str:
    """The user's folder with runs, or `zoo:NAME` for a shipped agent, which comes first."""
    from asymrl.zoo import names

    if name in names():
        return ZOO + name
    if holds_runs(name):
        return name
    raise UsageError(
        f"{name}: neither a shipped agent nor a folder with runs. Shipped agents: {', '.join(names())}. "
        "`asymrl train WORLD` trains others"
    )


def _show(frames: Iterator[str], seconds: float | None) -> None:
    """Prints frames in the same place for so many seconds each, or without seconds one below the other."""
    from rich.live import Live
    from rich.text import Text

    from asymrl.runs.display import plain_console

    if seconds is None:
        for frame in frames:
            print(frame)
        return
    with Live(console=plain_console(), auto_refresh=False) as live:
        for frame in frames:
            live.update(Text(frame.strip("\n")), refresh=True)
            time.sleep(seconds)


def _described(name: str, trained_run: TrainedRun) -> str:
    """What was shown: of a shipped agent how good it is and how to train it, of a run what it reached in training."""
    from asymrl.runs.wording import estimate, thousands
    from asymrl.zoo import load

    settings = trained_run.settings
    what = f"{settings.world}, {settings.method}, seed {trained_run.seed}"
    if not name.startswith(ZOO) and not math.isfinite(trained_run.recent_return):
        return f"{what}: no episode was over in training"
    if not name.startswith(ZOO):
        return f"{what}: return {trained_run.recent_return_text} in the last 100 episodes of training"
    card = load(name.removeprefix(ZOO)).card
    greedy = estimate(card.greedy_returns, card.greedy_error, 3)
    sampled = estimate(card.returns, card.error, 3)
    return (
        f"{what}: mean return {greedy}, or {sampled} with sampled actions ({thousands(card.episodes)} episodes)\n"
        f"Trained by: {card.command}"
    )


def _print_agents() -> int:
    from rich import box
    from rich.table import Table

    from asymrl.runs.display import plain_console
    from asymrl.runs.wording import estimate
    from asymrl.worlds.reference_scores import scores
    from asymrl.zoo import load, names

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for column in ("agent", "method", "return", "sampled", "best", "steps"):
        table.add_column(column, justify="left" if column in ("agent", "method") else "right", no_wrap=True)
    for name in names():
        agent = load(name)
        settings, card = agent.runs[0].settings, agent.card
        reference = scores(settings.world)
        best = f"{reference.undiscounted['best'].low:.3g}" if reference else ""
        means = estimate(card.greedy_returns, card.greedy_error), estimate(card.returns, card.error)
        table.add_row(name, settings.method, *means, best, f"{settings.steps / 1e6:g} M")
    console = plain_console()
    console.width = max(console.width, 80)
    console.print(table)
    notes = (
        "return: mean of 1000 episodes ± standard error, with the most likely actions.",
        "sampled: the same with sampled actions. best: of the best known policy.",
        "`asymrl play NAME` shows an episode.",
    )
    console.print("\n" + "\n".join(notes), style="dim")
    return 0
