"""What the replays of a fall change, one thing each.

A variant has three phases: the update of the episode that the fall begins with, the `WINDOW` updates after it, and all
later ones. That episode is the same in all variants but those that draw other random numbers before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

WINDOW = 20  # updates
NEVER = 2**30  # a timestep that no replay reaches


@dataclass(frozen=True)
class ReplayVariant:
    """What a replay changes; the names are those of `Change`, and speeds are relative to the recorded run's."""

    first: Mapping[str, Any] = field(default_factory=dict)
    """In the update of the episode that the fall begins with."""
    window: Mapping[str, Any] = field(default_factory=dict)
    """In the `WINDOW` updates after it."""
    later: Mapping[str, Any] = field(default_factory=dict)
    starts: int = 0
    """After which update random numbers are others: 0 is that of the episode, -1 the one before it."""
    next_target: int | None = None
    """Timestep of the next copy of the critic. None: as it is."""


def throughout(**changed: Any) -> ReplayVariant:
    """The change holds in all updates of the replay."""
    return ReplayVariant(changed, changed, changed)


def at_first(**changed: Any) -> ReplayVariant:
    """The change holds in the update of the episode and in the window after it."""
    return ReplayVariant(changed, changed)


ALWAYS = {"target_period": 1}
VARIANTS: dict[str, ReplayVariant] = {
    "nothing": ReplayVariant(),
    "episode does not happen": ReplayVariant(starts=-1),
    "100 updates before": ReplayVariant(starts=-100),
    "10 updates after": ReplayVariant(starts=10),
    "30 updates after": ReplayVariant(starts=30),
    "its update skipped": ReplayVariant({"skip_below": 0.5}),
    "critic waits 20 updates": at_first(critic_speed=0.0),
    "actor waits 20 updates": at_first(actor_speed=0.0),
    "both clip 1": throughout(actor_clip=1.0, critic_clip=1.0),
    "both clip 0.1": throughout(actor_clip=0.1, critic_clip=0.1),
    "critic clip 1": throughout(critic_clip=1.0),
    "critic clip 0.1": throughout(critic_clip=0.1),
    "actor clip 1": throughout(actor_clip=1.0),
    "actor clip 0.1": throughout(actor_clip=0.1),
    "both beta2 0.99": throughout(actor_new_square=0.01, critic_new_square=0.01),
    "both beta2 0.9": throughout(actor_new_square=0.1, critic_new_square=0.1),
    "rates / 3": throughout(actor_speed=1 / 3, critic_speed=1 / 3),
    "both eps 1e-3": throughout(actor_eps=1e-3, critic_eps=1e-3),
    "squares never shrink": throughout(keep_largest=True),
    "advantages clip 0.05": throughout(advantage_limit=0.05),
    "advantages normalised": throughout(normalise=True),
    "target never copied": ReplayVariant(next_target=NEVER),
    "target always copied": ReplayVariant(ALWAYS, ALWAYS, ALWAYS, next_target=0),
    "entropy x 3": throughout(entropy_factor=3.0),
    # Whether the last two need the episode: they hold from 100 updates before it, with other random numbers.
    "target always copied, before": ReplayVariant(ALWAYS, ALWAYS, ALWAYS, starts=-100, next_target=0),
    "entropy x 3, before": replace(throughout(entropy_factor=3.0), starts=-100),
}


def floor_arm(factor: float) -> str:
    """What runs are called whose final weight of the entropy is this many times the paper's."""
    return f"floor x {factor:g}"


# Runs whose weight of the entropy was approached slowly are compared with those that approached the usual one.
USUAL_FLOOR = floor_arm(1)


def usual_arm(arm: str) -> str:
    """The arm that another one is compared with."""
    return USUAL_FLOOR if arm.startswith("floor") else "nothing"
