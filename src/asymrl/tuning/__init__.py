"""A search over settings with Optuna, in a folder that holds the runs of its trials.

`SettingsSearch` runs it, `SearchAxis` holds the values of a setting to try, `default_space` returns the default search
space of a method, and `read_space` reads the user's own from a TOML file.
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
