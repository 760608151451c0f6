"""Tests run with shapes checked, and with warnings and silent rank promotion as errors."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

# Two test processes share two cores; more threads per process only get in each other's way.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "Agg")
# Most of the time of the tests of learning is compilation. Without optimisation it takes a third; programs suffer less.
# Later versions do not know the first two flags, and refuse what they do not know.
if importlib.metadata.version("jaxlib").startswith("0.10."):
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1 "
        "--xla_backend_optimization_level=0",
    )
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

from jaxtyping import install_import_hook

with install_import_hook("asymrl", "beartype.beartype"):
    import asymrl.worlds

    for name in dir(asymrl.worlds):
        getattr(asymrl.worlds, name)
import hypothesis
import jax

jax.config.update("jax_numpy_rank_promotion", "raise")

# Compilation makes the first example slow, and a busy machine any of them; neither is a failure.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, max_examples=50, print_blob=True)
hypothesis.settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    """Tests leave the user's cache alone and share one of their own, with the processes that they start, too."""
    if "ASYMRL_CACHE" not in os.environ:
        os.environ["ASYMRL_CACHE"] = folder = tempfile.mkdtemp(prefix="asymrl-tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.fixture(scope="session", autouse=True)
def _write_page() -> Iterator[Callable[..., None]]:
    """Commands that train write no page unless a test asks for it: playing its episodes takes seconds each time."""
    from asymrl.cli.running import Training

    write_page = Training.write_page

    def only_if_named(training: Training, *given: Any) -> None:
        if training.report is not None:
            write_page(training, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "write_page", only_if_named)
        yield write_page


@pytest.fixture
def page_at_the_end(_write_page: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that train write their page at the end, as they do outside of tests."""
    monkeypatch.setattr("asymrl.cli.running.Training.write_page", _write_page)
