"""Runs, lanes, pools and stores: everything that trains, and what is kept of it."""
