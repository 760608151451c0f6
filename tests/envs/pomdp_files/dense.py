"""A second reader of `.pomdp` files, as simple as can be: dense arrays, every statement carried out at once."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import numpy as np


class Dense(NamedTuple):
    T: np.ndarray  # [a, s, s']
    O: np.ndarray  # [a, s, s', o]
    R: np.ndarray  # [a, s, s', o]
    ends: np.ndarray  # [s, a]
    start: np.ndarray


def read_dense(text: str) -> Dense:
    """Reads a text with the header in the usual order; `start`, if any, comes before the tables."""
    words = re.sub("#.*", "", text).replace(":", " : ").split()
    at = {word: words.index(word) for word in ("discount", "states", "actions", "observations")}
    sizes, names = {}, {}
    for kind in ("states", "actions", "observations"):
        listed = list(itertools.takewhile(lambda w: w != ":", words[at[kind] + 2 :]))
        if listed[0].isdigit():
            names[kind] = [str(i) for i in range(int(listed[0]))]
        else:
            names[kind] = [w for w in listed if w not in ("actions", "observations", "start", "include", "T", "O", "R")]
        sizes[kind] = len(names[kind])
    S, A, O = sizes["states"], sizes["actions"], sizes["observations"]
    sign = -1 if words[words.index("values") + 2].startswith("cost") else 1
    found = Dense(np.zeros((A, S, S)), np.zeros((A, S, S, O)), np.zeros((A, S, S, O)), np.zeros((S, A), bool),
                  np.full(S, 1 / S))  # fmt: skip
    starts = [
        i for i, w in enumerate(words[:-1]) if w in ("T", "O", "OO", "R", "start") and words[i + 1] in (":", "include")
    ]
    for i, j in itertools.pairwise([*starts, len(words)]):
        _apply(found, names, words[i], words[i + 1 : j])
    return found._replace(R=sign * found.R)


def _apply(found: Dense, names: dict[str, list[str]], word: str, words: list[str]) -> None:
    if word == "start":
        if words[0] == "include":
            found.start[:] = 0
            for state in words[2:]:
                found.start[_index(names["states"], state)] = 1 / len(words[2:])
        elif words[1] != "uniform":
            found.start[:] = [float(w) for w in words[1:]]
        return
    kinds = {"T": "ass", "O": "aso", "OO": "asso", "R": "asso"}[word]
    kinds = [{"a": "actions", "s": "states", "o": "observations"}[k] for k in kinds]
    table = {"T": found.T, "O": found.O, "OO": found.O, "R": found.R}[word]
    place = []
    while words and words[0] == ":":
        place.append(slice(None) if words[1] == "*" else _index(names[kinds[len(place)]], words[1]))
        words = words[2:]
    if word == "T":
        found.ends[place[1] if len(place) > 1 else slice(None), place[0]] = words == ["reset"]
    if word == "O":
        place.insert(1, slice(None))
    left = kinds[len(place) - (word == "O") :]
    shape = [len(names[kind]) for kind in left]
    if words == ["uniform"]:
        value = np.full(shape, 1 / shape[-1])
    elif words == ["identity"]:
        value = np.eye(shape[0], shape[1])
    elif words == ["reset"]:
        value = np.broadcast_to(found.start, shape)
    else:
        value = np.array([float(w) for w in words]).reshape(shape)
    # Wildcards leave axes in front of those of the value.
    table[tuple(place)] = value


def _index(names: list[str], word: str) -> int:
    return names.index(word) if word in names else int(word)
