"""What the presets reach in other people's environments, and what RecurrentPPO of Stable-Baselines3 reaches there.

    pip install "asymrl[examples]" popgym
    python -m scripts.preset_evidence --out evidence --workers 2        # all jobs that are not there yet

A job is one run of one task: it uses one core and writes one small JSON file. Run again, the script does what is
missing. `scripts/presets_page.py` makes the tables of `docs/how-to/presets.md` of the files.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro
from scripts.preset_tasks import EPISODES, TASKS, play_recurrent_ppo, recurrent_ppo, settings_of_theirs

OTHER = "recurrent-ppo"  # the arm that is not ours
POINTS = 40  # of a learning curve
ALSO = {"a2c-short": ("t-maze", "cart-pole")}  # presets of another learner, and tasks to measure them in
PACKAGES = ("asymrl", "jax", "gymnasium", "minigrid", "popgym", "sb3-contrib", "stable-baselines3", "torch")
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "CUDA_VISIBLE_DEVICES": "",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
    "SDL_VIDEODRIVER": "dummy",
}


@dataclass(frozen=True)
class Job:
    """One run: a preset, or RecurrentPPO, in a task."""

    task: str
    arm: str
    method: str
    seed: int

    @property
    def file(self) -> str:
        return f"{self.task}_{self.arm}_{self.method}_{self.seed}.json"


@dataclass(frozen=True)
class Options:
    """What to do."""

    out: Path = Path("preset-evidence")
    """Folder of the results."""
    workers: int = 2
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    tasks: tuple[str, ...] = tuple(TASKS)
    job: str | None = None
    """Used by the script itself: TASK,ARM,METHOD,SEED."""


def jobs(options: Options) -> Iterator[Job]:
    """All jobs, one seed after the other, so that what is there when the time is over is balanced."""
    for seed in options.seeds:
        for name in options.tasks:
            task = TASKS[name]
            yield Job(name, OTHER, "ppo", seed)
            yield from (Job(name, task.preset, method, seed) for method in task.methods)
            for preset, tasks in ALSO.items():
                if name in tasks:
                    yield from (Job(name, preset, method, seed) for method in ("a2c", "a2c-asym-hs"))


def run_ours(job: Job) -> dict[str, Any]:
    """Trains and evaluates with asymrl."""
    import asymrl

    task = TASKS[job.task]
    with tempfile.TemporaryDirectory() as folder:
        runs = asymrl.train(
            task.world, job.method, seeds=[job.seed], steps=task.steps, log_points=POINTS, preset=job.arm,
            out=Path(folder) / "run",
        )  # fmt: skip
        curve = runs.metrics.select("timestep", "return").rows()
        reached = runs.evaluate(EPISODES, seed=1_000 * (job.seed + 1))["return"][0]
        settings = {name: value for name, value in asdict(runs.runs[0].settings).items() if name != "world"}
    return {"return": reached, "curve": curve, "settings": settings}


def run_theirs(job: Job) -> dict[str, Any]:
    """Trains and evaluates with Stable-Baselines3."""
    from stable_baselines3.common.callbacks import BaseCallback  # pyright: ignore[reportMissingImports]

    from asymrl.api.wanted import settings_for

    task, curve = TASKS[job.task], []

    class Curve(BaseCallback):
        def _on_rollout_end(self) -> None:
            recent = [episode["r"] for episode in self.model.ep_info_buffer or ()]
            if recent:
                curve.append((self.num_timesteps, sum(recent) / len(recent)))

        def _on_step(self) -> bool:
            return True

    settings = settings_of_theirs(task, settings_for("tiger", preset=task.preset))
    model = recurrent_ppo(task, settings, job.seed)
    model.learn(task.steps, callback=Curve())
    every = max(1, len(curve) // POINTS)
    return {"return": play_recurrent_ppo(task, model, job.seed), "curve": curve[::every], "settings": settings}


def run_job(job: Job, out: Path) -> None:
    """Does a job and writes what it reached."""
    begin, cpu = time.monotonic(), time.process_time()
    found = run_theirs(job) if job.arm == OTHER else run_ours(job)
    there = {each.metadata["Name"].lower(): each.version for each in importlib.metadata.distributions()}
    versions = {"python": platform.python_version(), **{name: there.get(name, "?") for name in PACKAGES}}
    times = {"seconds": round(time.monotonic() - begin, 1), "cpu_seconds": round(time.process_time() - cpu, 1)}
    content = {**asdict(job), "steps": TASKS[job.task].steps, **found, **times, "versions": versions}
    unfinished = out / f"{job.file}.unfinished"
    unfinished.write_text(json.dumps(content) + "\n")
    unfinished.rename(out / job.file)


def start(job: Job, out: Path) -> None:
    """Does a job in a process of its own with one thread."""
    command = [sys.executable, "-m", "scripts.preset_evidence", "--out", str(out)]
    command += ["--job", f"{job.task},{job.arm},{job.method},{job.seed}"]
    with open(out / f"{job.file}.log", "w") as log:
        status = subprocess.run(command, stdout=log, stderr=log, env={**os.environ, **ONE_THREAD}).returncode
    result = json.loads((out / job.file).read_text()) if status == 0 else None
    words = f"failed: {status}" if result is None else f"{result['return']:.3f} in {result['seconds']:.0f} s"
    print(f"{time.strftime('%H:%M:%S')} {job.task} {job.arm} {job.method} seed {job.seed}: {words}", flush=True)


def main(options: Options) -> None:
    """Does the jobs that are missing, as many at a time as there are workers."""
    options.out.mkdir(parents=True, exist_ok=True)
    if options.job is not None:
        task, arm, method, seed = options.job.split(",")
        run_job(Job(task, arm, method, int(seed)), options.out)
        return
    missing = [job for job in jobs(options) if not (options.out / job.file).exists()]
    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(lambda job: start(job, options.out), missing))


if __name__ == "__main__":
    main(tyro.cli(Options))
