"""Public names that are imported when they are first used."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from asymrl.lazy import exports

LAZY = ("asymrl", "asymrl.envs", "asymrl.envs", "asymrl.worlds")


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_know_the_same_names(package: str):
    module = importlib.import_module(package)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    (for_types,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {alias.asname for node in for_types.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names == set(dir(module))


@pytest.mark.parametrize("package", LAZY)
def test_every_name_is_found(package: str):
    module = importlib.import_module(package)
    for name in dir(module):
        assert getattr(module, name) is not None


def test_a_name_comes_from_its_module_and_an_unknown_one_is_refused():
    get, names = exports("package", {"math": ["pi"], "json": ["loads"]}, modules=["part"])
    assert names() == ["loads", "part", "pi"]
    assert get("pi") == 3.141592653589793
    with pytest.raises(ModuleNotFoundError, match="package"):
        get("part")
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'tau'"):
        get("tau")
