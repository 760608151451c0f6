"""Public names that are imported when they are first used."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from asymrl.envs import pomdp_files
from asymrl.envs.sources import register
from asymrl.lazy import exports, imported_for_types

PACKAGES = ("asymrl", "asymrl.api", "asymrl.envs", "asymrl.report", "asymrl.runs", "asymrl.worlds")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_type_checkers_know_is_found_and_no_other(package: str):
    module = importlib.import_module(package)
    tree = ast.parse(Path(str(module.__file__)).read_text())
    (for_types,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {alias.asname for node in for_types.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names == set(dir(module))
    for name in names:
        assert getattr(module, str(name)) is not None


def test_a_name_comes_from_its_module_and_an_unknown_one_is_refused():
    assert imported_for_types("asymrl.runs")["asymrl.runs.store"] == ["Store"]
    get, names = exports("asymrl.envs")
    assert {"pomdp_files", "register"} < set(names())
    assert get("register") is register
    assert get("pomdp_files") is pomdp_files
    with pytest.raises(AttributeError, match="has no attribute 'tau'"):
        get("tau")
