"""Everything that the command does, from Python. These names are those of `asymrl` itself.

>>> import asymrl
>>> runs = asymrl.train("heaven-hell-3", method="a2c-asym-hs", seeds=5)
>>> runs.metrics
>>> runs.evaluate()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.api.loaded import Runs as Runs, load as load
    from asymrl.api.searching import Tuning as Tuning, tune as tune
    from asymrl.api.training import (
        Comparison as Comparison,
        compare as compare,
        reproduce as reproduce,
        resume as resume,
        sweep as sweep,
        train as train,
    )

__getattr__, __dir__ = exports(__name__)
