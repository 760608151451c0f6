"""Feeds the reader of `.pomdp` files with damaged ones: it may refuse them, and do nothing else.

python -m tests.envs.pomdp_files.fuzz --inputs 1000000  # our own mutations, reproducible
python -m tests.envs.pomdp_files.fuzz --engine atheris --inputs 1000000  # guided by coverage; pip install atheris
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import warnings

import numpy as np

from asymrl.envs.pomdp_files import FileError, Limits, parse_text, to_text
from asymrl.envs.pomdp_files.reader import parse_bytes
from tests.envs.pomdp_files.texts import CORPUS

LIMITS = Limits(states=300, rows=3_000, entries=30_000)
WORDS = (
    *("discount", "values", "states", "actions", "observations", "start", "include", "exclude", "uniform", "identity"),
    *(
        "reset",
        "reward",
        "cost",
        "T",
        "O",
        "OO",
        "R",
        ":",
        "*",
        "#",
        "\n",
        "\r\n",
        "+",
        "-",
        ".",
        ".5",
        "1e-3",
        "1e999",
    ),
    *(
        "0",
        "1",
        "-1",
        "2",
        "0.5",
        "300",
        "301",
        "1000000000",
        "9" * 40,
        "left",
        "go",
        "see",
        "T1",
        "\x00",
        "\ufeff",
        "é",
    ),
)


def read_or_refuse(data: bytes, *, write: bool = True) -> bool:
    """Whether the data are a file. What is read must come back the same when it is written and read again."""
    try:
        problem = parse_bytes(data, limits=LIMITS)
    except FileError:
        return False
    if not write:
        return True
    again = parse_text(to_text(problem), limits=LIMITS)
    one, other = problem.pomdp(), again.pomdp()
    for name in ("first", "next_state", "observation", "probability", "reward", "done", "start"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=f"{name} of {data!r}")
    return True


def mutated(chance: random.Random, corpus: tuple[str, ...] = CORPUS) -> bytes:
    """One of the texts with some words, characters or lines changed, removed, doubled or moved."""
    text = chance.choice(corpus)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 5, 8))):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.choice((0, 1, 1, 2, 5, 20)))
        kind = chance.randrange(6)
        if kind == 0:
            text = text[:at] + text[end:]
        elif kind == 1:
            text = text[:at] + chance.choice(WORDS) + text[end:]
        elif kind == 2:
            text = text[:at] + f" {chance.choice(WORDS)} " + text[at:]
        elif kind == 3:
            text = text[:at] + chr(chance.randrange(1, 256)) + text[at + 1 :]
        elif kind == 4:
            text = text[:at] + text[at:end] * 2 + text[end:]
        else:
            lines = text.split("\n")
            lines.insert(chance.randrange(len(lines) + 1), lines[chance.randrange(len(lines))])
            text = "\n".join(lines)
    return text.encode("utf-8")


def fuzz(inputs: int, seed: int = 0) -> int:
    """Tries so many inputs, and returns how many were files."""
    chance, files = random.Random(seed), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a missing discount is warned of
        for _ in range(inputs):
            data = mutated(chance)
            try:
                files += read_or_refuse(data, write=files % 16 == 0)  # writing takes ten times as long
            except Exception:
                print(f"failed on {data!r}", file=sys.stderr)
                raise
    return files


def fuzz_with_atheris(inputs: int) -> None:
    """Lets libFuzzer look for inputs that reach new code. It ends the process."""
    import atheris  # pyright: ignore[reportMissingModuleSource, reportMissingImports]

    for name in ("tokens", "parser", "rules", "assembly", "reader"):
        module = sys.modules[f"asymrl.envs.pomdp_files.{name}"]
        for value in list(vars(module).values()):
            if getattr(value, "__module__", None) == module.__name__ and callable(value):
                _instrument(atheris, value)
    warnings.simplefilter("ignore")
    chance = random.Random(0)

    def one_input(data: bytes) -> None:
        read_or_refuse(data, write=data[-1:] == b" ")

    def custom_mutator(data: bytes, max_size: int, seed: int) -> bytes:
        # Half of the inputs keep the form of a file, the others are libFuzzer's own.
        if chance.random() < 0.5:
            return mutated(random.Random(seed), (data.decode("utf-8", "replace"), *CORPUS))[:max_size]
        return atheris.Mutate(data, max_size)

    kept = f"-artifact_prefix={tempfile.gettempdir()}/"
    atheris.Setup([sys.argv[0], f"-runs={inputs}", "-max_len=2000", kept], one_input, custom_mutator=custom_mutator)
    atheris.Fuzz()


def _instrument(atheris: object, value: object) -> None:
    """Counts which branches of a function, or of the methods of a class, are taken."""
    members = list(vars(value).values()) if isinstance(value, type) else [value]
    for member in members:
        if hasattr(member, "__code__"):
            member.__code__ = atheris.instrument_func(member).__code__  # pyright: ignore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=("own", "atheris"), default="own")
    arguments = parser.parse_args()
    if arguments.engine == "atheris":
        fuzz_with_atheris(arguments.inputs)
        return
    begin = time.monotonic()
    files = fuzz(arguments.inputs, arguments.seed)
    print(f"{arguments.inputs:,} inputs, {files:,} of them files, in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
