"""Learning: returns, losses and updates of parameters; one file per learner.

`Settings` are everything that defines a run apart from its seed, and `PAPER_METHODS` the names of the paper's methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.settings import Settings as Settings
    from asymrl.settings.methods import PAPER_METHODS as PAPER_METHODS

__getattr__, __dir__ = exports(
    __name__, {"asymrl.settings.methods": ["PAPER_METHODS"], "asymrl.settings": ["Settings"]}
)
