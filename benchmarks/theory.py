"""Time and peak memory of exact analysis, each case in a process of its own.

    python benchmarks/theory.py [--cases controller tiger shopping actor] [--run FOLDER]

`actor` is a recurrent network of this project that remembers everything. It is not trained by reinforcement but taught
to imitate the optimal plan of heaven-hell-4, which takes about a minute; what is measured is the analysis alone. With
`--run` the actor of a trained run is analysed as well, as it is and sharpened.
"""

from __future__ import annotations

import math
import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax
import tyro

import asymrl
from asymrl import theory
from asymrl.learners.learners import new_run
from asymrl.learners.state import training_world
from asymrl.nn.agent import Actor
from asymrl.nn.distributions import NO_ACTION
from asymrl.settings import A2CSettings
from asymrl.theory.audit import TrainedActor
from asymrl.theory.solvers import examine, solve
from asymrl.worlds import FiniteWorld, make
from asymrl.worlds.pomdp import Pomdp

EPISODES, STEPS, UPDATES = 64, 40, 300  # of imitation
SHARPER = 4.0  # what the logits of a run are multiplied by for the more deterministic policy


@dataclass(frozen=True)
class Options:
    """What to measure."""

    cases: list[str] = field(default_factory=lambda: list(CASES))
    run: Path | None = None
    """A trained run in a finite world, to be followed as far as fits."""


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


def controller() -> Callable[[], str]:
    pomdp = problem("heaven-hell-4")
    policy = theory.EpsilonSoft(solve(pomdp).policy(timed=False), 0.5)
    return lambda: examined(pomdp, policy, horizon=100)


def tiger() -> Callable[[], str]:
    return lambda: examined("tiger", lambda h: (0.8, 0.1, 0.1), horizon=8)


def shopping() -> Callable[[], str]:
    def optimum() -> str:
        best = solve(problem("shopping-6"))
        return f"{best.value:.4f}, {best.kind}: {best.how}"

    return optimum


def actor() -> Callable[[], str]:
    settings = A2CSettings(world="heaven-hell-4", method="a2c-asym-hs")
    world = training_world(settings)
    assert isinstance(world, FiniteWorld)
    taught = TrainedActor(imitate(world.pomdp(), new_run(world, settings, 0).actor))
    return lambda: examined(world, taught, mass=0.99)


def trained(folder: Path, sharper: float) -> Callable[[], str]:
    best = asymrl.load(folder).best()
    return lambda: examined(best.world, Sharper(TrainedActor(best.state.actor), sharper), mass=0.99)


class Sharper(theory.EpsilonSoft):
    """An actor with its logits multiplied."""

    def __init__(self, policy: theory.HistoryPolicy, factor: float):
        super().__init__(policy, 0.0)
        self.factor = factor

    def act(self, memory: Any) -> np.ndarray:
        shares = self.policy.act(memory) ** self.factor
        return shares / shares.sum(1, keepdims=True)


def imitate(pomdp: Pomdp, student: Actor) -> Actor:
    """Teaches a network to act optimally but for 1 %, in episodes of an agent that errs in 15 % of its steps."""
    best, optimiser = solve(pomdp).policy(timed=False), optax.adam(2e-3)
    state, generator = optimiser.init(eqx.filter(student, eqx.is_inexact_array)), np.random.default_rng(0)

    @eqx.filter_jit
    def update(student: Actor, state: Any, episodes: tuple) -> tuple[Actor, Any]:
        before, seen, wanted, acts = episodes

        def loss(student: Actor) -> jax.Array:
            logits = student.policy(student.history.sequence(before, seen))
            return -(acts * (wanted * jax.nn.log_softmax(logits)).sum(-1)).sum() / acts.sum()

        updates, state = optimiser.update(eqx.filter_grad(loss)(student), state)
        return eqx.apply_updates(student, updates), state

    for _ in range(UPDATES):
        student, state = update(student, state, episodes_of(pomdp, best, generator))
    return student


def episodes_of(pomdp: Pomdp, best: theory.HistoryPolicy, generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Actions before, observations, what should be done, and whether anything is: arrays over time and episodes."""
    errs, wanted = theory.EpsilonSoft(best, 0.15), theory.EpsilonSoft(best, 0.01)
    s = generator.choice(pomdp.states, EPISODES, p=pomdp.start)
    a, o = np.full(EPISODES, NO_ACTION), np.full(EPISODES, pomdp.observations)
    memory, alive, rows = errs.begin(o), np.ones(EPISODES, bool), []
    for _ in range(STEPS):
        rows.append((a, o, wanted.act(memory).astype(np.float32), alive.astype(np.float32)))
        a = (generator.random(EPISODES)[:, None] > errs.act(memory).cumsum(1)).sum(1).clip(0, pomdp.actions - 1)
        outcome = pomdp.first[s * pomdp.actions + a]  # what follows is certain in Heaven-Hell
        alive = alive & ~pomdp.done[outcome]
        s, o = np.where(alive, pomdp.next_state[outcome], s), np.where(alive, pomdp.observation[outcome], 0)
        going = np.flatnonzero(alive)
        memory = memory.copy()
        memory[going] = errs.advance(memory, going, a[going], o[going])
    before, seen, should, acts = (np.stack(column) for column in zip(*rows, strict=True))
    return before.astype(np.int32), seen.astype(np.int32), should, acts


CASES = {"controller": controller, "tiger": tiger, "shopping": shopping, "actor": actor}


def measure(prepare: Callable[[], Callable[[], str]]) -> tuple[float, float, str]:
    """Seconds, peak megabytes of the whole process, and what came out."""
    compute = prepare()
    begin = time.perf_counter()
    told = compute()
    seconds = time.perf_counter() - begin
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, told


def main(options: Options) -> None:
    cases: dict[str, Callable] = {name: CASES[name] for name in options.cases}
    if options.run is not None:
        cases |= {"run": partial(trained, options.run, 1.0), "run, sharper": partial(trained, options.run, SHARPER)}
    print("| case | seconds | peak MB | result |\n|---|---:|---:|---|")
    for name, prepare in cases.items():
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, megabytes, told = pool.apply(measure, (prepare,))
        print(
            f"| {name} | {round(seconds, 3 - math.ceil(math.log10(seconds)))} | {megabytes:.0f} | {told} |", flush=True
        )


if __name__ == "__main__":
    main(tyro.cli(Options))
