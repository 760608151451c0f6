"""How long it takes to read large `.pomdp` files, and how close the bounds on the optimal return of others come.

python benchmarks/pomdp_files.py            # rock-sample with n x n cells and k rocks: 5x5:5 and 7x7:8
python benchmarks/pomdp_files.py 7:8 9:9
python benchmarks/pomdp_files.py hallway.pomdp network.pomdp --seconds 60    # endless episodes, CPU seconds
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

MOVES = {"n": (0, -1), "s": (0, 1), "e": (1, 0), "w": (-1, 0)}
HALF_EFFICIENCY = 20.0  # the distance at which a sensor is right in three of four cases


def rock_sample_lines(n: int, k: int, seed: int = 0) -> Iterator[str]:
    """RockSample[n, k] of Smith and Simmons (2004), one line for each entry of its tables.

    The state is the rover's cell and the quality of every rock; leaving to the east ends the episode. `check` of a
    rock is right with a probability that falls with the distance.
    """
    rocks = np.random.default_rng(seed).choice(n * n, k, replace=False)
    cells, qualities = n * n, 1 << k
    names = [f"c{cell}-{quality:0{k}b}" for cell in range(cells) for quality in range(qualities)]
    checks = [f"check{i}" for i in range(k)]
    yield f"discount: 0.95\nvalues: reward\nstates: {' '.join(names)}"
    yield f"actions: {' '.join(MOVES)} sample {' '.join(checks)}\nobservations: none good bad"
    yield "start include: " + " ".join(names[(n // 2) * n * qualities :][:qualities])
    yield "O: * : * : none 1.0"
    for cell in range(cells):
        y, x = divmod(cell, n)
        rock = next((i for i in range(k) if rocks[i] == cell), None)
        for quality in range(qualities):
            here = names[cell * qualities + quality]
            for action, (dx, dy) in MOVES.items():
                if x + dx == n:
                    yield f"T: {action} : {here} reset\nR: {action} : {here} : * : * 10"
                    continue
                there = min(max(y + dy, 0), n - 1) * n + max(x + dx, 0)
                yield f"T: {action} : {here} : {names[there * qualities + quality]} 1.0"
            after = quality if rock is None else quality & ~(1 << rock)
            yield f"T: sample : {here} : {names[cell * qualities + after]} 1.0"
            good = rock is not None and quality >> rock & 1
            yield f"R: sample : {here} : * : * {10 if good else -10 if rock is not None else -100}"
            for i, check in enumerate(checks):
                away = np.hypot(rocks[i] % n - x, rocks[i] // n - y)
                right = 0.5 + 0.5 * 2 ** float(-away / HALF_EFFICIENCY)
                good = right if quality >> i & 1 else 1 - right
                yield f"T: {check} : {here} : {here} 1.0"
                yield f"O: {check} : {here} : none 0\nO: {check} : {here} : good {good!r}"
                yield f"O: {check} : {here} : bad {1 - good!r}"


def bound_files(files: list[str], seconds: float) -> None:
    """A row for each file: its bounds after some CPU seconds of one core."""
    from asymrl.envs.pomdp_files import read_pomdp
    from asymrl.theory.solvers.deadline import Deadline
    from asymrl.theory.solvers.hsvi import point_based

    print("| file | states | lower bound | upper bound | distance | CPU seconds |\n|---|---:|---:|---:|---:|---:|")
    for file in files:
        pomdp, begin = read_pomdp(file).pomdp(), time.process_time()
        found = point_based(pomdp, None, pomdp.discount, deadline=Deadline(seconds, time.process_time))
        used, distance = time.process_time() - begin, (found.high - found.low) / abs(found.high)
        cells = f"{pomdp.states} | {found.low:.5g} | {found.high:.5g} | {distance:.2%} | {used:.1f}"
        print(f"| {pomdp.name} | {cells} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", default=["5:5", "7:8"], metavar="N:K|FILE")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    if files := [size for size in options.sizes if ".pomdp" in size]:
        bound_files(files, options.seconds)
        return
    from asymrl.envs.pomdp_files import read_pomdp

    print("| rock-sample | states | lines | MB | CPU seconds to read | to make a world | peak memory, MB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for size in options.sizes:
        n, k = map(int, size.split(":"))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rocks.pomdp"
            path.write_text("\n".join(rock_sample_lines(n, k)) + "\n")
            begin = time.process_time()
            problem = read_pomdp(path)
            read_s = time.process_time() - begin
            problem.world()
            world_s = time.process_time() - begin - read_s
            text = path.read_text()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 10 if sys.platform == "linux" else 1 << 20)
        sizes = [f"{count:,}".replace(",", " ") for count in (len(problem.state_names), text.count(chr(10)))]
        counts = f"{' | '.join(sizes)} | {len(text) / 1e6:.1f}"
        print(f"| {n} x {n}, {k} rocks | {counts} | {read_s:.1f} | {world_s:.1f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
