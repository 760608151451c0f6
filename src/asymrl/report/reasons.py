"""Why one critic does better than another in a finite world: a quick exact analysis."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from asymrl.report.reading_table import cosine, number, percent
from asymrl.theory.exact.reading_worth import ReadingWorth, compare_readings
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.world import World

if TYPE_CHECKING:
    from asymrl.report.verdict import Verdict

POLICY = "eps-optimal:0.5"
# The most states for which seconds are enough for whole episodes, and for their first steps.
STATES, MOST_STATES = 100, 1000
NODES, SECONDS = 30_000, 8.0


class Reasons(NamedTuple):
    """What an exact analysis says about the critics in a world."""

    text: str
    """In a paragraph; or why there is no quick analysis."""
    readings: tuple[ReadingWorth, ...] = ()
    """Critics by what they read; none without an analysis."""


def reasons(env: World, sees: str = "state") -> Reasons:
    """What an exact analysis says about critics in this world, or why there is no quick one.

    Args:
        env: the world.
        sees: what its privileged critics see, such as "state", "belief" or "state+time".
    """
    from asymrl.report.verdict import examine
    from asymrl.theory.solvers.policy_names import BEGINNING, analyse_what_fits

    if not isinstance(env, FiniteWorld):
        return Reasons("The theory does not apply here: it needs a world with finitely many states and observations.")
    slowly = f"`asymrl theory {env.name}` takes longer"
    pomdp = env.pomdp()
    if pomdp.states > MOST_STATES:
        return Reasons(f"{pomdp.states} states are too many for a quick exact analysis; {slowly}.")
    limit = pomdp.time_limit or BEGINNING
    horizon = limit if pomdp.states <= STATES else min(limit, BEGINNING)
    try:
        analysis, _ = analyse_what_fits(pomdp, POLICY, horizon, limit=NODES, beliefs=NODES, seconds=SECONDS)
        verdict = examine(analysis, POLICY, {})
        asked = [] if sees == "state" else [(sees, True), (sees, False)]
        signal_readings = compare_readings(replace(analysis, world=env), asked)
    except ValueError as error:
        return Reasons(f"A quick exact analysis is not possible ({error}); {slowly}.")
    part = "" if analysis.horizon == limit else f" in the first {analysis.horizon:g} steps"
    sentences = [
        f"Why, exactly, for a half-random optimal policy{part}: {verdict.advice}",
        *_on_sight(verdict, signal_readings),
    ]
    return Reasons(
        " ".join(sentences), (*verdict.readings, *(each for each in signal_readings if each not in verdict.readings))
    )


def _on_sight(verdict: Verdict, signal_readings: tuple[ReadingWorth, ...]) -> list[str]:
    """Sentences about the critics that see something other than the state."""
    sentences = []
    for each in signal_readings:
        effect = "gives the true gradient"
        if not each.safe:
            effect = f"gives a gradient with an error of {percent(each.gradient_error)}"
            effect += "" if math.isnan(each.gradient_cosine) else f" and cosine {cosine(each.gradient_cosine)}"
        if verdict.variance is not None and each.gradient_variance is not None:
            effect += f", with variance {number(each.gradient_variance)} ({number(verdict.variance.h)} for V(h))"
        sentences.append(f"{each.critic} {effect}.")
    return sentences
