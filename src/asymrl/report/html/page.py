"""A page: sections put together into one HTML file with everything it needs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple

from asymrl.draw import style
from asymrl.report.markup import escape

LIBRARY = ("uplot/uPlot.min.css", "uplot/uPlot.iife.min.js")
# Nothing is fetched and no text becomes code, whatever a name in a store says.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
LIGHT = {"ink": style.INK, "muted": style.MUTED, "faint": style.FAINT, "grid": style.GRID, "card": style.CARD} | {
    "paper": style.PAPER, "accent": style.BLUE
}  # fmt: skip
DARK = {"ink": "#E4E9ED", "muted": "#9AA6B1", "faint": "#46535F", "grid": "#2E3943", "card": "#1E272F"} | {
    "paper": "#151C22", "accent": style.SKY
}  # fmt: skip


class Section(NamedTuple):
    """A part of a page."""

    title: str
    """Its heading, as plain text."""
    name: str
    """Of its element, `section-NAME`, and of its data, `data-NAME`: letters, digits and hyphens."""
    html: str = ""
    """The contents under the heading: our own markup, with all untrusted text escaped."""
    data: Any = None
    """Anything that JSON can hold, for `script`. Numbers that are not finite are not JSON: write None."""
    script: str | None = None
    """The name of the JavaScript function that is called with the section's element and its data."""
    assets: tuple[str, ...] = ()
    """Files in `pages/assets` that the section needs, each ending in .js or .css."""


def page_of(title: str, sections: Sequence[Section], subtitle: str = "", *, connects: bool = False) -> str:
    """The page with these sections as one HTML file.

    Args:
        title: plain text.
        sections: in their order.
        subtitle: plain text under the title.
        connects: whether the page may ask the server that it came from for more.
    """
    policy = f"{POLICY}; connect-src 'self'" if connects else POLICY
    assets = dict.fromkeys(("page.css", *(asset for section in sections for asset in section.assets), "page.js"))
    styles = [_palette(), *(_asset(name) for name in assets if name.endswith(".css"))]
    scripts = [_asset(name) for name in assets if name.endswith(".js")]
    links = "".join(f'<a href="#section-{section.name}">{escape(section.title)}</a>' for section in sections)
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            *(f"<style>\n{text}\n</style>" for text in styles),
            "</head>\n<body>",
            f'<header><h1>{escape(title)}</h1><p class="subtitle">{escape(subtitle)}</p><nav>{links}</nav></header>',
            f"<main>\n{''.join(map(_element, sections))}</main>",
            *(f"<script>\n{text}\n</script>" for text in scripts),
            f"<script>\n{_start(sections)}\n</script>",
            "</body>\n</html>\n",
        ]
    )


def _element(section: Section) -> str:
    if not re.fullmatch(r"[a-z0-9-]+", section.name):
        raise ValueError(f"section {section.name!r}: a name has small letters, digits and hyphens only")
    data = ""
    if section.data is not None:
        data = f'<script type="application/json" id="data-{section.name}">{json_text(section.data)}</script>\n'
    return (
        f'<section id="section-{section.name}">\n<h2>{escape(section.title)}</h2>\n{section.html}\n</section>\n{data}'
    )


def json_text(data: Any) -> str:
    """Data as JSON that is safe inside a script element: without the characters that could end it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _start(sections: Sequence[Section]) -> str:
    """The calls that start the scripts of the sections."""
    calls = []
    for section in sections:
        if section.script is None:
            continue
        if not section.script.isidentifier():
            raise ValueError(f"section {section.name}: {section.script!r} is not the name of a function")
        calls.append(f'startSection({section.script}, "{section.name}");')
    return "\n".join(calls)


def _asset(name: str) -> str:
    return resources.files("asymrl.report.html").joinpath("assets", name).read_text(encoding="utf-8").strip()


def _palette() -> str:
    """The colours of the package as CSS variables, light and dark."""

    def variables(colours: dict[str, str]) -> str:
        return " ".join(f"--{name}: {colour};" for name, colour in colours.items())

    return (
        f":root {{ color-scheme: light dark; {variables(LIGHT)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {variables(DARK)} }} }}"
    )
