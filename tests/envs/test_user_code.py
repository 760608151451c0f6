"""Code of the user is imported beside everything else that the process imports."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from asymrl.envs.user_code import import_folders, user_path

MODULES = 2000


@pytest.fixture
def modules(tmp_path: Path) -> Iterator[list[str]]:
    """Names of modules in a folder at the end of the import path."""
    names = [f"imported_beside_{i}" for i in range(MODULES)]
    for name in names:
        (tmp_path / f"{name}.py").write_text("")
    before = list(sys.path)
    sys.path = [*before, str(tmp_path)]
    yield names
    sys.path = before
    for name in names:
        sys.modules.pop(name, None)


def test_other_threads_find_their_modules_meanwhile(modules: list[str]):
    """Python goes through the import path while it looks for a module: an entry must not move under its feet."""
    is_over = threading.Event()

    def load_again_and_again() -> None:
        while not is_over.is_set():
            with user_path(always=True):
                pass

    threads = [threading.Thread(target=load_again_and_again) for _ in range(2)]
    for thread in threads:
        thread.start()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for name in modules:
            importlib.import_module(name)
    finally:
        sys.setswitchinterval(before)
        is_over.set()
        for thread in threads:
            thread.join()


def test_the_path_is_as_before():
    """The folders of files that other tests have loaded in this process are on it meanwhile, too."""
    before, folders = list(sys.path), import_folders(always=True)
    assert folders[0] == str(Path.cwd())
    with user_path(always=True):
        assert sys.path == [*folders, *before]
    assert sys.path == before


def test_a_folder_that_the_users_code_removed_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    with user_path(always=True):
        sys.path.remove(str(tmp_path))
    assert sys.path == before
