"""A real browser for tests of pages: the system's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def opened(page: Path | str, *, scheme: str = "light") -> Iterator[tuple[Any, list[str]]]:
    """The page in a browser, from the disk or an address; and what its console has said, which should be nothing.

    Skips the test where there is no Chromium or no Playwright.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium on this machine")
    said: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            tab = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme=scheme)
            tab.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
            tab.on("pageerror", lambda error: said.append(f"error: {error}"))
            tab.on("requestfailed", lambda request: said.append(f"request: {request.url}"))
            tab.goto(page if isinstance(page, str) else page.resolve().as_uri())
            yield tab, said
        finally:
            browser.close()
