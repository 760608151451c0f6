"""Formulas of the documentation can be shown by a browser without a script."""

from __future__ import annotations

import re

import pytest

from tests.doc_pages import ROOT

pytest.importorskip("latex2mathml", reason="of the extra docs")

from scripts.math_pages import on_page_content

FORMULA = re.compile(r"(?<!\$)\$([^$\n]+)\$(?!\$)|\$\$(.+?)\$\$", re.DOTALL)


def test_a_formula_becomes_mathml():
    page = on_page_content('<p><span class="arithmatex">\\(V(s) &lt; \\gamma\\)</span></p>')
    assert 'class="formula"><math' in page
    assert "&#x003B3;" in page or "γ" in page
    assert "arithmatex" not in page


def test_no_command_of_a_formula_is_left_over():
    formulas = [
        (path.name, line or block)
        for path in sorted((ROOT / "docs").rglob("*.md"))
        for line, block in FORMULA.findall(re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL))
    ]
    shown = [(name, on_page_content(f'<div class="arithmatex">\\[{latex}\\]</div>')) for name, latex in formulas]
    assert len(formulas) > 60
    assert [name for name, html in shown if "<math" not in html or "\\" in html] == []
