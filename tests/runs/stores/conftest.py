"""Stores are tested with the small runs and the command of the engine's tests."""

from tests.runs.engine.conftest import asymrl, environment, runs, uninterrupted

__all__ = ["asymrl", "environment", "runs", "uninterrupted"]
