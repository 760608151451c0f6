"""Trained actors and critics under exact arithmetic."""
