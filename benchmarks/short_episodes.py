"""What `update_steps` is worth where episodes are short: A2C with a few episodes per update, and with many steps.

    python benchmarks/short_episodes.py

New runs in cart-pole, whose episodes have some twenty steps, with the paper's networks. The two take turns in one
process, so that they meet the same machine; the last line is the ratio of their steps per CPU second.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import jax
import numpy as np
import tyro


@dataclass(frozen=True)
class Options:
    """What to measure."""

    world: str = "cart-pole"
    method: str = "a2c-asym-hs"
    time_limit: int = 40
    episodes: int = 2
    """Per update."""
    together: int = 8
    """Episodes of a round, of the runs with `update_steps`."""
    update_steps: int = 256
    updates: int = 60
    """Of the runs without `update_steps`, in a turn; the others have as many steps."""
    turns: int = 4


def main(options: Options) -> None:
    from asymrl.api.wanted import settings_for
    from asymrl.learners.compiled import CompiledProgram
    from asymrl.learners.numbers import stack_numbers

    kinds = {"episodes": None, "update_steps": options.update_steps}
    programs, numbers = {}, {}
    for name, steps in kinds.items():
        episodes = options.episodes if steps is None else options.together
        how = {"episodes": episodes, "update_steps": steps, "steps": 10**8, "time_limit": options.time_limit}
        settings = settings_for(options.world, options.method, **how)
        programs[name], numbers[name] = CompiledProgram(settings), stack_numbers([settings])
    rates: dict[str, list[float]] = {name: [] for name in kinds}
    lengths: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(options.turns + 1):
        taken = 0
        for name, program in programs.items():
            runs, busy, before = program.start([turn]), time.process_time(), 0
            updates = options.updates if name == "episodes" else max(1, taken // options.update_steps)
            runs = jax.block_until_ready(program.train(runs, numbers[name], updates))
            taken = int(runs.timesteps[0]) - before
            if turn:  # the first one compiles
                rates[name].append(taken / (time.process_time() - busy))
                lengths[name].append(taken / int(runs.episodes[0]))
    for name, each in rates.items():
        what = f"{options.episodes} episodes" if name == "episodes" else f"at least {options.update_steps} steps"
        print(
            f"{what:>20} per update {np.mean(each):>10,.0f} steps per CPU second, length {np.mean(lengths[name]):.0f}"
        )
    ratios = np.array(rates["update_steps"]) / np.array(rates["episodes"])
    print(f"{'ratio':>31} {ratios.mean():>10.2f} ({ratios.min():.2f} to {ratios.max():.2f})")


if __name__ == "__main__":
    main(tyro.cli(Options))
