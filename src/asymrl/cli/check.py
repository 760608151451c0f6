"""`asymrl check`: does a world keep its promises?"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from asymrl.cli.usage import UsageError, world_named


@dataclass(frozen=True)
class Check:
    """Examine whether a world keeps its promises; the exit status is 1 if not."""

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD")]
    """Name of the world, such as heaven-hell-3 or cleaner:maze_seed=7, a .pomdp file, or file.py:Name."""

    seed: int = 0
    """Seed of the episodes that are examined."""

    def run(self) -> int:
        from asymrl.worlds import CheckError, check

        env = world_named(self.world)
        try:
            print(check(env, seed=self.seed))
        except CheckError as error:
            print(f"asymrl: {error}", file=sys.stderr)
            return 1
        except ValueError as error:
            raise UsageError(str(error)) from error
        return 0
