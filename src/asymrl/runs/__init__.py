"""Runs: the only code with side effects. What is trained, where it is kept, and the loop around the compiled one."""
