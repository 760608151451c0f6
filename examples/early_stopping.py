"""Stop each run by a rule of one's own: when its return has not improved for some points of its learning curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import asymrl
from asymrl.runs import Callback, StopRuns

if TYPE_CHECKING:
    import polars as pl

    from asymrl.runs.runs import Run


class Patience(Callback):
    """Stops a run once its return was not better than before for `points` points of its learning curve."""

    def __init__(self, points: int, least: float = 0.0):
        """`least`: how much better counts."""
        self.allowed, self.least = points, least

    def begin(self, runs: Sequence[Run]) -> None:
        self.best, self.waited = [-float("inf")] * len(runs), [0] * len(runs)

    def points(self, run: int, table: pl.DataFrame) -> None:
        for value in table["return"].drop_nulls().to_list():  # null until the first episode is over
            better = value > self.best[run] + self.least
            self.best[run] = max(value, self.best[run])
            self.waited[run] = 0 if better else self.waited[run] + 1
        if self.waited[run] >= self.allowed:
            raise StopRuns(run)  # StopRuns() would stop all of them


def main(points: int = 20, **settings: Any) -> asymrl.Runs:
    """Trains two runs, each until it stops improving, and prints how they ended."""
    chosen: dict[str, Any] = {"seeds": 2, "steps": 400_000, **settings}
    runs = asymrl.train("cart-pole", "a2c-asym-hs", callbacks=[Patience(points)], **chosen)
    print(runs.table.select("seed", "status", "timesteps", "recent_return"))
    return runs


if __name__ == "__main__":
    main()
