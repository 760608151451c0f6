"""Where compiled programs are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from asymrl.runs.cache import cache_folder
from tests.runs.engine.conftest import Commands


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ASYMRL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_the_users_cache_folder_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert cache_folder() == tmp_path / "home/.cache/asymrl/compiled"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert cache_folder() == tmp_path / "elsewhere/asymrl/compiled"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_folder() == tmp_path / "home/.cache/asymrl/compiled"


def test_it_can_be_chosen_or_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ASYMRL_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.setenv("ASYMRL_CACHE", "off")
    assert cache_folder() is None


def test_without_a_place_to_write_there_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/proc/nowhere")
    assert cache_folder() is None


COMPILE = """
import sys
from asymrl.runs.cache import use_compilation_cache
if sys.argv[1] == "after":
    import jax
use_compilation_cache()
import jax
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.jit(lambda x: x * 2 + 1)(jax.numpy.arange(3.0))
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_programs_are_kept_whether_or_not_jax_was_imported(asymrl: Commands, tmp_path: Path, when: str):
    asymrl.python(COMPILE, when, ASYMRL_CACHE=str(tmp_path / "cache"))
    assert list((tmp_path / "cache").glob("jit*"))


def test_a_folder_that_was_given_to_jax_is_respected(asymrl: Commands, tmp_path: Path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    asymrl.python(COMPILE, "before", ASYMRL_CACHE=str(ours), JAX_COMPILATION_CACHE_DIR=str(theirs))
    assert list(theirs.glob("jit*"))
    assert not list(ours.glob("jit*"))
