"""One replay: a run goes on from just before the episode that its fall begins with, with one thing changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from asymrl.learners.a2c import A2CState
from asymrl.learners.state import RECENT
from asymrl.report.falls import LOST
from asymrl.studies.fall_replays.changed_updates import CHUNK, Change, Replayer, with_key
from asymrl.studies.fall_replays.variants import WINDOW, ReplayVariant

HORIZON = 250  # updates in which a replay can lose the task
GAP = 50  # updates without a failure before the episode that a fall begins with
UPDATES_OF_MEAN = RECENT // 2  # two episodes each
APPROACH, STAY = 2000, 1000  # updates in which the weight of the entropy changes, and then remains

Measured = dict[str, np.ndarray]


class ReplayOutcome(NamedTuple):
    """What became of a replay."""

    fell: bool
    after: int | None
    """Updates from the start of the replay to the fall."""
    lowest: float
    """Lowest mean return of 100 episodes."""
    failures: int
    """Updates with an episode that did not reach heaven."""


def onset_of(lowest_returns: Float[np.ndarray, "update"]) -> int:
    """The update that a fall at the end of this record begins with: the first failure after `GAP` updates without."""
    failed = np.flatnonzero(lowest_returns < 1)
    first = len(failed) - 1
    while first > 0 and failed[first] - failed[first - 1] < GAP:
        first -= 1
    return int(failed[first])


def forward(
    replayer: Replayer, arrays: A2CState, updates: int, change: Change, weight: float
) -> tuple[A2CState, list[Measured]]:
    """The run after any number of updates, and what was measured, at most `CHUNK` updates each."""
    rows = []
    while updates > 0:
        arrays, measured = replayer.train(arrays, min(updates, CHUNK), change, entropy_weight=weight)
        rows.append(measured)
        updates -= CHUNK
    return arrays, rows


def with_entropy_weight(replayer: Replayer, arrays: A2CState, start: float, end: float) -> A2CState:
    """The run after its weight of the entropy has changed slowly, by equal factors, at the settings' learning rates."""
    for share in np.arange(CHUNK, APPROACH + 1, CHUNK) / APPROACH:
        arrays, _ = forward(replayer, arrays, CHUNK, Change(), start * (end / start) ** share)
    return forward(replayer, arrays, STAY, Change(), end)[0]


def replay(
    replayer: Replayer,
    early: A2CState,
    before: A2CState,
    variant: ReplayVariant,
    *,
    usual: Change,
    weight: float,
    key: int,
) -> tuple[ReplayOutcome, list[Measured]]:
    """One replay, which ends when the task is lost, or after `HORIZON` updates.

    Args:
        replayer: of the run's settings.
        early: the run long before the episode that the fall begins with.
        before: just before its update.
        variant: what is changed.
        usual: how the recorded run differs from the settings, such as its learning rates.
        weight: of the entropy.
        key: which other random numbers; 0: the run's own.
    """
    arrays = early if variant.starts < -1 else before
    if variant.next_target is not None:
        arrays = eqx.tree_at(lambda a: a.next_target, arrays, jnp.full_like(arrays.next_target, variant.next_target))
    phases = [(1, variant.first), (WINDOW, variant.window), (HORIZON - 1 - WINDOW, variant.later)]
    if variant.starts < -1:
        phases.append((-1 - variant.starts, variant.later))
    others_from = max(0, variant.starts + 1)
    update_count, rows = 0, []
    for updates, changed in divided(phases, others_from):
        if update_count == others_from:
            arrays = with_key(arrays, key)
        change = changed_from(usual, changed)
        for start in range(0, updates, CHUNK):
            arrays, measured = forward(replayer, arrays, min(CHUNK, updates - start), change, weight)
            rows += measured
            if outcome(rows).fell:
                return outcome(rows), rows
        update_count += updates
    return outcome(rows), rows


def divided(phases: Sequence[tuple[int, Mapping[str, Any]]], at: int) -> list[tuple[int, Mapping[str, Any]]]:
    """The phases, the one that lasts beyond this number of updates divided there."""
    parts, update_count = [], 0
    for updates, changed in phases:
        inside = at - update_count
        parts += [(inside, changed), (updates - inside, changed)] if 0 < inside < updates else [(updates, changed)]
        update_count += updates
    return parts


def changed_from(usual: Change, changed: Mapping[str, Any]) -> Change:
    """The changes of a phase on top of the usual ones; speeds are factors on the usual speeds."""
    speeds = {name: changed[name] * getattr(usual, name) for name in ("actor_speed", "critic_speed") if name in changed}
    return usual._replace(**{**changed, **speeds})


def outcome(rows: Sequence[Measured]) -> ReplayOutcome:
    """What the measurements of a replay say; the task was solved before."""
    returns = np.concatenate([np.ones(UPDATES_OF_MEAN), *(row["mean_return"] for row in rows)])
    means = np.convolve(returns, np.full(UPDATES_OF_MEAN, 1 / UPDATES_OF_MEAN), mode="valid")
    below = np.flatnonzero(means < LOST)
    failures = sum(int((row["lowest_return"] < 1).sum()) for row in rows)
    return ReplayOutcome(len(below) > 0, int(below[0]) if len(below) else None, float(means.min()), failures)
