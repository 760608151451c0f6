"""Log a training in a format of one's own: a line of JSON for each point of a learning curve, and a last one."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asymrl
from asymrl.runs import Callback, Progress

if TYPE_CHECKING:
    import polars as pl

    from asymrl.runs.runs import Run


class JsonLines(Callback):
    """Appends to a file; what it says can be followed with `tail -f`."""

    def __init__(self, path: str | Path):
        self.path, self.speed = Path(path), None

    def begin(self, runs: Sequence[Run]) -> None:
        self.seeds = [run.seed for run in runs]
        self._write(event="begin", world=runs[0].settings.world, seeds=self.seeds)

    def progress(self, progress: Progress) -> None:
        self.speed = progress.speed

    def points(self, run: int, table: pl.DataFrame) -> None:
        for row in table.select("timestep", "return", "length").to_dicts():
            self._write(event="point", seed=self.seeds[run], **row)

    def end(self) -> None:
        self._write(event="end", steps_per_second=self.speed)

    def _write(self, **what: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"time": round(time.time(), 3), **what}) + "\n")


def main(path: str | Path = "training.jsonl", **settings: Any) -> asymrl.Runs:
    """Trains a run and logs it to a file."""
    chosen: dict[str, Any] = {"seeds": 1, "steps": 100_000, **settings}
    return asymrl.train("cart-pole", "a2c-asym-hs", callbacks=[JsonLines(path)], **chosen)


if __name__ == "__main__":
    main()
