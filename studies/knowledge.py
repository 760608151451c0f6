"""How much must the critic know? V(h, i) for parts i of the state, against the share of variance that i explains."""

from __future__ import annotations

import polars as pl

from readings import reading_numbers
from runner import main
from study import Arm, Setup, Study

PARTS = {
    "heaven-hell-3": ("", "position", "at-priest", "heaven-side", "state"),
    "shopping-5": ("", "position", "item", "state"),
}
"""What critics see besides the history."""


def label(part: str) -> str:
    """The name of an arm, such as V(h, item)."""
    return "V(h)" if not part else "V(h, s)" if part == "state" else f"V(h, {part})"


def exact(world: str) -> pl.DataFrame:
    """A row for each critic; for each agent what i explains, the gradient's variance, and what is readable.

    Seconds for Heaven-Hell, half a minute for Shopping-5.
    """
    names = ("explained", "explained return", "variance", "readable")
    return pl.DataFrame(reading_numbers(world, {label(part): (part, True) for part in PARTS[world]}, names))


def arms_in(setup: Setup) -> tuple[Arm, ...]:
    """The critics of a world."""
    return tuple(
        Arm(label(part), {"method": "a2c-asym-hs", "critic_sees": part} if part else {"method": "a2c"})
        for part in PARTS[setup.world]
    )


PREDICTION = """\
The history tells the agent's position and whether it is at the priest, which therefore explain none of the variance
of V(h, s) given h; heaven's side and the item explain all of it. So in Heaven-Hell-3, V(h, heaven-side) solves as
many runs as V(h, s), at least 17 of 20, and V(h, position) and V(h, at-priest) as many as V(h), at most 3. In
Shopping-5 all solve at least 18; V(h, item) learns as fast as V(h, s), and V(h, position) no faster than V(h), but
V(h) is slower than V(h, s) by less than a fifth of its steps, for the state explains at most a tenth of the
variance of returns until the agent asks on purpose. If V(h, position) beats V(h), parts of the state help as
features, and the score misses that.
"""

STUDY = Study(
    name="knowledge",
    title="How much must the critic know?",
    question=(
        "Which parts of the state must a critic be told, and does the share of the variance of V(h, s) given h "
        "that a part explains predict how well V(h, i) learns?"
    ),
    prediction=PREDICTION,
    # The settings that the paper tuned for a2c and a2c-asym-hs with TD(0), which are the same in both worlds.
    setups=(
        Setup("heaven-hell-3", 2_000_000),
        Setup("shopping-5", 1_000_000, {"entropy_steps": 1_000_000.0}),
    ),
    arms_in=arms_in,
    exact=exact,
    exact_score="half: explained",
    comparisons=(
        ("V(h, s)", "V(h)"),
        ("V(h, heaven-side)", "V(h, s)"),
        ("V(h, item)", "V(h, s)"),
        ("V(h, heaven-side)", "V(h)"),
        ("V(h, item)", "V(h)"),
        ("V(h, position)", "V(h)"),
        ("V(h, at-priest)", "V(h)"),
    ),
)

if __name__ == "__main__":
    main(STUDY)
