"""One episode of a trained agent as data of a page: pictures, policy, critic, belief and exact values at each step."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from asymrl.nn.distributions import Categorical, Distribution, Greedy
from asymrl.report.html.episode_pictures import EpisodePictures
from asymrl.report.html.page_numbers import numbers, rounded
from asymrl.runs.playback import Playback, critic_name
from asymrl.runs.trained import TrainedRun
from asymrl.runs.wording import unbroken
from asymrl.theory.audit.episode_values import ExactPolicy, episode_beliefs, episode_states, episode_values
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.world import World

MOST_STEPS = 200  # of an episode; the rest is not on the page
LIKELIEST = 6  # states of a belief
BELIEF_PICTURES = 400_000  # characters of pictures up to which the states of beliefs have pictures, too
NEGLIGIBLE = 5e-5  # probability below which a state is not listed


def agent_data(trained: TrainedRun, label: str, missing: str) -> dict[str, Any]:
    """What is the same in all episodes of an agent.

    Args:
        trained: the agent.
        label: its name on the page.
        missing: which values of its policy are not exact, and why; empty if all are.
    """
    world, finite = trained.world, isinstance(trained.world, FiniteWorld)
    return {
        "label": label,
        "world": trained.settings.world,
        "critic": critic_name(trained.settings),
        "actions": list(world.action_names),
        "kind": policy_kind(trained.state.actor.distribution),
        "recent_return": rounded(trained.recent_return),
        "finite": finite,
        "missing": unbroken(missing),
    }


def policy_kind(distribution: Distribution) -> str:
    """How a policy is shown: `probabilities`, action `values`, or `entries`: choices and numbers, one by one."""
    match distribution:
        case Categorical():
            return "probabilities"
        case Greedy():
            return "values"
    return "entries"


def episode_data(
    world: World, playback: Playback, pictures: EpisodePictures, exact: ExactPolicy | None
) -> dict[str, Any]:
    """An episode of T steps, cut after `MOST_STEPS`.

    Lists with T + 1 entries: `states` and `views`, numbers of pictures (None for the view after the end of a finite
    world), and in finite worlds `state_names`. Lists with T entries: `actions` in words, `chosen` (an index or a list),
    `rewards`, `policy`, `values` of the critic, `followed` (discounted returns), and in finite worlds `beliefs` (name,
    probability and picture of the likeliest states, None instead of a picture where there are too many), `possible`
    (how many states there are), the true `V_h`, `V_s`, `V_hs`, None where they are not known, and `V_h_error` and
    `V_hs_error`, which are not zero where values are simulated or bounded. `simulated`: whether any are simulated.
    """
    whole = len(playback.actions)
    T = min(whole, MOST_STEPS)
    scenes = [playback.at(t) for t in range(T + 1)]
    ended, finite = whole == T and not playback.truncated, isinstance(world, FiniteWorld)
    views = [pictures.view(world, observation) for _, observation in scenes[: T if ended and finite else T + 1]]
    data: dict[str, Any] = {
        "steps": T,
        "length": whole,
        "truncated": playback.truncated,
        "return": rounded(playback.rewards.sum()),
        "states": [
            pictures.state(world, state) if playback.frames is None else pictures.pixels(playback.frames[t])
            for t, (state, _) in enumerate(scenes)
        ],
        # The last observation of a finite world belongs to the next episode.
        "views": views if len(views) == T + 1 else [*views, None],
        "actions": [world.action_text(playback.taken(t)) for t in range(T)],
        "chosen": np.asarray(playback.actions[:T]).tolist(),
        "rewards": numbers(playback.rewards[:T]),
        "policy": [_policy(playback, t) for t in range(T)],
        "values": numbers(playback.values[:T]),
        "followed": numbers(playback.returns_to_go()[:T]),
    }
    return data | (_finite_data(world, playback, pictures, exact, T) if isinstance(world, FiniteWorld) else {})


def _finite_data(
    world: FiniteWorld, playback: Playback, pictures: EpisodePictures, exact: ExactPolicy | None, T: int
) -> dict[str, Any]:
    beliefs, names = episode_beliefs(world, playback)[:T], world.state_names
    data: dict[str, Any] = {
        "state_names": [names[s] for s in episode_states(world, playback)[: T + 1]],
        "beliefs": [_likeliest(belief, world, pictures) for belief in beliefs],
        "possible": [int((belief > NEGLIGIBLE).sum()) for belief in beliefs],
    }
    if exact is not None:
        values = episode_values(world, playback, exact)
        data |= {name: numbers(getattr(values, name)[:T]) for name in ("V_h", "V_s", "V_hs")}
        data |= {name: numbers(getattr(values, name)[:T]) for name in ("V_h_error", "V_hs_error")}
        data["simulated"] = bool(values.simulated[:T].any())
    return data


def _likeliest(
    belief: Float64[np.ndarray, "S"], world: FiniteWorld, pictures: EpisodePictures
) -> list[tuple[str, float | None, int | None]]:
    def picture(s: int) -> int | None:
        return pictures.state(world, world.from_latent(jnp.int32(s))) if pictures.size < BELIEF_PICTURES else None

    order = np.argsort(-belief, kind="stable")[:LIKELIEST].tolist()
    return [(world.state_names[s], rounded(belief[s]), picture(s)) for s in order if belief[s] > NEGLIGIBLE]


def _policy(playback: Playback, t: int) -> list[Any]:
    if policy_kind(playback.distribution) != "entries":
        return numbers(playback.policy[t])
    choices, pairs = playback.entries(t)
    return [*({"shares": numbers(part)} for part in choices), *({"mean": numbers(pair)} for pair in pairs)]
