"""The example of the paper's appendix, step by step."""

import pytest

from asymrl.report.paper.good_bad import good_bad_steps


def test_walkthrough_has_equal_columns() -> None:
    numbers = 0
    for line in good_bad_steps(0.9):
        if " = " in line and line.startswith("  ") and "on average" not in line:
            computed, expected = line[46:58], line.rsplit("=", 1)[1]
            assert float(computed) == pytest.approx(float(expected), abs=1.01e-6)
            numbers += 1
    assert numbers == 14
