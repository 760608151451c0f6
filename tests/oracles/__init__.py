"""The rules of the worlds a second time, in plain Python and NumPy, to compare the compiled ones with.

Written from the description of the worlds alone, slow and obvious on purpose: one state at a time, with
coordinates, sets and dictionaries where the library has index arithmetic.
"""
