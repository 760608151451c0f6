"""The learners: what each of them offers to the programs that train its runs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol, cast

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learners.numbers import Numbers
from asymrl.learners.state import RunState
from asymrl.settings import Settings
from asymrl.worlds.world import World

if TYPE_CHECKING:
    import numpy as np

    from asymrl.learners.collector import Collector

MODULES = {name: f"asymrl.learners.{name}" for name in ("a2c", "ppo", "dqn")}


class Learner(Protocol):
    """The functions in the module of a learner. Runs, settings and numbers are of its own kind."""

    def new_run(self, env: World, settings: Any, seed: Int[Array, ""] | int) -> RunState:
        """A run before its first update. Everything random in it comes from the seed."""
        ...

    def update(self, env: World, settings: Any, numbers: Numbers, runs: Any) -> RunState:
        """At most one update of each run `[run, ...]` that is still active, in a world that is compiled.

        Some learners let a run finish its update in the next call, while other runs begin their next one.
        """
        ...

    def collect(
        self,
        collector: Collector,
        settings: Any,
        numbers: Numbers,
        runs: Any,
        keys: PRNGKeyArray,
        active: Bool[np.ndarray, "run"],
        steps: int | None = None,
    ) -> Any:
        """What an update learns from, in a world that runs in Python; or only its first `steps` steps."""
        ...

    def update_from(
        self, env: World, settings: Any, numbers: Numbers, runs: Any, collected: Any, evaluated: Float[Array, "run 2"]
    ) -> RunState:
        """The rest of an update, given what was collected."""
        ...


def learner(settings: Settings) -> Learner:
    """The learner of these settings."""
    return cast(Learner, importlib.import_module(MODULES[settings.how.learner]))


def new_run(env: World, settings: Settings, seed: Int[Array, ""] | int) -> RunState:
    """A run before its first update. Everything random in it comes from the seed."""
    return learner(settings).new_run(env, settings, seed)
