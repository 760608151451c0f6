"""Runs: the folders that keep them, training, evaluating, following and searching them.

A `Run` is one training: settings and a seed. A `Store` is a folder with runs, and `train_store` trains those that are
not over. `Placement` says where to train and `Pace` how often to refresh and to save; a `Callback` follows the training
and may stop runs (`StopRuns`). `load_trained` gives trained agents, `evaluate` and `play` let them act, and a
`SettingsSearch` searches settings with Optuna. A `RunError` is a problem that the user can fix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.runs.callback import Callback as Callback, Probe as Probe, StopRuns as StopRuns
    from asymrl.runs.driver import Outcome as Outcome, train_store as train_store
    from asymrl.runs.evaluation import (
        Evaluation as Evaluation,
        evaluate as evaluate,
        over_seeds as over_seeds,
        play as play,
    )
    from asymrl.runs.files import RunError as RunError, StorageError as StorageError
    from asymrl.runs.placement import Pace as Pace, Placement as Placement
    from asymrl.runs.playback import Playback as Playback, play_back as play_back
    from asymrl.runs.policy import ActorPolicy as ActorPolicy, Policy as Policy
    from asymrl.runs.progress import Progress as Progress
    from asymrl.runs.runs import Run as Run
    from asymrl.runs.search_space import (
        SearchAxis as SearchAxis,
        default_space as default_space,
        read_space as read_space,
    )
    from asymrl.runs.settings_search import SettingsSearch as SettingsSearch
    from asymrl.runs.store import Store as Store
    from asymrl.runs.trained import (
        TrainedRun as TrainedRun,
        TrainedRuns as TrainedRuns,
        best_run as best_run,
        load_trained as load_trained,
    )

__getattr__, __dir__ = exports(__name__)
