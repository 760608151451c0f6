"""Figures made small for pages."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from scripts.page_image import page_image

LINES = [(0, 114, 178), (230, 159, 0), (213, 94, 0), (0, 158, 115), (204, 121, 167)]


def figure() -> Image.Image:
    """Five thin lines on white, above a band with more shades than any palette has."""
    pixels = np.full((400, 800, 3), 255, np.uint8)
    for i, colour in enumerate(LINES):
        pixels[20 + 40 * i : 24 + 40 * i] = colour
    pixels[300:] = np.random.default_rng(0).integers(200, 256, (100, 800, 1))
    pixels[300:, :, 0] -= 40
    return Image.fromarray(pixels)


def test_thin_lines_keep_their_colours():
    picture = np.asarray(Image.open(io.BytesIO(page_image(figure(), 400))).convert("RGB")).astype(int)
    assert picture.shape == (200, 400, 3)
    for i, colour in enumerate(LINES):
        shown = picture[11 + 20 * i, 200]
        assert np.abs(shown - colour).max() < 16, (colour, shown)


def test_a_picture_that_does_not_fit_is_refused():
    few = page_image(figure(), 800, largest=100_000)
    assert len(few) <= 100_000
    with pytest.raises(ValueError, match="choose a width below 800"):
        page_image(figure(), 800, largest=5_000)
