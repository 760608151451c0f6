"""The page about the algorithm names functions that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "methods" / "algorithm.md"


def named_functions() -> list[tuple[str, str]]:
    """Every `path.py`: `one`, `two` of the page as pairs of a path and a name."""
    found = []
    for path, names in re.findall(r"`([\w/]+\.py)`: ((?:`\w+`(?:, )?)+)", PAGE.read_text()):
        found += [(path, name) for name in re.findall(r"`(\w+)`", names)]
    return found


@pytest.mark.skipif(not PAGE.exists(), reason="an installed package has no pages")
def test_functions_of_the_page_exist():
    named = named_functions()
    assert len(named) > 10
    for path, name in named:
        source = (ROOT / "src" / "asymrl" / path).read_text()
        assert re.search(rf"^(def|class) {name}\b", source, re.MULTILINE), f"{path} has no {name}"
