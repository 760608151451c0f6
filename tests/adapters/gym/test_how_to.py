from __future__ import annotations

import re
from pathlib import Path

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "gymnasium.md"


def test_the_code_of_the_how_to_runs(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", HOW_TO.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 9
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, HOW_TO.name, "exec"), names)
    assert "heaven-hell-3, at the start" in capsys.readouterr().out
