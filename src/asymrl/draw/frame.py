"""Frames and films: the true state on the left, what the agent sees on the right, and a caption below."""

from __future__ import annotations

import io
import itertools
import subprocess
import threading
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Any, SupportsFloat, SupportsInt

import jax
import numpy as np
from jaxtyping import UInt8

from asymrl.draw import style
from asymrl.draw.dispatch import draw_view, draw_world
from asymrl.draw.style import Axes
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World

Frame = UInt8[np.ndarray, "H W 3"]

# Inches. With the default resolution a frame has 800 x 450 pixels, and 300 more in width with an extra panel.
HEIGHT, CARD, EXTRA_CARD, GAP = 4.5, 3.8, 2.9, 0.1
MARGIN, HEADER, FOOTER, CARD_TITLE, PADDING = 0.15, 0.5, 0.5, 0.32, 0.1

FIRST_PICTURE_DPI = 60
HOLD_LAST = 5  # how many times longer a film shows its last frame

_reused = threading.local()


def draw_frame(
    env: World,
    state: Any,
    observation: Any,
    action: SupportsInt | None = None,
    *,
    title: str | None = None,
    step: SupportsInt | None = None,
    reward: SupportsFloat | None = None,
    total: SupportsFloat | None = None,
    terminated: bool = False,
    truncated: bool = False,
    panel: Callable[[Axes], None] | None = None,
    picture: Frame | Callable[[Axes], None] | None = None,
    dpi: int = 100,
) -> Frame:
    """Draws one moment of an episode.

    Args:
        env: the world.
        state: its state at this moment.
        observation: what the agent sees at this moment.
        action: the action that led here; None at the start.
        title: above the picture, instead of the world's name.
        step: how many actions were taken; the caption shows it, `reward` and `total` if given.
        reward: of the last action.
        total: the return so far.
        terminated: whether the last action ended the episode.
        truncated: whether the time limit did.
        panel: draws into the matplotlib axes of a third panel on the right.
        picture: pixels to show instead of the drawing of the state, or a function that draws into matplotlib axes.
        dpi: pixels per inch; the default gives 800 x 450 pixels.

    Returns:
        Pixels, `[height, width, (red, green, blue)]`, both sizes even, and the same for all moments of a world.
    """
    figure = _build_figure(dpi, panels=3) if panel else _blank_figure(dpi)
    world_ax, view_ax = figure.axes[:2]
    _print(figure, MARGIN, HEIGHT - HEADER / 2, title or env.name, size=style.LARGE, bold=True)
    if picture is None:
        draw_world(env, state, world_ax)
    elif callable(picture):
        picture(world_ax)
    else:
        style.show_pixels(world_ax, picture)
    if terminated and isinstance(env, FiniteWorld):
        _draw_end(view_ax)  # the last observation of such a world belongs to the next episode
    else:
        draw_view(env, observation, view_ax)
    if panel:
        panel(figure.axes[2])
    facts = {
        "step": None if step is None else str(int(step)),
        "action": "–" if action is None else env.action_text(action),
        "reward": None if reward is None else style.signed(float(reward)),
        "return": None if total is None else style.signed(float(total)),
    }
    _caption(figure, facts, "the end" if terminated else "time limit" if truncated else "")
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    height, width = (size - size % 2 for size in pixels.shape[:2])
    return pixels[:height, :width].copy()


def save_gif(frames: Iterable[Frame], path: str | PathLike[str], seconds_per_frame: float = 0.4) -> None:
    """Writes frames of equal size as an endless film that pauses on its last frame.

    Equal frames in a row are stored once, with a longer duration.
    """
    from PIL import Image

    images = [Image.fromarray(frame) for frame in frames]
    if not images:
        raise ValueError("save_gif: there are no frames to write")
    milliseconds = round(1000 * seconds_per_frame)
    durations = [milliseconds] * (len(images) - 1) + [milliseconds * HOLD_LAST]
    images[0].save(path, format="GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)


def save_mp4(frames: Iterable[Frame], path: str | PathLike[str], seconds_per_frame: float = 0.4) -> None:
    """Writes frames of equal size as an MP4 film (H.264) that pauses on its last frame.

    Raises:
        ImportError: with the command that installs the missing package.
    """
    try:
        import imageio_ffmpeg  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError('an .mp4 film needs the package imageio-ffmpeg: pip install "asymrl[video]"') from error

    iterator = iter(frames)
    first = next(iterator, None)
    if first is None:
        raise ValueError("save_mp4: there are no frames to write")
    height, width = first.shape[:2]
    target = Path(path)
    partial = target.with_name(f".{target.stem}.partial.mp4")
    taken = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{1 / seconds_per_frame:g}"]
    coded = ["-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18", "-movflags", "+faststart", str(partial)]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *taken, "-i", "-", *coded]
    # The package's own writer forks, which may hang where JAX has threads.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            frame = first
            for frame in itertools.chain([first], iterator):
                process.stdin.write(np.ascontiguousarray(frame).tobytes())
            process.stdin.write(frame.tobytes() * (HOLD_LAST - 1))
            process.stdin.close()
            said = process.stderr.read().decode(errors="replace").strip()
            if process.wait():
                raise OSError(f"ffmpeg failed: {said.splitlines()[-1] if said else process.returncode}")
            partial.replace(target)
        except BaseException:
            process.kill()
            raise
        finally:
            partial.unlink(missing_ok=True)


