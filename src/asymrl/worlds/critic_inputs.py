"""What a critic may be told in a world, by name, and how the equations write it."""

from __future__ import annotations

from collections.abc import Collection

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.world import World

BELIEF, SAMPLED_STATE, TIME = "belief", "sampled-state", "time"
SYMBOLS = {"state": "s", BELIEF: "b", SAMPLED_STATE: "s~b", TIME: "t"}
"""What every finite world can tell a critic, as the equations write it."""


def signal_meanings(env: World) -> dict[str, str]:
    """What a critic may be told in a world, and what each of it means; any of them may be joined by `+`."""
    meanings = {name: signal.about for name, signal in env.signals().items()}
    if isinstance(env, FiniteWorld):
        meanings[BELIEF] = "the probability of each state, given the history"
        meanings[SAMPLED_STATE] = "a state drawn from the belief, at each step anew"
    meanings[TIME] = "how many actions were taken"
    return meanings


def input_names(sees: str, known: Collection[str], world: str) -> tuple[str, ...]:
    """The names in what a critic sees, such as `state` and `time` in "state+time".

    Args:
        sees: one name, or several joined by `+`.
        known: the names that there are.
        world: its name, for messages.

    Raises:
        ValueError: if there is no such input, or one is named twice.
    """
    names = tuple(sees.split("+"))
    for name in names:
        if name not in known:
            why = f"a {name} needs the tables of a finite world, which {world} has not; "
            choices = f"{world} can tell its critic {', '.join(known)}, or several of them joined by +"
            raise ValueError(f"critic_sees {sees!r}: {why if name in (BELIEF, SAMPLED_STATE) else ''}{choices}")
        if names.count(name) > 1:
            raise ValueError(f"critic_sees {sees!r} names {name} twice")
    return names


def critic_symbol(sees: str, history: bool) -> str:
    """A critic as the equations write it: V(h, s) for "state" with the history, V(s, t) for "state+time"."""
    parts = [SYMBOLS.get(part, part) for part in sees.split("+") if part]
    return f"V({', '.join(['h'] * history + parts)})"
