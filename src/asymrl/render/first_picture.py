"""A small picture of how an episode of a world may begin."""

from __future__ import annotations

import io

import jax

from asymrl.render.frame import draw_frame
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World

DPI = 60


def first_picture(world: World) -> bytes | None:
    """The start of the episode with seed 0, the true state beside the agent's view, as a PNG file.

    None for a world that is stepped in Python, whose environments draw themselves if anybody does.
    """
    from PIL import Image

    if isinstance(world, SteppedWorld):
        return None
    episode, observation = world.begin(jax.random.key(0))
    frame = draw_frame(world, jax.device_get(episode.state), jax.device_get(observation), dpi=DPI)
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, format="png")
    return buffer.getvalue()
