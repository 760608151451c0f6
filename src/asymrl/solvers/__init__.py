"""Optimal values and policies, bounds, and policies that cannot remember or see."""
