"""What the tests of the worlds share."""

from __future__ import annotations

import jaxtyping
import pytest


@pytest.fixture
def as_installed():
    """Without the run-time checks of shapes that tests have, to see the errors that users see."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
