"""What the presets reach in other people's environments, and what RecurrentPPO of Stable-Baselines3 reaches there.

    pip install "asymrl[examples]" popgym
    python -m scripts.preset_evidence --out evidence --workers 2        # all jobs that are not there yet
    python -m scripts.preset_evidence --out evidence --minutes 22 --workers 14 --archive evidence.tar.gz

A job is one run of one task: it uses one core and writes one small JSON file. Run again, the script does what is
missing. `scripts/presets_page.py` makes the tables of `docs/how-to/presets.md` of the files.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro
from scripts.preset_tasks import EPISODES, TASKS, play_recurrent_ppo, recurrent_ppo, score, settings_of_theirs

OTHER = "recurrent-ppo"  # the arm that is not ours
POINTS = 40  # of a learning curve
ALSO = {"a2c-short": ("t-maze", "cart-pole")}  # presets of another learner, and tasks to measure them in
SEARCH_SEEDS = (100, 101, 102)  # other than those of the results
ARCHIVE_SECONDS = 60.0
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
class Arm:
    """What is trained in a task."""

    name: str
    preset: str
    """Whose tasks it is trained in."""
    settings: dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One run."""

    task: str
    arm: str
    method: str
    seed: int

    @property
    def file(self) -> str:
        return f"{self.task}_{self.arm}_{self.method}_{self.seed}.json"


def arms(candidates: Path | None) -> dict[str, Arm]:
    """The presets, or in their place the candidates of a file: by preset and name, their settings."""
    if candidates is None:
        names = dict.fromkeys(task.preset for task in TASKS.values())
        return {name: Arm(name, name, {"preset": name}) for name in names}
    known = {}
    for preset, each in json.loads(candidates.read_text()).items():
        for name, given in each.items():
            settings = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
            known[name] = Arm(name, preset, settings)
    return known


class Plan:
    """Which job comes next: the search among candidates, the longest task, then all others, one seed after the other.

    So what is there when the time is over is balanced.
    """

    def __init__(self, options: Options):
        self.out, self.known, self.lock = options.out, arms(options.candidates), threading.Lock()
        self.tasks = list(options.tasks or TASKS)
        rivals = {task: self.rivals(task) for task in self.tasks}
        self.search = [
            Job(task, arm, "ppo", seed)
            for seed in SEARCH_SEEDS
            for task in self.tasks
            for arm in rivals[task]
            if len(rivals[task]) > 1
        ]
        self.begun: set[Job] = set()
        self.over: set[Job] = set()
        self.options = options

    def rivals(self, task: str) -> list[str]:
        return [arm.name for arm in self.known.values() if arm.preset == TASKS[task].preset]

    def winner(self, preset: str) -> str | None:
        """The best candidate in the tasks of a preset, once all are measured."""
        jobs = [job for job in self.search if TASKS[job.task].preset == preset]
        if any(job not in self.over for job in jobs):
            return None
        names = [arm.name for arm in self.known.values() if arm.preset == preset]
        return max(names, key=lambda name: sum(self.score(job) for job in jobs if job.arm == name))

    def score(self, job: Job) -> float:
        file = self.out / job.file
        return score(TASKS[job.task], json.loads(file.read_text())["return"]) if file.exists() else 0.0

    def wanted(self) -> Iterator[Job]:
        """Those that can be begun now, the most important first."""
        few, more = self.options.seeds[:3], self.options.seeds[3:]
        first = [task for task in self.tasks if TASKS[task].others_first]
        rest = [task for task in self.tasks if task not in first]
        yield from self.search
        for seed in few[:2]:
            yield from self.theirs(first, seed)
            yield from self.ours(first, seed)
        for seed in few:
            yield from self.ours(rest, seed)
            yield from self.theirs(rest, seed)
            for name, tasks in ALSO.items():
                also = [task for task in tasks if task in self.tasks]
                yield from (Job(task, name, method, seed) for task in also for method in ("a2c", "a2c-asym-hs"))
            yield from self.ours(first, seed)
            yield from self.theirs(first, seed)
        for seed in more:
            yield from self.ours(self.tasks, seed)
        for seed in more:
            yield from self.theirs(self.tasks, seed)

    def ours(self, tasks: list[str], seed: int) -> Iterator[Job]:
        """The best candidate of each task's preset, as soon as it is known."""
        for task in tasks:
            if (best := self.winner(TASKS[task].preset)) is not None:
                yield from (Job(task, best, method, seed) for method in TASKS[task].methods)

    def theirs(self, tasks: list[str], seed: int) -> Iterator[Job]:
        return (Job(task, OTHER, "ppo", seed) for task in tasks if self.options.others)

    def take(self) -> Job | None:
        """The next job; None if there is none left. Waits for the end of the search if that decides what is next."""
        while True:
            with self.lock:
                for job in self.wanted():
                    if (self.out / job.file).exists():
                        self.over.add(job)
                    elif job not in self.begun:
                        self.begun.add(job)
                        return job
                presets = {TASKS[task].preset for task in self.tasks}
                if all(self.winner(preset) is not None for preset in presets):
                    return None
            time.sleep(1.0)


