"""The pages of the documentation name what exists, as far as that can be told without building them."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[1] / "docs"
NAMED = [
    (page.relative_to(PAGES).as_posix(), line.removeprefix("::: "))
    for page in sorted(PAGES.rglob("*.md"))
    for line in page.read_text().splitlines()
    if line.startswith("::: ")
]


@pytest.mark.parametrize(("page", "name"), NAMED)
def test_what_the_reference_describes_is_there(page: str, name: str):
    assert pkgutil.resolve_name(name) is not None, page
