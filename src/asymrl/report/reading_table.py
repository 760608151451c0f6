"""Critics by what they read, as a table in text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from asymrl.theory.exact.reading_worth import GAE_LAMBDA, ReadingWorth

ZERO = 1e-11  # smaller numbers are printed as 0
COLUMNS = ("value bias", "gradient error", "cosine", "Var target", "Var advantage", "Var gradient")


def reading_lines(readings: Sequence[ReadingWorth]) -> Iterator[str]:
    """A line for each critic, below the names of the columns."""
    width = max(18, *(len(each.critic) + 2 for each in readings))
    yield _line("critic, by TD(0)", width, COLUMNS)
    for each in readings:
        variances = (each.target_variance, each.advantage_variance, each.gradient_variance)
        cells = (number(each.value_bias), percent(each.gradient_error), cosine(each.gradient_cosine))
        yield _line(each.critic, width, (*cells, *map(number, variances)))


def remarks(worth: ReadingWorth) -> Iterator[str]:
    """What the table has no column for, in sentences."""
    if worth.explained is not None:
        share = abs(round(worth.explained, 6))  # no -0.0
        yield f"{worth.critic} knows {share:.1%} of what V(h, s) knows beyond V(h)."
    one, two = worth.gae_variance, worth.gae_variance_independent
    if one is not None and two is not None and abs(two - one) > ZERO * max(1.0, one):
        yield (
            f"{worth.critic} with GAE({GAE_LAMBDA}): Var advantage is {number(one)} if V and its bootstrap share a "
            f"drawn state, {number(two)} if they do not."
        )


def number(x: float | None) -> str:
    """Four digits; a dash if there is no number."""
    return "-" if x is None else f"{0.0 if abs(x) < ZERO else x:.4g}"


def percent(error: float) -> str:
    """A relative error."""
    return "inf" if math.isinf(error) else f"{100 * round(error, 9):.3g} %"


def cosine(x: float) -> str:
    """A cosine; a dash if there is none."""
    return "-" if math.isnan(x) else f"{x:.3f}"


def _line(name: str, width: int, cells: Sequence[str]) -> str:
    return f"{name:<{width}}" + "".join(
        f"{cell:>{size}}" for cell, size in zip(cells, (11, 16, 9, 12, 15, 14), strict=True)
    )
