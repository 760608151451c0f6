"""Memories phi(h): recurrent networks, attention, windows and stacks of them."""
