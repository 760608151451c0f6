"""Pictures of states and observations for a page: each different one is drawn and stored once."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from asymrl.draw import draw_view, draw_world, style
from asymrl.worlds.world import World

WIDTH, HEIGHT, DPI = 3.6, 3.08, 110  # inches: the panel of a frame, so that letters have their usual size
COLOURS = 64


class EpisodePictures:
    """Pictures as data URLs, by number."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self._number_of_url: dict[str, int] = {}
        self._number_of_subject: dict[tuple[str, str, bytes], int] = {}
        self._stage: tuple[Any, Any, set[Any]] | None = None

    @property
    def size(self) -> int:
        """Characters of all pictures together."""
        return sum(map(len, self.urls))

    def state(self, world: World, state: Any) -> int:
        """The number of the picture of a true state."""
        return self._number(world, "state", state, draw_world)

    def view(self, world: World, observation: Any) -> int:
        """The number of the picture of what the agent sees."""
        return self._number(world, "view", observation, draw_view)

    def pixels(self, frame: Any) -> int:
        """The number of a picture that an environment has drawn, made small."""
        from PIL import Image

        picture = Image.fromarray(np.asarray(frame, np.uint8))
        picture.thumbnail((round(WIDTH * DPI), round(HEIGHT * DPI)))
        return self._number_of(_encoded(np.asarray(picture)))

    def _number_of(self, url: str) -> int:
        if url not in self._number_of_url:
            self._number_of_url[url] = len(self.urls)
            self.urls.append(url)
        return self._number_of_url[url]

    def _number(self, world: World, kind: str, subject: Any, draw: Callable[..., None]) -> int:
        content = b"|".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(subject))
        key = (world.name, kind, content)
        if key not in self._number_of_subject:
            self._number_of_subject[key] = self._number_of(self._drawn(lambda ax: draw(world, subject, ax)))
        return self._number_of_subject[key]

    def _drawn(self, draw: Callable[[Any], None]) -> str:
        figure, ax, fixtures = self._stage = self._stage or _new_stage()
        draw(ax)
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
        for artist in ax.get_children():
            if artist not in fixtures:
                artist.remove()
        return _encoded(pixels)


def _encoded(pixels: np.ndarray) -> str:
    """Pixels as a data URL. Few colours are enough for flat shapes and make a picture half as large."""
    from PIL import Image, features

    picture = Image.fromarray(pixels).quantize(COLOURS, dither=Image.Dither.NONE)
    buffer, kind = io.BytesIO(), "webp" if features.check("webp") else "png"
    if kind == "webp":
        picture.convert("RGB").save(buffer, "WEBP", lossless=True, quality=60)
    else:
        picture.save(buffer, "PNG", optimize=True)
    return f"data:image/{kind};base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _new_stage() -> tuple[Any, Any, set[Any]]:
    """A figure, its axes and the artists of empty axes. Making them takes as long as drawing."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor=style.CARD)
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1), facecolor="none")
    return figure, ax, set(ax.get_children())
