"""Where output goes: `--quiet` prints errors only, `--json` one JSON object on stdout and everything else on stderr."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO

from asymrl.settings import SETTINGS

if TYPE_CHECKING:
    import polars as pl

QUIET_SECONDS = 5.0  # without a line, where lines stay
ROUNDING = 1e-12  # numbers of tables below this are 0 but for rounding
_answers: ContextVar[TextIO | None] = ContextVar("answers", default=None)


@contextlib.contextmanager
def redirected(*, quiet: bool, as_json: bool) -> Iterator[None]:
    """Sends what is printed where the user wants it; `print_json` still reaches stdout."""
    with contextlib.ExitStack() as stack:
        token = _answers.set(sys.stdout)
        stack.callback(_answers.reset, token)
        if quiet:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        elif as_json:
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield


def print_json(answer: Any) -> None:
    """Prints what a command has found for other programs. What is not a finite number is null: JSON has no NaN."""
    print(json.dumps(_finite(answer), indent=1), file=_answers.get() or sys.stdout)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value


def progress_line(what: str) -> None:
    """Says on stderr what is being computed: in a terminal in place of the last such line."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="\r", file=sys.stderr, flush=True)
    else:
        print(what, file=sys.stderr, flush=True)


@contextlib.contextmanager
def busy(with_what: str) -> Iterator[Callable[[str], None]]:
    """Shows what is being done: as a line that moves and then goes away on a terminal, as a plain line elsewhere.

    What it yields is to be called with the part that is next; elsewhere than on a terminal, a part is a line of its own
    if the last line is `QUIET_SECONDS` old.
    """
    from rich.text import Text

    from asymrl.runs.display import plain_console

    console = plain_console()
    if not console.is_terminal:
        console.print(f"{with_what} ...", soft_wrap=True)
        last = time.monotonic()

        def tell(part: str) -> None:
            nonlocal last
            if time.monotonic() - last >= QUIET_SECONDS:
                console.print(f"{with_what}: {part} ...", soft_wrap=True)
                last = time.monotonic()

        yield tell
        return
    with console.status(Text(with_what)) as status:
        yield lambda part: status.update(Text(f"{with_what}: {part}"))


def print_table(table: pl.DataFrame) -> None:
    """A table on the terminal; a number is shown with its bounds, `NAME_low` and `NAME_high`."""
    from rich.table import Table

    from asymrl.runs.display import plain_console

    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    own = [name for name in table.columns if not name.endswith(("_low", "_high"))]
    for name in own:
        is_number = table[name].dtype.is_numeric()
        shown.add_column(name.replace("_", " "), justify="right" if is_number else "left")
    for row in table.to_dicts():
        shown.add_row(*(_shown(row, name) for name in own))
    console = plain_console()
    console.width = 200
    console.print(shown)


def _shown(row: dict[str, object], name: str) -> str:
    from asymrl.report.intervals import Interval

    value, low, high = (row.get(key) for key in (name, f"{name}_low", f"{name}_high"))
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if name in SETTINGS:
        return f"{value:g}"
    text = f"{value:z.3f}" if abs(value) >= 0.01 or abs(value) < ROUNDING else f"{value:.2g}"
    if not (isinstance(low, float) and isinstance(high, float)) or row.get("runs") == 1:
        return text
    digits = Interval(value, low, high).digits(3)
    return f"{text} [{low:z.{digits}f}, {high:z.{digits}f}]"
