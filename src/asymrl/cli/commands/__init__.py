"""The commands of `asymrl`: one file each, or for two that share their work."""
