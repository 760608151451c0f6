"""Imports go one way: the packages form layers, and nothing hides an upward edge inside a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "asymrl"

# What each room may import, besides itself. A room is a package, or a part of one that is listed by its own name.
MAY_IMPORT: dict[str, set[str]] = {
    "worlds": set(),
    "draw": {"worlds"},
    "envs": {"worlds", "draw"},
    "nn": {"worlds", "kernels/attach"},
    "settings": {"worlds", "nn"},
    "learners": {"worlds", "kernels/attach", "nn", "settings"},
    "kernels": {"worlds", "nn", "learners", "kernels/attach"},
    # The one door through which a plain function finds its fast path, by names.
    "kernels/attach": {"nn", "learners", "kernels"},
    "runs": {"worlds", "envs", "nn", "settings", "learners"},
    "theory": {"worlds"},
}
MAY_IMPORT["theory/audit"] = MAY_IMPORT["runs"] | {"runs", "theory"}
MAY_IMPORT["export"] = MAY_IMPORT["runs"] | {"runs"}
MAY_IMPORT["report"] = MAY_IMPORT["theory/audit"] | {"theory/audit", "draw"}
MAY_IMPORT["report/html"] = MAY_IMPORT["report/paper"] = MAY_IMPORT["report"] | {"report"}
# What commands and `asymrl.NAME` do. It continues runs of `asymrl reproduce`, which have the paper's probes.
MAY_IMPORT["api"] = MAY_IMPORT["report/html"] | {"report/html", "report/paper", "export"}
MAY_IMPORT["zoo"] = MAY_IMPORT["api"] | {"api"}
MAY_IMPORT["cli"] = MAY_IMPORT["zoo"] | {"zoo"}


def room_of(parts: Sequence[str]) -> str:
    """The room of a module, by the names of its packages."""
    return "/".join(parts[:2]) if "/".join(parts[:2]) in MAY_IMPORT else parts[0]


def edges(path: Path) -> Iterator[tuple[int, str]]:
    """Line and package of every import of our own, wherever it stands, except for type checking only."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "asymrl":
            parts = node.module.split(".")
            yield from ((node.lineno, room_of([*parts[1:], name.name])) for name in node.names)
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.startswith("asymrl."):
                    yield node.lineno, room_of(name.name.split(".")[1:])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("asymrl."):
            # A name for importlib hides an edge as well as an import does.
            parts = node.value.partition(":")[0].split(".")
            if len(parts) > 1 and (SOURCE / parts[1]).is_dir():
                yield node.lineno, room_of(parts[1:])


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_is_below_it(room: str):
    wrong = []
    for path in sorted([*(SOURCE / room).rglob("*.py"), *SOURCE.glob(f"{room}.py")]):
        if room_of(path.relative_to(SOURCE).with_suffix("").parts) == room:
            for line, target in edges(path):
                if target not in MAY_IMPORT[room] | {room, "lazy", "reading", "__version__"}:
                    wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_every_package_has_a_layer():
    there = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert there == {room for room in MAY_IMPORT if "/" not in room}
