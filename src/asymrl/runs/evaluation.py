"""How good trained policies are: many episodes of each, apart from training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learners import collector
from asymrl.nn.agent import Actor
from asymrl.runs.statistics import mean_and_error
from asymrl.runs.trained import TrainedRuns
from asymrl.worlds.reference_scores import ReferenceScores
from asymrl.worlds.stepped_world import SteppedWorld
from asymrl.worlds.world import World

if TYPE_CHECKING:
    import polars as pl

SIDE_BY_SIDE, SIDE_BY_SIDE_IN_PYTHON = 100, 10


class Outcomes(NamedTuple):
    """The outcomes of the episodes of a batch of runs."""

    returns: Float[np.ndarray, "run episode"]
    discounted: Float[np.ndarray, "run episode"]
    lengths: Int[np.ndarray, "run episode"]
    truncated: Bool[np.ndarray, "run episode"]


class Estimate(NamedTuple):
    """A mean and its standard error; NaN where a single value says nothing about the spread."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: np.ndarray) -> Estimate:
        mean, error = mean_and_error(values)
        return cls(float(mean), float(error))


class Evaluation(NamedTuple):
    """How good one policy is, or the policies of several seeds are on average."""

    returns: Estimate
    discounted: Estimate
    length: Estimate
    terminated: float  # share of the episodes that the world ended
    truncated: float  # share of the episodes that the time limit cut off
    reached: Estimate | None  # see `ReferenceScores.reached`


def play(
    env: World,
    actors: Actor,
    seeds: Sequence[int],
    discounts: Sequence[float],
    *,
    episodes: int,
    seed: int = 0,
    greedy: bool = False,
) -> Outcomes:
    """Episodes of each actor.

    Args:
        env: the world, with a time limit.
        actors: of a batch of runs; every array has a leading axis `run`.
        seeds: those of the runs. Together with `seed`, they determine everything random here.
        discounts: of the runs, for the discounted returns.
        episodes: per run.
        seed: another one gives other episodes.
        greedy: take the most likely action instead of a sampled one.
    """
    if episodes < 1:
        raise ValueError(f"episodes is {episodes}; at least 1 is needed")
    keys = jax.vmap(lambda of_run: jax.random.fold_in(jax.random.key(seed), of_run))(jnp.asarray(seeds, jnp.uint32))
    played = []
    for part in range(math.ceil(episodes / side_by_side(env))):
        part_keys = jax.vmap(lambda key, part=part: jax.random.fold_in(key, part))(keys)
        played.append(jax.device_get(_play(env, actors, part_keys, jnp.asarray(discounts, jnp.float32), greedy)))
    return Outcomes(*(np.concatenate(arrays, axis=1)[:, :episodes] for arrays in zip(*played, strict=True)))


def _play(
    env: World, actors: Actor, keys: PRNGKeyArray, discounts: Float[Array, "run"], greedy: bool
) -> tuple[Array, Array, Array, Array]:
    everyone = jnp.ones(keys.shape[0], bool)
    episodes = collector.play(env, actors, keys, everyone, episodes=side_by_side(env), greedy=greedy)
    rewards = jnp.asarray(episodes.rewards)  # zero after the end of an episode
    weights = discounts[None, :, None] ** jnp.arange(rewards.shape[0])[:, None, None]
    return rewards.sum(0), (weights * rewards).sum(0), episodes.lengths, episodes.truncated


def side_by_side(env: World) -> int:
    """Episodes of a run that are played at once; fixed, so that the first n episodes are the same whatever n is."""
    return SIDE_BY_SIDE_IN_PYTHON if isinstance(env, SteppedWorld) else SIDE_BY_SIDE


def evaluate_runs(outcomes: Outcomes, reference: ReferenceScores | None = None) -> list[Evaluation]:
    """How good each policy is; the standard errors are over its episodes."""
    evaluations = []
    for returns, discounted, lengths, truncated in zip(*outcomes, strict=True):
        reached = reference and reference.reached(returns)
        evaluations.append(
            Evaluation(
                returns=Estimate.of(returns),
                discounted=Estimate.of(discounted),
                length=Estimate.of(lengths),
                terminated=float(1 - truncated.mean()),
                truncated=float(truncated.mean()),
                reached=None if reached is None else Estimate.of(reached),
            )
        )
    return evaluations


def evaluate(
    trained: TrainedRuns,
    reference: ReferenceScores | None = None,
    *,
    episodes: int = 1000,
    seed: int = 0,
    greedy: bool = False,
) -> list[Evaluation]:
    """How good the policy of each run is, in this many episodes of each; on the scale of `reference`, if given."""
    outcomes = play(
        trained.world,
        trained.states.actor,
        trained.seeds,
        [settings.discount for settings in trained.settings],
        episodes=episodes,
        seed=seed,
        greedy=greedy,
    )
    return evaluate_runs(outcomes, reference)


def evaluation_table(
    groups: Sequence[TrainedRuns],
    references: Sequence[ReferenceScores | None],
    *,
    episodes: int,
    seed: int = 0,
    greedy: bool = False,
) -> pl.DataFrame:
    """A row for each run: its number, world, method and seed, and means with standard errors over its episodes."""
    import polars as pl

    rows = []
    for trained, reference in zip(groups, references, strict=True):
        each = evaluate(trained, reference, episodes=episodes, seed=seed, greedy=greedy)
        for number, run, evaluation in zip(trained.numbers, trained.runs, each, strict=True):
            row = {"run": number, "world": run.settings.world, "method": run.settings.method, "seed": run.seed}
            for name in ("returns", "discounted", "length", "reached"):
                estimate = getattr(evaluation, name)
                short = "return" if name == "returns" else name
                row |= {short: estimate and estimate.mean, f"{short}_error": estimate and estimate.error}
            rows.append({**row, "terminated": evaluation.terminated, "truncated": evaluation.truncated})
    return pl.DataFrame(sorted(rows, key=lambda row: row["run"]), infer_schema_length=None)


def over_seeds(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The mean over seeds; the standard errors are over seeds too, as in the paper's figures."""

    def mean(estimates: list[Estimate]) -> Estimate:
        return Estimate.of(np.array([estimate.mean for estimate in estimates]))

    return Evaluation(
        returns=mean([each.returns for each in evaluations]),
        discounted=mean([each.discounted for each in evaluations]),
        length=mean([each.length for each in evaluations]),
        terminated=float(np.mean([each.terminated for each in evaluations])),
        truncated=float(np.mean([each.truncated for each in evaluations])),
        reached=mean([each.reached for each in evaluations if each.reached])
        if all(each.reached for each in evaluations)
        else None,
    )
