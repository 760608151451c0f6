"""Time and peak memory of exact analysis, each case in a process of its own.

    python benchmarks/theory.py [--cases controller tiger shopping] [--run FOLDER]

With `--run` the best actor of a trained run in a finite world is analysed as well, as far as fits.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

import asymrl
from asymrl import theory
from asymrl.report import examine
from asymrl.theory.audit import TrainedActor
from asymrl.theory.solvers import solve
from asymrl.worlds import FiniteWorld, make
from asymrl.worlds.pomdp import Pomdp


@dataclass(frozen=True)
class Options:
    """What to measure."""

    cases: list[str] = field(default_factory=lambda: ["controller", "tiger", "shopping"])
    run: Path | None = None
    """A trained run."""


def problem(name: str) -> Pomdp:
    world = make(name)
    assert isinstance(world, FiniteWorld)
    return world.pomdp()


def examined(pomdp: Any, policy: Any, **options: Any) -> str:
    """Everything that `asymrl theory` computes about a policy."""
    analysis = theory.analyse(pomdp, policy, **options)
    examine(analysis, "", {})
    _ = analysis.states.timed_td, analysis.states.timed_mc  # they are computed when asked for
    return (
        f"return {analysis.J:.4f} ± {analysis.error:.2g}, {analysis.graph.nodes} nodes, "
        f"{100 * (1 - analysis.left_over):.1f} % of the probability"
    )


def result_of(case: str) -> str:
    if case == "controller":
        pomdp = problem("heaven-hell-4")
        return examined(pomdp, theory.EpsilonSoft(solve(pomdp).policy(timed=False), 0.5), horizon=100)
    if case == "tiger":
        return examined("tiger", lambda h: (0.8, 0.1, 0.1), horizon=8)
    if case == "shopping":
        best = solve(problem("shopping-6"))
        return f"{best.value:.4f}, {best.kind}: {best.how}"
    trained = asymrl.load(case).best()
    return examined(trained.world, TrainedActor(trained.state.actor), mass=0.99)


def measure(case: str) -> tuple[float, float, str]:
    """Seconds, peak megabytes of the whole process, and what came out."""
    begin = time.perf_counter()
    result = result_of(case)
    return time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, result


def main(options: Options) -> None:
    print("| case | seconds | peak MB | result |\n|---|---:|---:|---|")
    for case in [*options.cases, *([str(options.run)] if options.run else [])]:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, megabytes, result = pool.apply(measure, (case,))
        print(f"| {case} | {seconds:.2g} | {megabytes:.0f} | {result} |", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Options))
