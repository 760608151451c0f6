from __future__ import annotations

from tests.doc_pages import DOCS, blocks

HOW_TO = DOCS / "how-to" / "gymnasium.md"


def test_the_code_of_the_how_to_runs(capsys):
    code = blocks(HOW_TO, "python")
    assert len(code) == 9
    names: dict[str, object] = {}
    for block in code:
        exec(compile(block, HOW_TO.name, "exec"), names)
    assert "heaven-hell-3, at the start" in capsys.readouterr().out
