"""A hook of MkDocs: formulas become MathML when the site is built, so pages need no script from a server."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert  # pyright: ignore[reportMissingImports]

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """The HTML of a page with MathML in place of LaTeX."""
    return FORMULA.sub(_mathml, content)


def _mathml(formula: re.Match[str]) -> str:
    tag, latex = formula.groups()
    display = "block" if tag == "div" else "inline"
    return f'<{tag} class="formula">{convert(html.unescape(latex), display=display)}</{tag}>'
