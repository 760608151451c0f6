"""Recurrent PPO here and in Stable-Baselines3, on CartPole with hidden velocities: do both reach the same returns?

    python -m scripts.against_sb3             # trains ours, against the recorded returns of RecurrentPPO
    pip install asymrl[examples]
    python -m scripts.against_sb3 --record    # trains RecurrentPPO as well and records its returns

Five seeds each. RecurrentPPO takes a quarter of an hour. `benchmarks/recurrent_ppo.py` has the settings, and says what
is equal and what is not. The exit status is 0 if the mean final return of each lies within the 95 % interval of the
other's.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import tyro
from benchmarks.recurrent_ppo import Task, environments, our_settings, recurrent_ppo
from scipy import stats

from asymrl.runs.statistics import mean_and_error
from asymrl.runs.wording import thousands

RECORD = Path(__file__).parents[1] / "benchmarks" / "recurrent_ppo.json"
POINTS = 5  # of a learning curve; the last one is the final return
CONFIDENCE = 0.95
PACKAGES = ("sb3-contrib", "stable-baselines3", "torch", "gymnasium", "numpy")


@dataclass
class Training:
    """What one seed reached."""

    seed: int
    curve: list[float] = field(default_factory=list)
    """Mean returns of evaluation episodes after each fifth of the steps."""
    seconds: float = 0.0
    """CPU seconds, with evaluations and compilation."""

    @property
    def final(self) -> float:
        return self.curve[-1]


def train_recurrent_ppo(task: Task, seed: int) -> Training:
    """Trains RecurrentPPO, with evaluations on the way."""
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.callbacks import BaseCallback  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)  # the networks are small
    training = Training(seed)

    class Evaluations(BaseCallback):
        def _on_rollout_start(self) -> None:
            if self.num_timesteps >= task.steps * (len(training.curve) + 1) / POINTS:
                training.curve.append(play_recurrent_ppo(task, self.model, seed))

        def _on_step(self) -> bool:
            return True

    begin = time.process_time()
    model = recurrent_ppo(task, seed)
    model.learn(task.steps, callback=Evaluations())
    training.curve.append(play_recurrent_ppo(task, model, seed))
    training.seconds = time.process_time() - begin
    return training


def play_recurrent_ppo(task: Task, model: Any, seed: int) -> float:
    """The mean return of whole episodes, all side by side, with sampled actions."""
    episodes = task.evaluation_episodes
    envs = environments(task, episodes)
    envs.seed(1_000 * (seed + 1))
    observation, memory, first = envs.reset(), None, np.ones(episodes, bool)
    total, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        action, memory = model.predict(observation, state=memory, episode_start=first, deterministic=False)
        observation, reward, first, _ = envs.step(action)
        total += reward * running
        running &= ~first
    return float(total.mean())


def train_ours(task: Task, seeds: int, folder: Path) -> list[Training]:
    """Trains `ppo` with seeds 0, 1, ... into a folder."""
    import asymrl

    begin = time.process_time()
    evaluations = {
        "log_points": POINTS,
        "evaluation_episodes": task.evaluation_episodes,
        "evaluation_greedy": False,
    }
    runs = asymrl.train("cart-pole", "ppo", seeds=seeds, out=folder, **our_settings(task), **evaluations)
    final = dict(runs.evaluate(task.evaluation_episodes).select("seed", "return").iter_rows())
    seconds = (time.process_time() - begin) / seeds
    trainings, points = [], runs.metrics.filter(pl.col("timestep") > 0).sort("timestep")
    for (seed,), curve in points.group_by("seed", maintain_order=True):
        evaluated = curve["evaluation_return"].to_list()[: POINTS - 1]
        trainings.append(Training(seed, [*evaluated, final[seed]], seconds))
    return sorted(trainings, key=lambda training: training.seed)


def record(task: Task, seeds: int, path: Path) -> None:
    """Trains RecurrentPPO with seeds 0, 1, ... and writes what it reached, with the versions of what was used."""
    trainings = [train_recurrent_ppo(task, seed) for seed in range(seeds)]
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    about = {"python": platform.python_version(), **versions}
    content = {"versions": about, "task": asdict(task), "trainings": [asdict(training) for training in trainings]}
    path.write_text(json.dumps(content, indent=1) + "\n")


def recorded(task: Task, path: Path) -> list[Training]:
    """What RecurrentPPO reached.

    Raises:
        ValueError: if it was recorded for another task.
    """
    content = json.loads(path.read_text())
    if content["task"] != json.loads(json.dumps(asdict(task))):
        raise ValueError(f"{path} was recorded with other settings; record it again with --record")
    return [Training(**training) for training in content["trainings"]]


@dataclass(frozen=True)
class Estimate:
    """The mean final return over seeds, with its 95 % interval after Student."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, trainings: list[Training]) -> Estimate:
        mean, error = mean_and_error(np.array([training.final for training in trainings]))
        reach = error * stats.t.ppf((1 + CONFIDENCE) / 2, len(trainings) - 1)
        return cls(float(mean), float(mean - reach), float(mean + reach))

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.mean:.1f} [{self.low:.1f}, {self.high:.1f}]"


def agree(ours: list[Training], theirs: list[Training]) -> bool:
    """Whether the mean final return of each lies within the interval of the other."""
    one, other = Estimate.of(ours), Estimate.of(theirs)
    return one.contains(other.mean) and other.contains(one.mean)


def report(name: str, task: Task, trainings: list[Training]) -> None:
    curve = np.mean([training.curve for training in trainings], axis=0)
    finals = ", ".join(f"{training.final:.1f}" for training in trainings)
    seconds = np.mean([training.seconds for training in trainings])
    print(f"{name:<13}final return {Estimate.of(trainings)} of {len(trainings)} seeds: {finals}")
    print(f"{'':<13}on the way   {', '.join(f'{value:.0f}' for value in curve)} after each fifth of the steps")
    print(f"{'':<13}{thousands(task.steps)} steps in {seconds:.0f} CPU seconds")


@dataclass(frozen=True)
class Options:
    """What to train."""

    task: tyro.conf.OmitArgPrefixes[Task] = field(default_factory=Task)
    seeds: int = 5
    record: bool = False
    """Train RecurrentPPO too and write what it reached."""
    path: Path = RECORD
    """The file of what RecurrentPPO reached."""


def main(options: Options) -> bool:
    """Trains, prints both sides and returns whether they agree."""
    if options.record:
        record(options.task, options.seeds, options.path)
    theirs = recorded(options.task, options.path)
    with tempfile.TemporaryDirectory() as folder:
        ours = train_ours(options.task, options.seeds, Path(folder) / "ppo")
    report("RecurrentPPO", options.task, theirs)
    report("asymrl ppo", options.task, ours)
    same = agree(ours, theirs)
    print(f"each mean lies {'within' if same else 'NOT within'} the other's {CONFIDENCE:.0%} interval")
    return same


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Options)) else 1)
