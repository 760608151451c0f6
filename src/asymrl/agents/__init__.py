"""Trained agents: loading them from a store, acting with them, evaluating and watching them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.agents.evaluation import Evaluation as Evaluation
    from asymrl.agents.evaluation import evaluate as evaluate
    from asymrl.agents.evaluation import over_seeds as over_seeds
    from asymrl.agents.evaluation import play as play
    from asymrl.agents.playback import Playback as Playback
    from asymrl.agents.playback import play_back as play_back
    from asymrl.agents.policy import ActorPolicy as ActorPolicy
    from asymrl.agents.policy import Policy as Policy
    from asymrl.agents.trained import TrainedRun as TrainedRun
    from asymrl.agents.trained import TrainedRuns as TrainedRuns
    from asymrl.agents.trained import best_run as best_run
    from asymrl.agents.trained import load_trained as load_trained

__getattr__, __dir__ = exports(
    __name__,
    {
        "asymrl.agents.evaluation": ["Evaluation", "evaluate", "over_seeds", "play"],
        "asymrl.agents.playback": ["Playback", "play_back"],
        "asymrl.agents.policy": ["ActorPolicy", "Policy"],
        "asymrl.agents.trained": ["TrainedRun", "TrainedRuns", "best_run", "load_trained"],
    },
)
