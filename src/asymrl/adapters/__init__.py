"""Other people's environments as worlds, and our worlds as other people's environments."""
