"""The code of the how-to runs, and says what the page says."""

import re
from pathlib import Path
from typing import Any

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "analyse-a-pomdp.md"


def test_the_code_of_the_how_to_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", HOW_TO.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, HOW_TO.name, "exec"), names)
    assert 0 < names["analysis"].left_over <= 0.1
    assert names["analysis"].error > 0
