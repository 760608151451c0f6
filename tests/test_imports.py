"""Imports go one way: the packages form layers, and nothing hides an upward edge inside a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "asymrl"

# What each package may import, besides itself.
MAY_IMPORT: dict[str, set[str]] = {
    "worlds": set(),
    "adapters": {"worlds", "render"},
    "render": {"worlds"},
    "kernels": {"worlds"},
    "models": {"worlds", "kernels"},
    "settings": {"worlds", "models"},
    "collection": {"worlds", "kernels", "models"},
    "learning": {"worlds", "kernels", "models", "settings", "collection"},
    "stores": {"worlds", "adapters", "models", "settings", "learning", "collection"},
    "engine": {"stores", "worlds", "adapters", "models", "settings", "learning", "collection"},
    "agents": {"worlds", "adapters", "models", "settings", "learning", "collection", "engine", "stores"},
    "theory": {"worlds"},
    "solvers": {"worlds", "theory"},
    "export": {"worlds", "adapters", "models", "settings", "learning", "collection", "engine", "stores", "agents"},
}
MAY_IMPORT["audit"] = MAY_IMPORT["agents"] - {"adapters"} | {"agents", "theory", "solvers"}
MAY_IMPORT["report"] = MAY_IMPORT["audit"] | {"audit", "render"}
MAY_IMPORT["tuning"] = {"worlds", "settings", "learning", "stores", "engine"}
MAY_IMPORT["pages"] = MAY_IMPORT["studies"] = MAY_IMPORT["report"] | {"report"}
MAY_IMPORT["paper"] = MAY_IMPORT["report"] | {"report"}
# What commands and `asymrl.NAME` do. It continues runs of `asymrl reproduce`, which have the paper's probes.
MAY_IMPORT["api"] = MAY_IMPORT["pages"] | {"adapters", "pages", "studies", "tuning", "export", "paper"}
MAY_IMPORT["zoo"] = MAY_IMPORT["api"] | {"api"}
MAY_IMPORT["cli"] = MAY_IMPORT["zoo"] | {"zoo"}


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
            yield from ((node.lineno, parts[1] if len(parts) > 1 else name.name) for name in node.names)
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.startswith("asymrl."):
                    yield node.lineno, name.name.split(".")[1]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("asymrl."):
            # A name for importlib hides an edge as well as an import does.
            parts = node.value.partition(":")[0].split(".")
            if len(parts) > 1 and (SOURCE / parts[1]).is_dir():
                yield node.lineno, parts[1]


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_a_package_imports_only_what_is_below_it(package: str):
    wrong = []
    for path in sorted((SOURCE / package).rglob("*.py")):
        for line, target in edges(path):
            if target not in MAY_IMPORT[package] | {package, "lazy", "reading", "__version__"}:
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_every_package_has_a_layer():
    there = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert there == set(MAY_IMPORT)


def test_no_module_name_stands_twice():
    stems = [path.stem for path in SOURCE.rglob("*.py") if path.stem not in ("__init__", "__main__")]
    assert sorted({stem for stem in stems if stems.count(stem) > 1}) == []


def test_no_class_name_stands_twice():
    names = [
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == []
