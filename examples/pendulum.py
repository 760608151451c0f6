"""A vector of actions: gymnax's pendulum with each of the five methods.

pip install "asymrl[gymnax]"
python examples/pendulum.py [STEPS]
"""

import sys
from pathlib import Path

import asymrl
from asymrl.names import METHODS

WORLD = "gymnax:Pendulum-v1"


def main(steps=200_000, out="runs/pendulum", methods=METHODS, **settings):
    """Trains the methods one after the other; the mean return at the end of each."""
    reached = {}
    for method in methods:
        result = asymrl.train(WORLD, method, seeds=2, steps=steps, out=Path(out) / method, **settings)
        last = result.metrics.group_by("seed").last()
        reached[method] = last["return"].mean()
    for method, value in reached.items():
        print(f"{method:<13}{value:>10.1f}")
    return reached


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
