"""Which trained agents of a store are played on its page, and from which starts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from asymrl.runs.environment_frames import played_frames
from asymrl.runs.playback import Playback, play_back
from asymrl.runs.runs import differing_by_choice
from asymrl.runs.store import Store
from asymrl.runs.trained import TrainedRun, load_trained
from asymrl.worlds.stepped_world import SteppedWorld

CANDIDATES = 16  # starts that are tried, of which the best and the worst are shown
BEST, WORST = "best seed", "worst seed"


class PlayerAgent(NamedTuple):
    """A trained run and why it was chosen."""

    number: int
    """In its store."""
    run: TrainedRun
    label: str
    """Its method, its seed and what else tells it apart."""


def choose_agents(store: Store, most: int, search: Collection[int] = ()) -> list[PlayerAgent]:
    """At most `most` runs of a store, none of its search: the best and the worst seed of each world and method.

    If a method has several settings, those with the best mean return are taken. The best runs come first, and worlds
    take turns.

    Raises:
        RunError: if no networks were kept, or there is no checkpoint yet.
    """
    returns = {number: score for number, score in _recent_returns(store).items() if number not in search}
    by_method: dict[str, dict[str, list[int]]] = {}
    for number in returns:
        settings = store.runs[number].settings
        by_method.setdefault(settings.world, {}).setdefault(settings.method, []).append(number)
    rankings: list[list[tuple[int, str]]] = []
    for methods in by_method.values():
        ranked = [_ranked(store, numbers, returns) for numbers in methods.values()]
        ranked.sort(key=lambda numbers: -returns[numbers[0]])
        several = [numbers for numbers in ranked if len(numbers) > 1]
        best = [(numbers[0], BEST if len(numbers) > 1 else "") for numbers in ranked]
        rankings.append([*best, *((numbers[-1], WORST) for numbers in several)])
    turns = [each[i] for i in range(max(map(len, rankings), default=0)) for each in rankings if i < len(each)]
    selection = dict(turns[:most])
    agents = []
    for group in load_trained(store, sorted(selection)):
        for row, number in enumerate(group.numbers):
            run = group.one(row)
            alike = by_method[run.settings.world][run.settings.method]
            own = [
                f"{name}={getattr(run.settings, name)}" for name in differing_by_choice(store.runs[n] for n in alike)
            ]
            why = f"seed {run.seed}" + (f" ({selection[number]})" if selection[number] else "")
            agents.append(PlayerAgent(number, run, ", ".join([run.settings.method, *own, why])))
    order = list(selection)
    return sorted(agents, key=lambda agent: order.index(agent.number))


def _recent_returns(store: Store) -> dict[int, float]:
    """The recent return of each run with networks."""
    results = store.results()
    returns = {n: result.recent_return for n, result in results.items() if np.isfinite(result.recent_return)}
    if returns:
        return returns
    return {
        number: score
        for group in load_trained(store)
        for number, score in zip(group.numbers, group.recent_returns().tolist(), strict=True)
    }


def _ranked(store: Store, numbers: Sequence[int], returns: dict[int, float]) -> list[int]:
    """The runs with the settings that are best on average, best first."""
    by_settings: dict[object, list[int]] = {}
    for number in numbers:
        by_settings.setdefault(store.runs[number].settings, []).append(number)
    best = max(by_settings.values(), key=lambda group: float(np.mean([returns[number] for number in group])))
    return sorted(best, key=lambda number: (-returns[number], number))


class PlayedStart(NamedTuple):
    """The episodes of some agents from one start: the same seed gives the same first state and random numbers."""

    seed: int
    playbacks: list[Playback]


def play_starts(
    agents: Sequence[PlayerAgent], count: int, *, seeds: Sequence[int] | None = None, greedy: bool = False
) -> list[PlayedStart]:
    """Episodes of agents in one world from some starts.

    Args:
        agents: of the same world.
        count: the number of starts.
        seeds: of the starts. None: of `CANDIDATES` starts, the one with the lowest and the one with the highest mean
            return, then the first others.
        greedy: take the most likely action instead of a sampled one.
    """
    if seeds is None:
        python = isinstance(agents[0].run.world, SteppedWorld)  # slow: no more episodes than are shown
        candidates: Sequence[int] = range(count if python else max(count, CANDIDATES))
    else:
        candidates = seeds
    played = [PlayedStart(seed, [_played(agent.run, seed, greedy) for agent in agents]) for seed in candidates]
    if seeds is not None:
        return played
    means = [float(np.mean([playback.rewards.sum() for playback in start.playbacks])) for start in played]
    order = sorted(range(len(played)), key=lambda i: means[i])
    selection = list(dict.fromkeys([order[-1], order[0], *range(len(played))]))[:count]
    return [played[i] for i in sorted(selection)]


def _played(run: TrainedRun, seed: int, greedy: bool) -> Playback:
    playback = play_back(run.world, run.settings, run.state.actor, run.state.critic, seed=seed, greedy=greedy)
    if not isinstance(run.world, SteppedWorld):
        return playback
    try:
        return playback._replace(frames=played_frames(run.world, playback, seed))
    except ValueError:  # an environment that cannot draw itself is shown by its numbers
        return playback
