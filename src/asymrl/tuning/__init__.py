"""A search over settings with Optuna, in a folder that holds the runs of its trials.

`SettingsSearch` runs it, `SearchAxis` has the values of a setting that may be tried, `default_space` gives what is
searched for a learner, and `read_space` the user's own from a TOML file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.tuning.search_space import (
        SearchAxis as SearchAxis,
        default_space as default_space,
        read_space as read_space,
    )
    from asymrl.tuning.settings_search import SettingsSearch as SettingsSearch

__getattr__, __dir__ = exports(
    __name__,
    {
        "asymrl.tuning.search_space": ["SearchAxis", "default_space", "read_space"],
        "asymrl.tuning.settings_search": ["SettingsSearch"],
    },
)
