"""`asymrl render`: an episode as a film, a picture or text."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from asymrl.commands.episodes import Moment, parse_actions, random_actions, record
from asymrl.commands.usage import UsageError, world_named

if TYPE_CHECKING:
    from asymrl.envs import World

ENDINGS = (".gif", ".png")


@dataclass(frozen=True)
class Render:
    """Draw an episode as a film, a picture or text: the true state beside the agent's view."""

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD")]
    """Name of the world, such as heaven-hell-3 or cleaner:maze_seed=7."""

    policy: str = "random"
    """Who acts: 'random', or actions to replay, by name or index, such as S,E,E,E; the episode stops after them."""

    output: Annotated[str, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = "-"
    """A .gif film of the whole episode, a .png picture of its last moment, or - for text on the terminal."""

    seed: int = 0
    """Seed of the world and of the random policy."""

    steps: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: to its end)")] = None
    """Stop the episode after this many steps; 0 shows the start."""

    seconds: float = 0.4
    """How long the film shows each step."""

    dpi: int = 100
    """Resolution; 100 gives 800 x 450 pixels."""

    def run(self) -> int:
        self._check_numbers()
        ending = _ending(self.output)
        env = world_named(self.world)
        actions = random_actions(env, self.seed) if self.policy == "random" else parse_actions(env, self.policy)
        moments = record(env, itertools.islice(actions, self.steps), self.seed)
        if ending is None:
            _print_text(env, moments)
        else:
            _save(env, moments, Path(self.output), ending, self.seconds, self.dpi)
        return 0

    def _check_numbers(self) -> None:
        if self.steps is not None and self.steps < 0:
            raise UsageError(f"--steps {self.steps}: can not be negative; 0 shows the start")
        if not 0.02 <= self.seconds <= 60:
            raise UsageError(f"--seconds {self.seconds:g}: choose between 0.02 and 60 per step")
        if not 20 <= self.dpi <= 1000:
            raise UsageError(f"--dpi {self.dpi}: choose between 20 and 1000")


def _ending(output: str) -> str | None:
    """The kind of file to write, None for text; complains before any work is done if it can not be written."""
    if output == "-":
        return None
    path = Path(output)
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"{output}: unknown file ending {path.suffix!r}; use {' or '.join(ENDINGS)}, or - for text")
    if not path.parent.is_dir():
        raise UsageError(f"{output}: there is no folder {str(path.parent)!r}; create it first")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{output}: can not be written; choose another place with -o")
    return path.suffix.lower()


def _print_text(env: World, moments: Iterable[Moment]) -> None:
    for i, moment in enumerate(moments):
        print(("\n" if i else "") + moment.text(env))


def _save(env: World, moments: Iterable[Moment], path: Path, ending: str, seconds: float, dpi: int) -> None:
    moments = list(moments)
    try:
        if ending == ".gif":
            from asymrl.envs.pictures import save_gif

            save_gif((moment.frame(env, dpi=dpi) for moment in moments), path, seconds)
        else:
            from PIL import Image

            Image.fromarray(moments[-1].frame(env, dpi=dpi)).save(path, optimize=True)
    except OSError as error:
        raise UsageError(f"{path}: can not be written: {error.strerror or error}") from error
    last = moments[-1]
    print(f"{path}: {env.name}, {last.step} steps, return {round(last.total, 6):g}")
