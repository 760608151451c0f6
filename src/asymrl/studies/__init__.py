"""Studies: questions that the paper leaves open, each with a prediction, runs and an exact analysis.

`STUDIES` has them by name. A `Study` lists its setups and arms; `asymrl.study` trains its runs, and `answer` makes
tables and figures of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.studies.answers import answer as answer
    from asymrl.studies.catalogue import STUDIES as STUDIES, study_named as study_named
    from asymrl.studies.study import Arm as Arm, Search as Search, Setup as Setup, Study as Study

__getattr__, __dir__ = exports(
    __name__,
    {
        "asymrl.studies.answers": ["answer"],
        "asymrl.studies.catalogue": ["STUDIES", "study_named"],
        "asymrl.studies.study": ["Arm", "Search", "Setup", "Study"],
    },
)
