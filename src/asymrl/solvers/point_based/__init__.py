"""Point-based solving: bounds on the optimal value that tighten in the beliefs that a search visits."""
