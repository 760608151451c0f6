"""MiniGrid's memory task: remember the object that was shown, and choose the same one at the end of a corridor.

    pip install "asymrl[minigrid]"
    python examples/minigrid_memory.py [STEPS]

The critic reads the whole grid, with the agent's position and direction. The right choice earns nearly 1; a wrong
choice, or none within 245 steps, earns 0, so who does not remember earns 0.5.
"""

import sys

import asymrl

WORLD = "minigrid:MiniGrid-MemoryS7-v0"


def main(steps=500_000, **settings):
    """Trains, and prints the first and the last point of the learning curve."""
    runs = asymrl.train(WORLD, "ppo-asym-hs", preset="ppo-grid", seeds=1, steps=steps, **settings)
    first, last = (runs.metrics.row(i, named=True) for i in (0, -1))
    for name, row in (("at the beginning", first), (f"after {last['timestep']:,} steps", last)):
        print(f"{name}: return {row['return']:.2f}, episodes of {row['length']:.0f} steps")
    return runs


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
