"""Tables of numbers with their intervals, on pages and on the terminal."""

from __future__ import annotations

import polars as pl
import pytest

from asymrl.cli.output import print_table
from asymrl.report.markup import setting_text, table_html

TABLE = pl.DataFrame(
    {"runs": [1, 20], "final_return": [0.5, 1.0], "final_return_low": [0.5, 1.0], "final_return_high": [0.5, 1.0]}
)


def test_one_run_has_no_interval_and_equal_runs_have_one(capsys: pytest.CaptureFixture[str]):
    page = table_html(TABLE)
    assert "<td class=n>0.500</td>" in page
    assert "<td class=n>1.000 [1.000, 1.000]</td>" in page
    print_table(TABLE)
    assert [line.split(maxsplit=1)[1].strip() for line in capsys.readouterr().out.splitlines()[1:]] == [
        "0.500",
        "1.000 [1.000, 1.000]",
    ]


def test_settings_are_written_as_one_would_read_them():
    assert [setting_text(value) for value in (2e6, 3e-4, 0.5, None, 7_000_000, (512, 256))] == [
        "2 000 000",
        "0.0003",
        "0.5",
        "–",
        "7 000 000",
        "512:256",
    ]
