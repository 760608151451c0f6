"""Learning: episodes are collected, returns and losses computed, parameters updated; one file per learner.

`Settings` are everything that decides a run apart from its seed, and `METHODS` the names of the paper's methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.learning.methods import METHODS as METHODS
    from asymrl.learning.settings import Settings as Settings

__getattr__, __dir__ = exports(
    __name__, {"asymrl.learning.methods": ["METHODS"], "asymrl.learning.settings": ["Settings"]}
)
