"""The inputs that an actor and a critic may have in a world, by name, and their symbols in equations."""

from __future__ import annotations

from collections.abc import Collection

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.name_options import split_names
from asymrl.worlds.spaces import Record, Space
from asymrl.worlds.world import World

BELIEF, SAMPLED_STATE, TIME = "belief", "sampled-state", "time"
SYMBOLS = {"state": "s", BELIEF: "b", SAMPLED_STATE: "s~b", TIME: "t"}
"""The symbols in equations of the inputs that every finite world offers a critic."""


OBSERVATION = "observation."  # prefix of a group's name where a signal has the same name


def observation_groups(env: World) -> dict[str, Space]:
    """The named parts of what the agent sees in a world: those of a record, or none."""
    space = env.observation_space
    return dict(space.items()) if isinstance(space, Record) else {}


def critic_meanings(env: World) -> dict[str, str]:
    """`signal_meanings`, and the groups of the observation."""
    groups = {name: f"the part {name} of what the agent may see" for name in observation_groups(env)}
    signals = signal_meanings(env)
    return signals | {f"{OBSERVATION}{name}" if name in signals else name: about for name, about in groups.items()}


def actor_space(env: World, sees: str | None) -> Space:
    """The space of what the actor sees: the named groups of the observation. None: all of it.

    Raises:
        ValueError: if there is no such group, or one is named twice.
    """
    if sees is None:
        return env.observation_space
    groups, names = observation_groups(env), split_names(sees)
    if not groups:
        raise ValueError(f"actor_sees {sees!r}: what the agent sees in {env.name} has no named parts; leave it out")
    for name in names:
        if name not in groups:
            raise ValueError(f"actor_sees {sees!r}: there is no {name!r}; {env.name} shows {', '.join(groups)}")
        if names.count(name) > 1:
            raise ValueError(f"actor_sees {sees!r} names {name} twice")
    return Record(tuple((name, space) for name, space in groups.items() if name in names))


def signal_meanings(env: World) -> dict[str, str]:
    """The inputs that a critic may have in a world, with their meanings; several may be joined by `+`."""
    meanings = {name: signal.about for name, signal in env.signals().items()}
    if isinstance(env, FiniteWorld):
        meanings[BELIEF] = "the probability of each state, given the history"
        meanings[SAMPLED_STATE] = "a state drawn from the belief, at each step anew"
    meanings[TIME] = "how many actions were taken"
    return meanings


def input_names(sees: str, known: Collection[str], world: str) -> tuple[str, ...]:
    """The names in what a critic sees, such as `state` and `time` in "state+time".

    Args:
        sees: one name, or several joined by `+` or commas.
        known: all valid names.
        world: its name, for messages.

    Raises:
        ValueError: if there is no such input, or one is named twice.
    """
    names = split_names(sees)
    for name in names:
        if name not in known:
            why = f"a {name} needs the tables of a finite world, which {world} has not; "
            choices = f"{world} can tell its critic {', '.join(known)}, or several of them joined by + or commas"
            raise ValueError(f"critic_sees {sees!r}: {why if name in (BELIEF, SAMPLED_STATE) else ''}{choices}")
        if names.count(name) > 1:
            raise ValueError(f"critic_sees {sees!r} names {name} twice")
    return names


def critic_symbol(sees: str, history: bool) -> str:
    """A critic as the equations write it: V(h, s) for "state" with the history, V(s, t) for "state+time"."""
    parts = [SYMBOLS.get(part, part) for part in split_names(sees)]
    return f"V({', '.join(['h'] * history + parts)})"
