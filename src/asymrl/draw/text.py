"""A moment of an episode as text, for terminals and logs."""

from __future__ import annotations

from typing import Any, SupportsInt

from asymrl.draw.dispatch import view_text, world_text
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.world import World


def draw_text(
    env: World, state: Any, observation: Any, action: SupportsInt | None = None, *, terminated: bool = False
) -> str:
    """One moment of an episode as text: the true state on the left, what the agent sees on the right.

    The arguments are those of `draw_frame`.
    """
    left = ["state", *world_text(env, state)]
    # The last observation of a finite world belongs to the next episode.
    over = terminated and isinstance(env, FiniteWorld)
    right = ["the agent sees", *(["the episode has ended"] if over else view_text(env, observation))]
    width = max(map(len, left)) + 4
    height = max(len(left), len(right))
    left, right = (lines + [""] * (height - len(lines)) for lines in (left, right))
    heading = f"{env.name}, at the start" if action is None else f"{env.name}, after {env.action_text(action)}"
    return "\n".join([heading, *((a.ljust(width) + b).rstrip() for a, b in zip(left, right, strict=True))])
