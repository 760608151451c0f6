"""What the tests of learning share."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(scope="package", autouse=True)
def quick_compilation() -> Iterator[None]:
    """Nearly all the time of these tests is compilation, and half of that is optimisation."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def as_users_compile() -> Iterator[None]:
    """With optimisation, for the tests where rounding matters."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)
