"""Trained agents: loading them from a store, acting with them, evaluating and watching them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.agents.evaluation import (
        Evaluation as Evaluation,
        evaluate as evaluate,
        over_seeds as over_seeds,
        play as play,
    )
    from asymrl.agents.playback import Playback as Playback, play_back as play_back
    from asymrl.agents.policy import ActorPolicy as ActorPolicy, Policy as Policy
    from asymrl.agents.trained import (
        TrainedRun as TrainedRun,
        TrainedRuns as TrainedRuns,
        best_run as best_run,
        load_trained as load_trained,
    )

__getattr__, __dir__ = exports(
    __name__,
    {
        "asymrl.agents.evaluation": ["Evaluation", "evaluate", "over_seeds", "play"],
        "asymrl.agents.playback": ["Playback", "play_back"],
        "asymrl.agents.policy": ["ActorPolicy", "Policy"],
        "asymrl.agents.trained": ["TrainedRun", "TrainedRuns", "best_run", "load_trained"],
    },
)
