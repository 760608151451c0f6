"""How the environments show themselves: the true state beside what the agent sees."""

from __future__ import annotations

from typing import Any

import gymnasium

from asymrl.worlds.world import World

RENDER_MODES = ("ansi", "rgb_array")


def check_render_mode(render_mode: str | None) -> str | None:
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise ValueError(f"render_mode {render_mode!r} is unknown; choose {', '.join(RENDER_MODES)} or None")
    return render_mode


def warn_of_no_render_mode() -> None:
    gymnasium.logger.warn("render() needs a render mode; make the environment with render_mode='ansi' or 'rgb_array'")


def draw(render_mode: str, world: World, state: Any, observation: Any, action: Any, terminated: bool = False) -> Any:
    """One moment of an episode: a string in the mode `ansi`, an image `[H, W, 3]` of bytes in `rgb_array`."""
    # Drawing needs matplotlib, which those who only step should not wait for.
    from asymrl.render import draw_frame, draw_text

    show = draw_text if render_mode == "ansi" else draw_frame
    return show(world, state, observation, action, terminated=terminated)
