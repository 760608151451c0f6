"""Monitoring a training: its progress, the display in the terminal, experiment trackers and callbacks."""
