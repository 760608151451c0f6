"""The paper: what its grid search chose, what it trained, and its figures and tables from our own runs.

`tuned(world, method)`, `grid(world)`, `authors_budget(world)` and `PAPER_WORLDS` are the paper's numbers, `budget` is
our own for a world. `extent` says how much of a part ("curves", "critics" or "grid") to reproduce, and `runs_of` which
runs that needs; `asymrl.reproduce` trains them. `reproduction` makes the part's table and figures from a folder with
runs, and `claims_reproduction` judges what the paper claims. The tables themselves are `comparison` for curves,
`final_values` for critics and `ranking` for a grid search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.report.paper.claims import CLAIMS as CLAIMS, Claim as Claim, judged as judged
    from asymrl.report.paper.evidence import Evidence as Evidence, read_evidence as read_evidence
    from asymrl.report.paper.parts import Extent as Extent, extent as extent, runs_of as runs_of
    from asymrl.report.paper.reproduced import (
        claims_reproduction as claims_reproduction,
        reproduction as reproduction,
    )
    from asymrl.report.paper.results import comparison as comparison, final_values as final_values
    from asymrl.report.paper.selection import ranking as ranking
    from asymrl.settings.hyperparameters import (
        PAPER_WORLDS as PAPER_WORLDS,
        RATES as RATES,
        authors_budget as authors_budget,
        budget as budget,
        grid as grid,
        tuned as tuned,
    )

__getattr__, __dir__ = exports(__name__)
