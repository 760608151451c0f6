"""Shrinks a figure for a page of the documentation: narrower, with so few colours that it takes at most 100 kB.

    python scripts/page_image.py figures/curves.png docs/images/curves.png results/curves/curves.png [--width 1440]

Colours are chosen by where they are seen, not by how often: a thin line keeps its own beside the white around it.
"""

from __future__ import annotations

import io
import math
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from PIL import Image

LARGEST = 100_000  # bytes of a picture in the documentation
COLOURS = (128, 96, 64, 48)  # at most; fewer where the picture is too large with them
MOST_REPEATS = 60  # of a colour, among those that the palette is chosen from


def page_image(figure: Image.Image, width: int, largest: int = LARGEST) -> bytes:
    """The figure as a PNG of this width and at most `largest` bytes. Raises ValueError if it does not fit."""
    width = min(width, figure.width)
    size = (width, round(figure.height * width / figure.width))
    opaque = Image.new("RGBA", figure.size, "white")
    opaque.alpha_composite(figure.convert("RGBA"))
    small = opaque.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    pictures = (with_colours(small, colours) for colours in COLOURS)
    fitting = next((picture for picture in pictures if len(picture) <= largest), None)
    if fitting is None:
        raise ValueError(f"more than {largest} bytes, also with {COLOURS[-1]} colours; choose a width below {width}")
    return fitting


def with_colours(image: Image.Image, colours: int) -> bytes:
    """The image as a PNG with so many colours."""
    file = io.BytesIO()
    image.quantize(palette=palette(image, colours), dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


def palette(image: Image.Image, colours: int) -> Image.Image:
    """An image with a palette of so many colours; each colour counts by the root of the pixels that have it."""
    values, counts = np.unique(np.asarray(image).reshape(-1, 3), axis=0, return_counts=True)
    repeated = np.repeat(values, np.minimum(np.ceil(np.sqrt(counts) / 2).astype(int), MOST_REPEATS), axis=0)
    side = math.isqrt(len(repeated) - 1) + 1
    square = np.concatenate([repeated, np.repeat(repeated[-1:], side**2 - len(repeated), axis=0)])
    return Image.fromarray(square.reshape(side, side, 3)).quantize(colours, Image.Quantize.MEDIANCUT, kmeans=4)


def main(
    figure: Annotated[Path, tyro.conf.Positional],
    target: Annotated[Path, tyro.conf.Positional],
    others: Annotated[tuple[Path, ...], tyro.conf.Positional] = (),
    width: int = 1440,
) -> None:
    """Shrink a figure for a page of the documentation.

    Args:
        figure: As it was drawn.
        target: File to write.
        others: More files to write.
        width: In pixels, at most.
    """
    try:
        picture = page_image(Image.open(figure), width)
        for file in (target, *others):
            file.write_bytes(picture)
            print(f"{file}: {len(picture)} bytes")
    except (OSError, ValueError) as error:
        sys.exit(f"{figure}: {error}")


if __name__ == "__main__":
    tyro.cli(main)
