"""The episode player of a page: episodes of trained agents as data for `startPlayer` in player.js."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from asymrl.report.html.episode_data import agent_data, episode_data
from asymrl.report.html.episode_pictures import EpisodePictures
from asymrl.report.html.page import LIBRARY, Section
from asymrl.report.html.player_agents import PlayerAgent, choose_agents, play_starts
from asymrl.runs.store import Store
from asymrl.theory.audit.episode_values import ExactPolicy, exact_policy
from asymrl.worlds.finite import FiniteWorld

AGENTS, EPISODES, FEWEST_STARTS = 6, 8, 2
PICTURE_BUDGET = 1_200_000  # characters; further episodes are left out


def ignore(part: str) -> None:
    """The default of `tell`, which does nothing."""


def player_section(
    store: Store,
    *,
    search: Collection[int] = (),
    agents: int = AGENTS,
    episodes: int = EPISODES,
    seeds: Sequence[int] | None = None,
    greedy: bool = False,
    tell: Callable[[str], None] = ignore,
) -> Section:
    """A section in which the user steps through episodes of the trained agents of a store.

    Args:
        store: with networks.
        search: numbers of runs that are not shown.
        agents: how many at most; see `choose_agents`.
        episodes: about how many in all; each agent of a world has the same starts, and at least two.
        seeds: of the starts, instead of a choice of good, bad and other ones.
        greedy: take the most likely action instead of a sampled one.
        tell: called with what is computed next.

    Raises:
        RunError: if no networks were kept, or there is no checkpoint yet.
    """
    tell("loading networks")
    data = player_data(choose_agents(store, agents, search), episodes=episodes, seeds=seeds, greedy=greedy, tell=tell)
    actions = "The agents take their most likely actions." if greedy else "Actions are sampled, as in training."
    html = (
        f'<p class="hint">Step with the arrow keys, Home and End; space plays. {actions} Episodes with the same start '
        "have the same first state and the same chance, so that two agents can be compared on it.</p>\n"
        '<div class="player"></div>'
    )
    assets = (*LIBRARY, "player.css", "elements.js", "player.js")
    return Section("Episodes", "player", html, data, "startPlayer", assets)


def player_data(
    agents: Sequence[PlayerAgent],
    *,
    episodes: int = EPISODES,
    seeds: Sequence[int] | None = None,
    greedy: bool = False,
    budget: int = PICTURE_BUDGET,
    tell: Callable[[str], None] = ignore,
) -> dict[str, Any]:
    """Episodes of some agents for `startPlayer`.

    `pictures`: data URLs. `agents` and `episodes`: see `agent_data` and `episode_data`. An episode also has the number
    of its `agent` and the seed of its `start`. `left_out`: how many episodes were dropped for the `budget`, which is
    the number of characters of pictures after which no episode is added.
    """
    pictures, played, left_out = EpisodePictures(), [], 0
    exact: dict[int, ExactPolicy] = {}
    by_world: dict[str, list[int]] = {}
    for i, agent in enumerate(agents):
        by_world.setdefault(agent.run.settings.world, []).append(i)
    starts = max(FEWEST_STARTS, episodes // max(len(agents), 1))
    for numbers in by_world.values():
        world = agents[numbers[0]].run.world
        for i in numbers if isinstance(world, FiniteWorld) else ():
            tell(f"true values of {agents[i].label} in {world.name} (agent {i + 1} of {len(agents)})")
            exact[i] = exact_policy(agents[i].run, greedy=greedy)
        tell(f"episodes of {world.name}")
        for start in play_starts([agents[i] for i in numbers], starts, seeds=seeds, greedy=greedy):
            for i, playback in zip(numbers, start.playbacks, strict=True):
                if pictures.size > budget:
                    left_out += 1
                    continue
                tell(f"episode {len(played) + 1}, {agents[i].label} in {world.name}")
                episode = episode_data(world, playback, pictures, exact.get(i))
                played.append({"agent": i, "start": start.seed, **episode})
    return {
        "pictures": pictures.urls,
        "agents": [
            agent_data(agent.run, agent.label, exact[i].missing if i in exact else "") for i, agent in enumerate(agents)
        ],
        "episodes": played,
        "left_out": left_out,
    }
