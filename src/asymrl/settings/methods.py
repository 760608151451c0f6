"""The methods: a learner, what its critic reads, and how long the memory is. Nothing else tells them apart."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

PAPER_METHODS = ("a2c", "a2c-asym-s", "a2c-asym-hs", "a2c-react-2", "a2c-react-4")
PPO_METHODS = ("ppo", "ppo-asym-s", "ppo-asym-hs", "ppo-react-2", "ppo-react-4")
DQN_METHODS = ("dqn", "adqn", "adqn-vr", "adqn-state", "adqn-state-vr", "adqn-short", "adqn-short-vr")
METHODS = (*PAPER_METHODS, *PPO_METHODS, *DQN_METHODS)
LEARNERS = ("a2c", "ppo", "dqn")

_READS = {"": "h", "-asym-s": "s", "-asym-hs": "hs"}
_READS_OF_Q = {"dqn": "h", "adqn": "hs", "adqn-vr": "hs", "adqn-state": "s", "adqn-state-vr": "s",
               "adqn-short": "hs", "adqn-short-vr": "hs"}  # fmt: skip


@dataclass(frozen=True)
class Method:
    """A learner and what its critic reads."""

    name: str
    learner: str
    """Which of the LEARNERS."""
    reads: str
    """What the critic reads: "h" the history, "s" the privileged signal, "hs" both."""
    window: int | None = None
    """How many last action-observation pairs actor and critic remember; None means all."""


def method(name: str) -> Method:
    """The method with this name: one of METHODS, or `a2c-react-k` or `ppo-react-k` with any other k."""
    if name in _READS_OF_Q:
        return Method(name, "dqn", _READS_OF_Q[name])
    if match := re.fullmatch(r"(a2c|ppo)(-asym-s|-asym-hs|)", name):
        return Method(name, match[1], _READS[match[2]])
    if match := re.fullmatch(r"(a2c|ppo)-react-([1-9]\d*)", name):
        return Method(name, match[1], "h", int(match[2]))
    close = difflib.get_close_matches(name, METHODS, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    names = dict.fromkeys(re.sub(r"-react-\d+", "-react-k", each) for each in METHODS)
    raise ValueError(f"unknown method {name!r}; {hint}choose one of {', '.join(names)} (with any k, such as 4)")
