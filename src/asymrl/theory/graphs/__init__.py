"""A policy followed through a POMDP, as a graph of histories with exact probabilities."""
