"""The architecture of the networks, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from asymrl.worlds.allowed_code import is_class_name

MEMORIES = ("gru", "lstm", "none")
MOST_LAYERS = 16  # hidden layers; compilation takes seconds for each
LARGEST_LAYER = 2**20  # units; the weights between layers of twice that exceed any memory


@dataclass(frozen=True)
class Architecture:
    """What the networks are made of. Runs must have equal ones to share a compiled program."""

    memory: str = "gru"
    """What remembers the history: gru, lstm, none, or a user-defined class, such as features.py:Leaky."""
    memory_size: int = 128
    """Number of features of the history."""
    window: int | None = None
    """Remember only this many last action-observation pairs; none means the whole episode."""
    hidden: tuple[int, ...] | None = None
    """Hidden layers of policy and value; none means the paper's for this kind of world."""
    actor_memory: str | None = None
    """Memory of the actor, where it differs from `memory`."""
    critic_memory: str | None = None
    """Memory of the critic, where it differs from `memory`."""
    shared_memory: bool = False
    """Whether actor and critic read one and the same memory, which learns from both."""

    normalise_observations: bool = False
    """Whether numbers in observations and states are normalised by their mean and spread so far."""
    normalise_rewards: bool = False
    """Whether values are those of rewards divided by a running spread."""

    observation_features: str | None = None
    """A user-defined class that reads observations."""
    state_features: str | None = None
    """A user-defined class that reads what the critic sees besides the history."""
    load: Callable[[str, str], Any] | None = field(default=None, compare=False, repr=False)
    """Loads a user-defined class, given what it is used for and its name; needed if there is one."""

    def __post_init__(self) -> None:
        for name in ("observation_features", "state_features"):
            class_name = getattr(self, name)
            if class_name is not None and not is_class_name(class_name):
                raise ValueError(f"{name} {class_name!r}: write FILE.py:CLASS or MODULE:CLASS")
        for name in ("memory", "actor_memory", "critic_memory"):
            kind = getattr(self, name)
            if kind is not None and kind not in MEMORIES and not is_users(kind):
                raise ValueError(f"{name} {kind!r} is not one of {', '.join(MEMORIES)}, nor is it FILE.py:CLASS")
        if self.shared_memory and self.of_actor != self.of_critic:
            both = f"actor_memory {self.of_actor!r} and critic_memory {self.of_critic!r}"
            raise ValueError(f"{both} cannot be shared; choose one kind, or shared_memory off")
        if self.window is not None and self.window < 1:
            raise ValueError(f"window {self.window}: remember at least 1 pair, or none for the whole episode")
        if self.window is not None and self.window > LARGEST_LAYER:
            raise ValueError(
                f"window {self.window}: remember at most {LARGEST_LAYER} pairs, or none for the whole episode"
            )
        if self.memory_size < 1:
            raise ValueError(f"memory_size {self.memory_size}: at least 1 feature is needed")
        if len(self.hidden or ()) > MOST_LAYERS:
            raise ValueError(f"hidden has {len(self.hidden or ())} layers; choose at most {MOST_LAYERS}")
        for width in self.hidden or ():
            if not 1 <= width <= LARGEST_LAYER:
                raise ValueError(f"hidden {width}: a hidden layer has at least 1 and at most {LARGEST_LAYER} units")

    @property
    def of_actor(self) -> str:
        """The kind of the actor's memory."""
        return self.actor_memory or self.memory

    @property
    def of_critic(self) -> str:
        """The kind of the critic's memory."""
        return self.critic_memory or self.memory

    def made_by(self, what: str, name: str) -> Any:
        """The user-defined class with this name."""
        if self.load is None:
            raise ValueError(f"{what} {name!r}: this architecture does not say how to load it")
        return self.load(what, name)


def is_users(memory: str) -> bool:
    """Whether a memory is a user-defined class, rather than one of the kinds."""
    return memory.partition(":")[0] not in MEMORIES and is_class_name(memory)