def first_picture(world: World) -> bytes | None:
    """The start of the episode with seed 0, the true state beside the agent's view, as a PNG file.

    None for a world that is stepped in Python, since only its environments could draw it.
    """
    from PIL import Image

    if isinstance(world, SteppedWorld):
        return None
    episode, observation = world.begin(jax.random.key(0))
    frame = draw_frame(world, jax.device_get(episode.state), jax.device_get(observation), dpi=FIRST_PICTURE_DPI)
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, format="png")
    return buffer.getvalue()


def _blank_figure(dpi: int) -> Any:
    """A figure with two empty panels: if possible the last one of this thread, cleared.

    Making axes takes as long as filling them.
    """
    figure = getattr(_reused, "figure", None)
    if figure is None or figure.dpi != dpi:
        figure = _reused.figure = _build_figure(dpi, panels=2)
        _reused.fixtures = set(figure.get_children()).union(*(ax.get_children() for ax in figure.axes))
    for artist in [*figure.texts, *(child for ax in figure.axes for child in ax.get_children())]:
        if artist not in _reused.fixtures:
            artist.remove()
    return figure


def _build_figure(dpi: int, panels: int) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    cards = [(CARD, "true state"), (CARD, "what the agent sees"), (EXTRA_CARD, "")][:panels]
    width = 2 * MARGIN + sum(card for card, _ in cards) + GAP * (panels - 1)
    figure = Figure(figsize=(width, HEIGHT), dpi=dpi, facecolor=style.PAPER)
    FigureCanvasAgg(figure)
    bottom, height, left = FOOTER, HEIGHT - HEADER - FOOTER, MARGIN
    for card, name in cards:
        shape = FancyBboxPatch(
            (left, bottom), card, height, boxstyle="round,pad=0,rounding_size=0.08", transform=figure.dpi_scale_trans,
            facecolor=style.CARD, edgecolor="none", zorder=-1,
        )  # fmt: skip
        figure.add_artist(shape)
        # An extra panel may have ticks and labels, which need more room than a drawing.
        sides, ground = (PADDING, PADDING) if name else (0.55, 0.45)
        inside = (left + sides, bottom + ground, card - PADDING - sides, height - ground - CARD_TITLE)
        figure.add_axes(
            (inside[0] / width, inside[1] / HEIGHT, inside[2] / width, inside[3] / HEIGHT), facecolor="none"
        )
        _print(figure, left + PADDING, bottom + height - CARD_TITLE / 2 - 0.02, name, colour=style.MUTED)
        left += card + GAP
    return figure


def _caption(figure: Any, facts: dict[str, str | None], ending: str) -> None:
    """Each fact has a fixed position, so that nothing moves from frame to frame."""
    for (name, value), left in zip(facts.items(), (MARGIN, 1.2, 4.05, 5.45), strict=True):
        if value is not None:
            _print(figure, left, FOOTER / 2, name, colour=style.MUTED)
            _print(figure, left + 0.12 + 0.075 * len(name), FOOTER / 2, value, bold=True)
    right = figure.get_figwidth() - MARGIN
    _print(figure, right, FOOTER / 2, ending, bold=True, colour=style.VERMILION, align="right")


def _print(
    figure: Any,
    x: float,
    y: float,
    text: str,
    *,
    size: float = style.BODY,
    colour: str = style.INK,
    bold: bool = False,
    align: str = "left",
) -> None:
    """Text on the figure, placed in inches from its lower left corner."""
    weight = "bold" if bold else "normal"
    figure.text(
        x / figure.get_figwidth(), y / HEIGHT, text, fontsize=size, color=colour, fontweight=weight,
        fontfamily=style.FONT, ha=align, va="center_baseline", parse_math=False,
    )  # fmt: skip


def _draw_end(ax: Axes) -> None:
    style.stage(ax, -1, 1, -1, 1)
    style.write(ax, (0, 0), "the episode has ended", colour=style.MUTED)
