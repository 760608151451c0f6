"""What the critics say at the fork of Heaven-Hell-4 once training is over: the claims about figure 4, in numbers."""

from __future__ import annotations

import polars as pl

from asymrl.engine.statistics import final_points
from asymrl.learning.methods import METHODS
from asymrl.paper.fork import PAIRS, exact_values
from asymrl.paper.results import in_paper_order
from asymrl.report.intervals import bootstrap, mean


def final_values(probes: pl.DataFrame, n: int = 4) -> pl.DataFrame:
    """The mean value of each pair over the last tenth of training, with an interval over runs, and the optimal one."""
    per_run = (
        final_points(probes)
        .with_columns(pl.col("probe").cast(pl.String))
        .group_by("method", "probe", "seed", maintain_order=True)
        .agg(pl.col("value").cast(pl.Float64).mean())
    )
    exact, rows = exact_values(n), []
    for method in in_paper_order(per_run["method"].to_list(), METHODS):
        for pair in PAIRS:
            values = per_run.filter(pl.col("method") == method, pl.col("probe") == pair)["value"].to_numpy()
            found = bootstrap(values[:, None], mean)
            rows.append(
                {
                    "method": method,
                    "pair": pair,
                    "runs": len(values),
                    "value": found.estimate,
                    "value_low": found.low,
                    "value_high": found.high,
                    "optimal": exact[pair],
                }
            )
    return pl.DataFrame(rows)
