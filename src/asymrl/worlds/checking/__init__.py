"""Checks of worlds and environments: what they promise, tested on samples, with the facts for people to read."""
