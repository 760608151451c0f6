"""Checkpoints: the states of runs on disk, and what makes them small, sound and ready to continue from."""
