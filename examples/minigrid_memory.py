"""MiniGrid's memory task: remember the object that was shown, and choose the same one at the end of a corridor.

    pip install "asymrl[minigrid]"
    python examples/minigrid_memory.py [STEPS]

The critic is told the whole grid, with where the agent stands and looks.
"""

import sys

import asymrl

WORLD = "minigrid:MiniGrid-MemoryS7-v0"


def main(steps=500_000, **settings):
    result = asymrl.train(WORLD, "a2c-asym-hs", seeds=1, steps=steps, episodes=8, **settings)
    print(result.summary())
    return result


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
