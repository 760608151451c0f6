"""Continuous actions: gymnax's pendulum swings up and stays up, with A2C and any of its critics.

    pip install "asymrl[gymnax]"
    python examples/pendulum.py [METHOD ...]

The pendulum is compiled together with the learner: half a million steps take a minute or two on two cores. The return
starts at about -1300; a pendulum that swings up and stays up earns about -170.
"""

import sys
from pathlib import Path

import asymrl

WORLD = "gymnax:Pendulum-v1"
SETTINGS = {"memory_size": 64, "hidden": (64,), "discount": 0.95, "actor_rate": 3e-4, "critic_rate": 1e-2,
            "estimator": "td-lambda", "td_lambda": 0.8, "target_period": 2_000, "stop_return": -200}  # fmt: skip


def main(*methods, steps=1_000_000, seeds=1, out="runs/pendulum", **settings):
    """Trains with one method after the other. Returns the first and the last return of each learning curve."""
    reached = {}
    for method in methods or ("a2c-asym-hs",):
        runs = asymrl.train(WORLD, method, seeds=seeds, steps=steps, out=Path(out) / method,
                            **{**SETTINGS, **settings})  # fmt: skip
        curve = runs.metrics["return"]
        reached[method] = curve[0], curve[-1]
        print(f"{method}: return {curve[0]:.0f} at the beginning, {curve[-1]:.0f} after "
              f"{runs.metrics['timestep'][-1]:,} steps")  # fmt: skip
    return reached


if __name__ == "__main__":
    main(*sys.argv[1:])
