"""Forty deliberate mistakes, one at a time: does a test find each?

    python scripts/mutants.py [--only WORD ...]

copies the tree, makes one mistake in the copy, and runs the everyday tests of the rooms that are named beside it until
the first fails. A mistake is a piece of code that stands exactly once below `src`, and what it becomes; if the code has
changed so that a piece is no longer there, the script says so. Takes about half an hour on two cores.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import tyro

ROOT = Path(__file__).parents[1]


class Mistake(NamedTuple):
    """A wrong version of a piece of code, and where the tests are that should find it."""

    about: str
    right: str
    wrong: str
    tests: tuple[str, ...] = ("tests/learners",)


STORES, WORLDS, THEORY, REPORT, NN = (
    (f"tests/{room}",) for room in ("runs/stores", "worlds", "theory", "report", "nn")
)
MISTAKES = (
    # Losses and returns.
    Mistake("the critic's mask is forgotten",
            "errors = jnp.where(valid, values - jax.lax.stop_gradient(targets), 0.0)",
            "errors = values - jax.lax.stop_gradient(targets)"),
    Mistake("the critic's target is not stopped", "values - jax.lax.stop_gradient(targets)", "values - targets"),
    Mistake("the policy loss has the wrong sign", "return -jnp.mean(jnp.sum(jnp.where(valid, weights * log_chosen",
            "return jnp.mean(jnp.sum(jnp.where(valid, weights * log_chosen"),
    Mistake("the policy loss is not discounted", "(discount ** jnp.arange(log_chosen.shape[0]))",
            "(discount ** jnp.zeros(log_chosen.shape[0]))"),
    Mistake("the advantages are not stopped", "[:, None] * jax.lax.stop_gradient(advantages)",
            "[:, None] * advantages"),
    Mistake("the ratio is clipped unevenly", "jnp.clip(ratio, 1 - clip, 1 + clip)",
            "jnp.clip(ratio, 1 - clip, 1 + 2 * clip)"),
    Mistake("PPO is optimistic", "return -jnp.minimum(ratio * advantages", "return -jnp.maximum(ratio * advantages"),
    Mistake("PPO's value loss is doubled", "(near - targets) ** 2) / 2", "(near - targets) ** 2)"),
    Mistake("TD(0) is not discounted", "return rewards + discount * after(values)", "return rewards + after(values)"),
    Mistake("the n-step return is off by one", "total = discount**n * after(values, n)",
            "total = discount**n * after(values, n + 1)"),
    Mistake("advantages pass across the end of an episode",
            "_discounted_sum(errors, jnp.where(ended, 0.0, discount * lambda_))",
            "_discounted_sum(errors, jnp.broadcast_to(discount * lambda_, ended.shape))"),
    Mistake("ended episodes bootstrap", "jnp.where(truncated, discount * final_value, 0.0)", "discount * final_value"),
    Mistake("the privileged network chooses actions", "greedy = jnp.argmax(of_history, axis=-1)",
            "greedy = jnp.argmax(of_history if of_privileged is None else of_privileged, axis=-1)"),
    Mistake("Q looks beyond the end", "return jnp.where(goes_on, next_values, 0.0)", "return next_values"),
    Mistake("Q's target is not stopped", "targets = jax.lax.stop_gradient(targets)", "targets = 1.0 * targets"),
    Mistake("a linear schedule ends one step late", "jnp.maximum(jnp.asarray(steps, jnp.float32) - 1, 1)",
            "jnp.maximum(jnp.asarray(steps, jnp.float32), 1)"),
    # Updates.
    Mistake("a target is copied late", "(timesteps >= next_target)", "(timesteps > next_target)"),
    Mistake("a Polyak target jumps", "share * new + (1 - share) * old", "share * old + (1 - share) * new"),
    Mistake("Adam is not corrected for its start", "(m / first) / (jnp.sqrt(v / second) + ", "m / (jnp.sqrt(v) + "),
    Mistake("clipping forgets the norm", "leaf / norm * most", "leaf / norm"),
    Mistake("padding enters the spread of advantages", "jnp.where(valid, (advantages - mean) ** 2, 0.0)",
            "(advantages - mean) ** 2"),
    Mistake("DQN exploits before its replay is filled", "jnp.where(timesteps < ", "jnp.where(timesteps < 0 * "),
    Mistake("the mean of few episodes counts empty places", "count = jnp.minimum(runs.episodes, RECENT)",
            "count = jnp.full_like(runs.episodes, RECENT)"),
    # The replay.
    Mistake("the replay does not wrap", "(replay.end + time) % self.capacity",
            "jnp.minimum(replay.end + time, self.capacity - 1)"),
    Mistake("the replay draws slots that it dropped", "slots = (replay.first + offsets) % self.slots",
            "slots = offsets % self.slots"),
    # Networks.
    Mistake("the GRU's gradient forgets the gates", "flow = dh * z + through", "flow = dh * z", NN),
    Mistake("the GRU's gradient passes an end of an episode", "flow = flow if keep is None else kept(flow, keep)",
            "flow = flow", NN),
    # Worlds.
    Mistake("one key starts and observes", "return self._begin(reset_key, observe_key)",
            "return self._begin(reset_key, reset_key)", (*WORLDS, "tests/learners")),
    Mistake("one key moves and observes", "return self._advance(step_key, observe_key, episode, action)",
            "return self._advance(step_key, step_key, episode, action)", (*WORLDS, "tests/learners")),
    Mistake("an end at the limit is called truncated",
            "Transition(observation, reward, terminated, out_of_time & ~terminated)",
            "Transition(observation, reward, terminated, out_of_time)", WORLDS),
    Mistake("episodes are one step too long", "if self.time_limit is None else t >= self.time_limit",
            "if self.time_limit is None else t > self.time_limit", WORLDS),
    Mistake("the belief includes episodes that ended", "going_on = np.where(pomdp.done, 0.0, pomdp.probability)",
            "going_on = pomdp.probability", WORLDS),
    # Theory.
    Mistake("Q(h, a) forgets the belief", "weight = graph.belief[source] * graph.pomdp.probability[graph.outcome[on]]",
            "weight = graph.pomdp.probability[graph.outcome[on]]", THEORY),
    Mistake("Q(h, s, a) is not discounted", "(pomdp.reward[graph.outcome] + pomdp.discount * x)",
            "(pomdp.reward[graph.outcome] + x)", THEORY),
    Mistake("bounds go on after the end", "later = np.where(pomdp.done, 0.0, bound[k - 1][pomdp.next_state])",
            "later = bound[k - 1][pomdp.next_state]", THEORY),
    # Runs.
    Mistake("a file is written in place, not renamed", "os.replace(unfinished, path)", "path.write_bytes(data)",
            STORES),
    Mistake("the digest of a manifest is not checked", 'if manifest.get("digest") != digest_of(manifest):',
            "if False:", STORES),
    Mistake("two processes share a folder", "fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_SH | fcntl.LOCK_NB",
            ("tests/runs",)),
    # Statistics.
    Mistake("the interquartile mean is too wide", "cut = int(0.25 * flat.shape[-1])",
            "cut = int(0.2 * flat.shape[-1])", REPORT),
    Mistake("a tie counts whole", "((mine > theirs) + 0.5 * (mine == theirs))", "(1.0 * (mine >= theirs))", REPORT),
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """Which mistakes to make."""

    only: tuple[str, ...] = ()
    """Those with one of these words in their description. Default: all."""
    workers: int = 2


def place_of(piece: str, sources: dict[Path, str]) -> Path | None:
    """The one file with this piece of code, once."""
    places = [path for path, text in sources.items() for _ in range(text.count(piece))]
    return places[0] if len(places) == 1 else None


def first_failure(tree: Path, tests: tuple[str, ...], workers: int) -> str | None:
    """The first test that fails in this tree, or None."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", str(workers), *tests]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(tree / "src"), str(tree)))}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].partition(" - ")[0] if lines else f"pytest ended with {done.returncode}"


def main(options: Options) -> None:
    chosen = [m for m in MISTAKES if not options.only or any(word in m.about for word in options.only)]
    missed = []
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place, "asymrl")
        kept = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, kept.split("\0")):
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, tree / name)
        sources = {path: path.read_text() for path in (tree / "src").rglob("*.py")}
        for mistake in chosen:
            begin, path = time.monotonic(), place_of(mistake.right, sources)
            if path is None:
                result = "CANNOT BE MADE: the code has changed"
            else:
                path.write_text(sources[path].replace(mistake.right, mistake.wrong))
                result = first_failure(tree, mistake.tests, options.workers) or "NOT FOUND"
                path.write_text(sources[path])
            if result.isupper() or result.startswith("CANNOT"):
                missed.append(mistake.about)
            print(f"{mistake.about}: {result} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} found")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main(tyro.cli(Options))
