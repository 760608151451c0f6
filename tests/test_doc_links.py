"""A reader who starts on the first page finds every page, and no link leads nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doc_pages import DOCS, PAGES, READERS, ROOT, anchors, links, name_of


@pytest.mark.parametrize("path", READERS, ids=name_of)
def test_links_lead_to_files_and_headings_that_exist(path: Path):
    for target, anchor in links(path):
        assert target.exists(), f"{name_of(path)} links to {target}"
        if anchor:
            assert anchor in anchors(target), f"{name_of(path)} links to #{anchor} of {name_of(target)}"


def test_the_first_page_leads_to_every_page():
    """In as many clicks as it takes."""
    waiting, reached = [DOCS / "index.md"], {DOCS / "index.md"}
    while waiting:
        pages = {target for target, _ in links(waiting.pop()) if target.suffix == ".md"} - reached
        reached |= pages
        waiting += pages
    assert [name_of(path) for path in PAGES if path not in reached] == []


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text()
    assert [name_of(path) for path in PAGES if path.relative_to(DOCS).as_posix() not in menu] == []


def test_anchors_are_those_of_the_pages(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One: a `two`, [three](x.md)?\n\n```bash\n# no heading\n```\n\n## Same\n\n## Same\n\n## λ is it\n"
    )
    assert anchors(page) == {"one-a-two-three", "same", "same_1", "is-it"}
