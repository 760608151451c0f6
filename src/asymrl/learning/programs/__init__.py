"""Programs: an update of many runs at once, compiled for one shape of settings."""
