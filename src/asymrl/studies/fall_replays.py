"""Replays of falls: a run goes on from just before the episode that a fall begins with, with one thing changed.

`VARIANTS` lists what is changed. A variant has three phases: the update of that episode, the `WINDOW` updates after it,
and all later ones. The episode itself is the same in all variants but those that draw other random numbers before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from asymrl.learning.state import RECENT
from asymrl.report.falls import LOST
from asymrl.studies.intervened_updates import CHUNK, Change, Replayer, with_key

if TYPE_CHECKING:
    from asymrl.learning.a2c import A2CState

WINDOW = 20  # updates
HORIZON = 250  # updates in which a replay can lose the task
GAP = 50  # updates without a failure before the episode that a fall begins with
UPDATES_OF_MEAN = RECENT // 2  # two episodes each
NEVER = 2**30


@dataclass(frozen=True)
class Variant:
    """What a replay changes."""

    first: Mapping[str, Any] = field(default_factory=dict)
    """In the update of the episode that the fall begins with; the names are those of `Change`."""
    window: Mapping[str, Any] = field(default_factory=dict)
    later: Mapping[str, Any] = field(default_factory=dict)
    starts: int = 0
    """From where on random numbers are others, in updates after that episode's; -1 is before it."""
    next_target: int | None = None
    """Timestep of the next copy of the critic. None: as it is."""


def throughout(**changed: Any) -> Variant:
    """The change holds in all updates of the replay."""
    return Variant(changed, changed, changed)


FROZEN = {"critic": {"critic_speed": 0.0}, "actor": {"actor_speed": 0.0}}
VARIANTS: dict[str, Variant] = {
    "nothing": Variant(),
    "episode does not happen": Variant(starts=-1),
    "100 updates before": Variant(starts=-100),
    "10 updates after": Variant(starts=10),
    "30 updates after": Variant(starts=30),
    "its update skipped": Variant({"actor_speed": 0.0, "critic_speed": 0.0, "skip_below": 0.5}),
    "critic waits 20 updates": Variant(FROZEN["critic"], FROZEN["critic"]),
    "actor waits 20 updates": Variant(FROZEN["actor"], FROZEN["actor"]),
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
    "advantages clip 0.05": throughout(advantage_limit=0.05),
    "target never copied": Variant(next_target=NEVER),
    "target always copied": Variant(
        {"target_period": 1}, {"target_period": 1}, {"target_period": 1}, next_target=0
    ),
    "entropy x 3": throughout(entropy_factor=3.0),
}


class Outcome(NamedTuple):
    """What became of a replay."""

    fell: bool
    after: int | None
    """Updates from the first episode to the fall."""
    lowest: float
    """Lowest mean return of 100 episodes."""
    failures: int
    """Updates with an episode that did not reach heaven, the first one included."""


def onset_of(lowest_returns: Float[np.ndarray, "update"]) -> int:
    """The update that a fall at the end of this record begins with: the first failure after `GAP` updates without."""
    failed = np.flatnonzero(lowest_returns < 1)
    first = len(failed) - 1
    while first > 0 and failed[first] - failed[first - 1] < GAP:
        first -= 1
    return int(failed[first])


def fall_in(mean_returns: Float[np.ndarray, "update"]) -> tuple[int | None, float]:
    """The first update after which the mean of 100 episodes is below `LOST`, and the lowest such mean."""
    means = np.convolve(mean_returns, np.full(UPDATES_OF_MEAN, 1 / UPDATES_OF_MEAN), mode="valid")
    below = np.flatnonzero(means < LOST)
    return (int(below[0]) if len(below) else None), float(means.min())


def forward(
    replayer: Replayer, arrays: A2CState, updates: int, change: Change, weight: float
) -> tuple[A2CState, list[dict[str, np.ndarray]]]:
    """The run after any number of updates, and the measurements."""
    rows = []
    while updates > 0:
        arrays, measured = replayer.train(arrays, min(updates, CHUNK), change, entropy_weight=weight)
        rows.append(measured)
        updates -= CHUNK
    return arrays, rows


def replay(
    replayer: Replayer,
    early: A2CState,
    before: A2CState,
    variant: Variant,
    *,
    usual: Change,
    weight: float,
    key: int,
) -> tuple[Outcome, list[dict[str, np.ndarray]]]:
    """One replay.

    Args:
        replayer: of the run's settings.
        early: the run 100 updates before the episode that the fall begins with.
        before: just before its update.
        variant: what is changed.
        usual: how the recorded run differs from the settings, such as its learning rates.
        weight: of the entropy.
        key: which other random numbers; 0: the run's own.
    """
    phases = [(1, variant.first), (WINDOW, variant.window), (HORIZON - 1 - WINDOW, variant.later)]
    arrays, rows = before, []
    if variant.starts < 0:
        arrays = with_key(early if variant.starts < -1 else before, key)
        phases[-1] = (phases[-1][0] - 1 - variant.starts, variant.later)
    if variant.next_target is not None:
        arrays = eqx.tree_at(lambda a: a.next_target, arrays, jnp.full_like(arrays.next_target, variant.next_target))
    done = 0
    for updates, changed in split(phases, variant.starts + 1):
        if done == variant.starts + 1 and done > 0:
            arrays = with_key(arrays, key)
        factors = {name: value for name, value in changed.items()}
        for name in ("actor_speed", "critic_speed"):
            if name in factors:
                factors[name] *= getattr(usual, name)
        change = usual._replace(**factors)
        while updates > 0:
            arrays, measured = replayer.train(arrays, min(updates, CHUNK), change, entropy_weight=weight)
            rows.append(measured)
            done += len(measured["update"])
            updates -= CHUNK
            returns = np.concatenate([np.ones(UPDATES_OF_MEAN), *(row["mean_return"] for row in rows)])
            if fall_in(returns)[0] is not None:
                return outcome(returns, rows), rows
    return outcome(returns, rows), rows


def split(phases: Sequence[tuple[int, Mapping[str, Any]]], at: int) -> list[tuple[int, Mapping[str, Any]]]:
    """The phases, the one that lasts beyond this number of updates divided there."""
    parts, done = [], 0
    for updates, changed in phases:
        inside = at - done
        if 0 < inside < updates:
            parts += [(inside, changed), (updates - inside, changed)]
        else:
            parts.append((updates, changed))
        done += updates
    return parts


def outcome(returns: Float[np.ndarray, "update"], rows: Sequence[Mapping[str, np.ndarray]]) -> Outcome:
    """What the mean returns, those of the solved run in front, and the measurements say."""
    after, lowest = fall_in(returns)
    failures = sum(int((row["lowest_return"] < 1).sum()) for row in rows)
    return Outcome(after is not None, after, lowest, failures)
