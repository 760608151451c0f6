"""Worlds of this package, one file for each of them or for a few small ones."""
