"""What the paper claims about its figures 3 and 4 and its grid search, and whether our runs bear it out.

A claim is judged by a rule and our runs alone, so that a verdict changes with the runs: runs that end before a task is
learned leave a claim open.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from asymrl.report.paper import claim_rules as rules
from asymrl.report.paper.claim_rules import Judgement
from asymrl.report.paper.evidence import Evidence
from asymrl.runs.files import RunError

Section = Literal["figure 3", "figure 4", "grid"]
H, S, HS, WINDOWS = "a2c", "a2c-asym-s", "a2c-asym-hs", ("a2c-react-2", "a2c-react-4")
MEMORY_HELPS = ("shopping-5", "shopping-6", "cleaner", "memory-four-rooms-7x7", "memory-four-rooms-9x9")


class Claim(NamedTuple):
    """A sentence of the paper, in short."""

    where: str
    """The world, or the part of the paper that it is about."""
    text: str
    judge: Callable[[Evidence], Judgement]

    @property
    def rule(self) -> str:
        """The name of the rule that judges it."""
        judge = self.judge
        return (judge.func if isinstance(judge, functools.partial) else judge).__name__


def _each(worlds: Iterable[str], text: str, rule: Callable[..., Judgement], **what: object) -> list[Claim]:
    return [Claim(world, text, functools.partial(rule, world=world, **what)) for world in worlds]


HEAVEN_HELL, SHOPPING = ("heaven-hell-3", "heaven-hell-4"), ("shopping-5", "shopping-6")
ROOMS = ("memory-four-rooms-7x7", "memory-four-rooms-9x9")

_CLAIMS = (
    *_each(HEAVEN_HELL, "only V(h, s) learns", rules.only, method=HS, others=(H, S, *WINDOWS)),
    *_each(SHOPPING, "V(h, s) better or faster than V(h) and V(s)", rules.ahead, method=HS, others=(H, S)),
    *_each(SHOPPING, "V(s) ends up suboptimal", rules.worse, method=S, other=HS),
    *_each(SHOPPING[:1], "a window of four catches up, slowly", rules.catches_up, method=WINDOWS[1], other=H),
    *_each(["car-flag"], "V(h, s) as good as V(s)", rules.as_good, method=HS, other=S),
    *_each(["car-flag"], "V(h) and windows fail", rules.fails, methods=(H, *WINDOWS), others=(HS, S)),
    *_each(["cleaner"], "V(h, s) as good as V(h)", rules.as_good, method=HS, other=H),
    *_each(["cleaner"], "V(s) collapses after a certain point", rules.collapses, method=S),
    *_each(ROOMS, "V(h, s) as good as V(h)", rules.as_good, method=HS, other=H),
    *_each(ROOMS, "V(s) fails", rules.fails, methods=(S,), others=(HS, H)),
    Claim(
        "five worlds",
        "V(h) better than windows",
        functools.partial(rules.better_everywhere, worlds=MEMORY_HELPS, method=H, others=WINDOWS),
    ),
    Claim("figure 4", "values go with performance", rules.values_follow),
    Claim("figure 4", "V(h) equal on both sides without the priest", rules.history_values_equal),
    Claim("figure 4", "V(s) equal with and without the priest", rules.state_values_equal),
    Claim("figure 4", "V(h, s) higher with the priest", rules.priest_raises),
    Claim("grid", "the tuned settings win", rules.tuned_wins),
)
_PLACES = list(dict.fromkeys(claim.where for claim in _CLAIMS))
CLAIMS: tuple[Claim, ...] = tuple(sorted(_CLAIMS, key=lambda claim: _PLACES.index(claim.where)))
"""Claims about one world are next to each other."""


class JudgedClaim(NamedTuple):
    """A claim and its verdict."""

    claim: Claim
    finding: Judgement


def judged(evidence: Evidence) -> list[JudgedClaim]:
    """All claims, judged by these runs; "no runs" where some are missing."""
    claims = []
    for claim in CLAIMS:
        try:
            finding = claim.judge(evidence)
        except RunError as error:
            finding = Judgement("no runs", str(error), None, None)
        claims.append(JudgedClaim(claim, finding))
    return claims
