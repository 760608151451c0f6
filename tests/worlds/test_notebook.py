"""Worlds in notebooks: what they are in a table, and how an episode begins."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
from PIL import Image

import asymrl


def pictures(html: str) -> list[np.ndarray]:
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))) for data in found]


def test_a_world_shows_what_it_is_and_how_it_begins():
    html = asymrl.make("heaven-hell-3")._repr_html_()
    for fact in ("heaven-hell-3", "N, S, E, W", "0.99", "100", "heaven-side"):
        assert fact in html
    (picture,) = pictures(html)
    assert picture.shape == (270, 480, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 10, "not a blank one"
    assert "<script" not in html


def test_an_environment_in_python_has_no_picture():
    html = asymrl.make("CartPole-v1")._repr_html_()
    assert "CartPole-v1" in html
    assert not pictures(html)


def test_names_are_text():
    changed = asymrl.make("tiger").with_time_limit(7)  # a copy
    object.__setattr__(changed, "name", "<b>tiger</b>")
    html = changed._repr_html_()
    assert "&lt;b&gt;tiger&lt;/b&gt;" in html
    assert "<b>" not in html