def run_ours(job: Job, arm: Arm, steps: int) -> dict[str, Any]:
    """Trains and evaluates with asymrl."""
    import asymrl
    from asymrl.runs.listeners import Silent

    task = TASKS[job.task]
    with tempfile.TemporaryDirectory() as folder:
        runs = asymrl.train(
            task.world, job.method, seeds=[job.seed], steps=steps, log_points=POINTS, listener=Silent(),
            out=Path(folder) / "run", **arm.settings,
        )  # fmt: skip
        curve = runs.metrics.select("timestep", "return").rows()
        reached = runs.evaluate(EPISODES, seed=1_000 * (job.seed + 1))["return"][0]
        settings = {name: value for name, value in asdict(runs.runs[0].settings).items() if name != "world"}
    return {"return": reached, "curve": curve, "settings": settings}


def run_theirs(job: Job, steps: int) -> dict[str, Any]:
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
    model.learn(steps, callback=Curve())
    every = max(1, len(curve) // POINTS)
    return {"return": play_recurrent_ppo(task, model, job.seed), "curve": curve[::every], "settings": settings}


def run_job(job: Job, arm: Arm | None, steps: int, out: Path) -> None:
    """Does a job and writes what it reached."""
    import importlib.metadata
    import platform

    begin, cpu = time.monotonic(), time.process_time()
    found = run_theirs(job, steps) if arm is None else run_ours(job, arm, steps)
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = getattr(sys.modules.get(name.replace("-", "_")), "__version__", "?")
    times = {"seconds": round(time.monotonic() - begin, 1), "cpu_seconds": round(time.process_time() - cpu, 1)}
    content = {**asdict(job), "steps": steps, **found, **times, "versions": versions}
    unfinished = out / f"{job.file}.unfinished"
    unfinished.write_text(json.dumps(content) + "\n")
    unfinished.rename(out / job.file)


@dataclass(frozen=True)
class Options:
    """What to do."""

    out: Path = Path("preset-evidence")
    """Folder of the results."""
    workers: int = 2
    minutes: float | None = None
    """Start nothing more after this time, and stop what is running then."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    tasks: tuple[str, ...] = ()
    candidates: Path | None = None
    """A JSON file: by preset and name, settings. They are tried in the tasks of the preset with other seeds first, and
    the best takes the place of the preset. None: the presets."""
    others: bool = True
    """Whether RecurrentPPO is trained, too."""
    scale: float = 1.0
    """Of the steps, to try the script."""
    archive: Path | None = None
    """Put all results into this tar.gz at the end, and every minute before."""
    job: str | None = None
    """Used by the script itself: TASK,ARM,METHOD,SEED."""


def work(options: Options, plan: Plan, core: int, until: float) -> None:
    """Does jobs one after the other, each in its own process on one core."""
    while until > time.monotonic() and (job := plan.take()) is not None:
        command = [sys.executable, "-m", "scripts.preset_evidence", "--out", str(options.out)]
        command += ["--job", f"{job.task},{job.arm},{job.method},{job.seed}", "--scale", str(options.scale)]
        command += ["--candidates", str(options.candidates)] if options.candidates else []
        with open(options.out / f"{job.file}.log", "w") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **ONE_THREAD},
                preexec_fn=lambda: os.sched_setaffinity(0, [core]),
            )  # fmt: skip
            try:
                status = process.wait(None if until == math.inf else max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = "out of time"
        plan.over.add(job)
        result = json.loads((options.out / job.file).read_text()) if (options.out / job.file).exists() else {}
        said = f"{result['return']:.3f} in {result['seconds']:.0f} s" if result else f"failed: {status}"
        print(f"{time.strftime('%H:%M:%S')} {job.task} {job.arm} {job.method} seed {job.seed}: {said}", flush=True)


def save_archive(options: Options) -> None:
    """All results in one file, which is whole at any time."""
    if options.archive is None:
        return
    unfinished = options.archive.with_suffix(".unfinished")
    with tarfile.open(unfinished, "w:gz") as archive:
        for path in sorted(options.out.glob("*.json*")):
            archive.add(path, path.name)
    unfinished.rename(options.archive)


def main(options: Options) -> None:
    """Does the jobs that are missing, as many at a time as there are workers."""
    options.out.mkdir(parents=True, exist_ok=True)
    if options.job is not None:
        task, arm, method, seed = options.job.split(",")
        steps = int(TASKS[task].steps * options.scale)
        known = {**arms(options.candidates), **{name: Arm(name, name, {"preset": name}) for name in ALSO}}
        run_job(Job(task, arm, method, int(seed)), known.get(arm), steps, options.out)
        return
    until = math.inf if options.minutes is None else time.monotonic() + 60 * options.minutes
    plan, cores = Plan(options), sorted(os.sched_getaffinity(0))
    threads = [
        threading.Thread(target=work, args=(options, plan, cores[i % len(cores)], until), daemon=True)
        for i in range(options.workers)
    ]
    for thread in threads:
        thread.start()
    archived = time.monotonic()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.5)
        if time.monotonic() - archived > ARCHIVE_SECONDS:
            save_archive(options)
            archived = time.monotonic()
    for preset in dict.fromkeys(task.preset for task in TASKS.values()):
        print(f"{preset}: {plan.winner(preset)}")
    save_archive(options)


if __name__ == "__main__":
    main(tyro.cli(Options))
