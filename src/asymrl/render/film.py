"""Films made of frames."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike

import numpy as np
from jaxtyping import UInt8, UInt32

from asymrl.render.frame import Frame

HOLD_LAST = 5  # how many times longer a film shows its last frame


def save_gif(frames: Iterable[Frame], path: str | PathLike[str], seconds_per_frame: float = 0.4) -> None:
    """Writes frames of equal size as an endless film that pauses on its last frame.

    All frames share one palette, in which flat areas keep their exact colour, so that nothing flickers. A frame
    equal to the one before it is stored as a longer duration of that one.
    """
    from PIL import Image

    packed = [_pack(frame) for frame in frames]
    if not packed:
        raise ValueError("save_gif: there are no frames to write")
    palette = _frequent_colours(packed)
    index = _nearest_in(palette, packed)
    colours = _unpack(palette).astype(np.uint8).tobytes()
    images = [Image.fromarray(index[frame]) for frame in packed]
    for image in images:
        image.putpalette(colours)
    milliseconds = round(1000 * seconds_per_frame)
    durations = [milliseconds] * (len(images) - 1) + [milliseconds * HOLD_LAST]
    images[0].save(
        path, format="GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=False
    )


def _pack(frame: Frame) -> UInt32[np.ndarray, "H W"]:
    """One number for each colour."""
    red, green, blue = np.moveaxis(frame.astype(np.uint32), -1, 0)
    return red << 16 | green << 8 | blue


def _unpack(colours: UInt32[np.ndarray, "n"]) -> UInt32[np.ndarray, "n 3"]:
    return np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)


def _frequent_colours(packed: list[UInt32[np.ndarray, "H W"]]) -> UInt32[np.ndarray, "n"]:
    """The most frequent colours of some frames of the whole film, as many as a GIF may have."""
    some = np.unique(np.linspace(0, len(packed) - 1, 6).astype(int))
    colours, counts = np.unique(np.stack([packed[i] for i in some]), return_counts=True)
    return colours[np.argsort(-counts, kind="stable")[:256]]


def _nearest_in(palette: UInt32[np.ndarray, "n"], packed: list[UInt32[np.ndarray, "H W"]]) -> UInt8[np.ndarray, "all"]:
    """For each colour that occurs, the index of the nearest one in the palette, in a table over all colours."""
    occurs = np.zeros(1 << 24, bool)
    for frame in packed:
        occurs[frame] = True
    index = np.zeros(1 << 24, np.uint8)
    colours = np.flatnonzero(occurs).astype(np.uint32)
    for some in np.array_split(colours, 1 + colours.size // 4096):  # a photograph has very many
        between = _unpack(some)[:, None].astype(np.int32) - _unpack(palette).astype(np.int32)
        index[some] = np.square(between).sum(-1).argmin(-1)
    return index
