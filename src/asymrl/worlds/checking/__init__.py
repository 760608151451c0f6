"""Checks of worlds and environments: tests their promises on samples, and lists facts for people to read."""
