"""Sweeps: many runs of many worlds, methods and settings, planned into batches and kept in one folder."""
