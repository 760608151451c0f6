"""Why one critic does better than another in a finite world: a quick exact analysis."""

from __future__ import annotations

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.world import World

POLICY = "eps-optimal:0.5"
# The most states for which seconds are enough for whole episodes, and for their first steps.
STATES, MOST_STATES = 100, 1000
NODES, SECONDS = 30_000, 4.0


def reasons(env: World) -> str:
    """What an exact analysis says about critics in this world, or why there is no quick one."""
    from asymrl.solvers.policy_names import BEGINNING, analyse_what_fits
    from asymrl.solvers.verdict import examine

    if not isinstance(env, FiniteWorld):
        return "The theory does not apply here: it needs a world with finitely many states and observations."
    slowly = f"`asymrl theory {env.name}` takes longer"
    pomdp = env.pomdp()
    if pomdp.states > MOST_STATES:
        return f"{pomdp.states} states are too many for a quick exact analysis; {slowly}."
    limit = pomdp.time_limit or BEGINNING
    horizon = limit if pomdp.states <= STATES else min(limit, BEGINNING)
    try:
        analysis, _ = analyse_what_fits(pomdp, POLICY, horizon, limit=NODES, beliefs=NODES, seconds=SECONDS)
        verdict = examine(analysis, POLICY, {})
    except ValueError as error:
        return f"A quick exact analysis is not possible ({error}); {slowly}."
    part = "" if analysis.horizon == limit else f" in the first {analysis.horizon:g} steps"
    return f"Why, exactly, for a half-random optimal policy{part}: {verdict.advice}"
