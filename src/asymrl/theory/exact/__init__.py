"""Exact values, beliefs, gradients and fixed points of finite POMDPs."""
