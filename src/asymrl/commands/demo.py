"""`asymrl demo`: an episode of each world, as films to look at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asymrl.commands.episodes import random_actions, record
from asymrl.commands.usage import UsageError, world_named
from asymrl.names import WORLDS


@dataclass(frozen=True)
class Demo:
    """Draw an episode of each world as a film; the actions are random."""

    folder: Path = Path("demo")
    """Where the films go."""

    seed: int = 0
    """Seed of the worlds and of the actions."""

    def run(self) -> int:
        from rich import box
        from rich.console import Console
        from rich.table import Table

        from asymrl.envs.pictures import save_gif

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.folder}: can not be made a folder: {error.strerror}") from error
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column("world", style="bold")
        table.add_column("steps", justify="right")
        table.add_column("return", justify="right")
        table.add_column("ended by")
        console = Console()
        for name in WORLDS:
            env = world_named(name)
            moments = list(record(env, random_actions(env, self.seed), self.seed))
            film = self.folder / f"{name}.gif"
            with console.status(f"drawing {name}"):
                save_gif((moment.frame(env) for moment in moments), film)
            last = moments[-1]
            ended_by = "the world" if last.terminated else "time limit"
            table.add_row(name, str(last.step), f"{last.total:.2f}", ended_by)
        console.print("One episode of each world, with random actions:\n", highlight=False)
        console.print(table)
        console.print(f"\nFilms: {self.folder}/*.gif", highlight=False, soft_wrap=True)
        return 0
