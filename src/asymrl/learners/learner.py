"""What a learner is: pure functions of one run, which a program vectorises over its runs."""

from __future__ import annotations

from typing import Any, Protocol

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learners.curve import Losses
from asymrl.learners.episodes import Segments, WholeEpisodes
from asymrl.learners.numbers import Numbers
from asymrl.learners.state import RunState
from asymrl.settings import Settings
from asymrl.worlds.world import World


class Learner(Protocol):
    """A learner with the world and the settings of its runs. Runs and settings are of its own kind."""

    @property
    def world(self) -> World: ...

    @property
    def settings(self) -> Any: ...

    @property
    def rollout(self) -> WholeEpisodes | Segments:
        """What is collected for an update."""
        ...

    def init(self, seed: Int[Array, ""] | int) -> Any:
        """A run before its first update. Everything random in it comes from the seed."""
        ...

    def exploration(self, run: Any, numbers: Numbers) -> Float[Array, ""] | None:
        """The probability of a random action, for policies that are greedy otherwise."""
        ...

    def ready(self, run: Any) -> Bool[Array, ""]:
        """Whether the run acts next; otherwise it first finishes its last update."""
        ...

    def update(
        self, key: PRNGKeyArray, run: Any, numbers: Numbers, steps: Int[Array, ""], batch: Any, on: Bool[Array, ""]
    ) -> tuple[Any, Losses]:
        """The run after it has learned, and the losses.

        Args:
            key: of this update.
            run: whose counters have the batch already, and whose streams are those after it.
            numbers: its settings.
            steps: its timesteps before the batch.
            batch: what was collected: `Episodes`, or for `Segments` what they began with and a `Piece`.
            on: whether it still trains; otherwise it stays exactly as it is.
        """
        ...

    def networks(self, run: Any) -> list[Any]:
        """All networks of the run that read observations or a privileged signal."""
        ...


def learner(world: World, settings: Settings) -> Learner:
    """The learner of these settings, in a world with their time limit and repeated actions."""
    from asymrl.learners.a2c import A2C
    from asymrl.learners.dqn import DQN
    from asymrl.learners.normalised import Normalised
    from asymrl.learners.ppo import PPO

    kind = {"a2c": A2C, "ppo": PPO, "dqn": DQN}[settings.how.learner]
    plain: Learner = kind(world, settings)
    is_normalised = settings.normalise_observations or settings.architecture.normalise_rewards
    return Normalised(plain) if is_normalised else plain


def new_run(world: World, settings: Settings, seed: Int[Array, ""] | int) -> RunState:
    """A run before its first update. Everything random in it comes from the seed."""
    return learner(world, settings).init(seed)
