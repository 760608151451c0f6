"""Settings of runs: everything that determines a run apart from its seed, methods, presets and the paper's grid search.

Importing this package is cheap: settings are made before JAX is needed.
"""

from asymrl.settings.learner_settings import (
    SETTINGS as SETTINGS,
    A2CSettings as A2CSettings,
    DQNSettings as DQNSettings,
    PPOSettings as PPOSettings,
    check_learner as check_learner,
    names_of as names_of,
    new_settings as new_settings,
    own_values as own_values,
)
from asymrl.settings.run_settings import (
    MOST_STEPS as MOST_STEPS,
    SETTINGS_TYPES as SETTINGS_TYPES,
    Settings as Settings,
    settings_type as settings_type,
)
