"""Trained agents: loading them from a store, acting with them, evaluating and watching them."""
