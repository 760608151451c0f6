"""Lanes: the places of a program in which runs train, what the host knows of those runs, and how they move."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from asymrl.learners.program import Program, Trainer
from asymrl.learners.state import METRICS, RunState
from asymrl.runs.arrays import EXTRA, SavedRuns, filled_up
from asymrl.runs.interrupts import POOL_THREAD
from asymrl.runs.runs import Run
from asymrl.runs.statistics import recent_mean
from asymrl.runs.tables import COMPLETE, FAILED, SOLVED, TRAINING, RunResult

if TYPE_CHECKING:
    from asymrl.runs.callback import Probe


class Assignment(NamedTuple):
    """A run for a pool to train, from its beginning or from its saved state."""

    number: int
    run: Run
    saved: SavedRuns | None = None
    probe: Probe | None = None
    networks: Mapping[str, np.ndarray] | None = None
    """Arrays to begin with, by their names in the state of a run. None: all of them are new."""


class Retired(NamedTuple):
    """A run is over and has left its lane."""

    number: int
    result: RunResult
    saved: SavedRuns | None


class Failed(NamedTuple):
    """A run could not go on, and has left its lane; it can be tried again from where it was."""

    number: int
    reason: str
    """A line, and under it the traceback of the user's code if that is at fault."""
    saved: SavedRuns | None


class Snapshot(NamedTuple):
    """The small part of the states that the host looks at, `[lane, ...]`."""

    updates: Int[np.ndarray, "lane"]
    timesteps: Int[np.ndarray, "lane"]
    episodes: Int[np.ndarray, "lane"]
    logged: Int[np.ndarray, "lane"]
    solved: Bool[np.ndarray, "lane"]
    failed: Bool[np.ndarray, "lane"]
    recent_returns: Float[np.ndarray, "lane recent"]
    recent_lengths: Float[np.ndarray, "lane recent"]
    curve: Float[np.ndarray, "lane points metrics"]

    @classmethod
    def of(cls, states: RunState) -> Snapshot:
        """Waits for the states, and copies this part of them."""
        return cls(*jax.device_get([getattr(states, name) for name in cls._fields]))

    def recent_means(self, lane: int) -> tuple[float, float]:
        """Mean return and mean length of the last 100 episodes; NaN before the first."""
        episodes = int(self.episodes[lane])
        return recent_mean(self.recent_returns[lane], episodes), recent_mean(self.recent_lengths[lane], episodes)

    def curve_of(self, lane: int) -> Float[np.ndarray, "point metrics"]:
        """The points of a run so far; return and length are NaN before the first episode is over."""
        points = self.curve[lane, : min(int(self.logged[lane]), self.curve.shape[1])].copy()
        unended = points[:, METRICS.index("episode")] == 0
        for name in ("return", "length"):
            points[unended, METRICS.index(name)] = np.nan
        return points


@dataclass
class Lane:
    """One place of a program, with the run that trains in it."""

    number: int
    run: Run
    seconds: float = 0.0
    probe: Probe | None = None
    probe_timesteps: list[int] = field(default_factory=list)
    probe_values: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def of(cls, assignment: Assignment) -> Lane:
        if assignment.saved is None:
            return cls(assignment.number, assignment.run, probe=assignment.probe)
        extras = assignment.saved.extras()
        times = extras.get("probe_timesteps", np.zeros((1, 0), np.int32))[0]
        points = int((times >= 0).sum())
        values = list(extras["probe_values"][0, :points]) if points else []
        return cls(
            assignment.number,
            assignment.run,
            assignment.saved.seconds[0],
            assignment.probe,
            list(times[:points]),
            values,
        )

    def is_probe_due(self, timesteps: int) -> bool:
        return self.probe is not None and timesteps >= self.next_probe()

    def next_probe(self) -> int:
        """The step of the next measurement: the first multiple of `probe.every` after the last one."""
        assert self.probe is not None
        return (self.probe_timesteps[-1] // self.probe.every + 1) * self.probe.every if self.probe_timesteps else 0

    def result(self, snapshot: Snapshot, lane: int, device: str) -> RunResult:
        """The result of the run so far."""
        recent_return, recent_length = snapshot.recent_means(lane)
        status = self.status(snapshot, lane)
        return RunResult(
            status=status,
            timesteps=int(snapshot.timesteps[lane]),
            episodes=int(snapshot.episodes[lane]),
            updates=int(snapshot.updates[lane]),
            recent_return=recent_return,
            recent_length=recent_length,
            curve=snapshot.curve_of(lane),
            failure=_not_finite(snapshot, lane) if status == FAILED else None,
            seconds=self.seconds,
            device=device,
            probe_timesteps=np.asarray(self.probe_timesteps, np.int32) if self.probe else None,
            probe_values=np.asarray(self.probe_values, np.float32) if self.probe else None,
        )

    def status(self, snapshot: Snapshot, lane: int) -> str:
        if snapshot.failed[lane]:
            return FAILED
        if snapshot.solved[lane]:
            return SOLVED
        return COMPLETE if snapshot.timesteps[lane] >= self.run.settings.steps else TRAINING


def _not_finite(snapshot: Snapshot, lane: int) -> str:
    return (
        f"a loss, a gradient or a parameter was not finite at update {snapshot.updates[lane]} "
        f"(step {snapshot.timesteps[lane]}); a lower learning rate or clip_norm may help"
    )


def probe_arrays(lanes: Sequence[Lane]) -> dict[str, np.ndarray]:
    """The measurements of the lanes, filled up to the longest series: -1 marks missing times."""
    points = max(len(lane.probe_timesteps) for lane in lanes)
    width = next((len(value) for lane in lanes for value in lane.probe_values), 0)
    times, values = [], []
    for lane in lanes:
        times.append(filled_up(np.asarray([lane.probe_timesteps], np.int32), points))
        own = np.asarray(lane.probe_values, np.float32).reshape(1, -1, width)
        values.append(filled_up(own, points))
    return {f"{EXTRA}probe_timesteps": np.concatenate(times), f"{EXTRA}probe_values": np.concatenate(values)}


# All leaves are replaced in one compiled call: compiled leaf by leaf, so many small copies would take seconds.
@functools.partial(jax.jit, donate_argnums=0)
def scatter(states: Any, new: Any, rows: Int[np.ndarray, "new"]) -> Any:
    """The states with new ones in these rows; a row beyond the last lane is dropped."""
    return jax.tree.map(lambda old, leaf: old.at[rows].set(leaf, mode="drop"), states, new)


@eqx.filter_jit
def gather(states: RunState, rows: Int[np.ndarray, "lane"]) -> RunState:
    """The states of these rows."""
    return jax.tree.map(lambda leaf: leaf[rows] if eqx.is_array(leaf) else leaf, states)


def blank_states(like: Any, lanes: int, device: Any) -> Any:
    """States of zeros, `[lane, ...]`, to be filled."""

    def leaf(some: Any) -> Any:
        if jax.dtypes.issubdtype(some.dtype, jax.dtypes.prng_key):
            data = jax.random.key_data(some)
            return jax.random.wrap_key_data(jnp.zeros((lanes, *data.shape[1:]), data.dtype))
        return jnp.zeros((lanes, *some.shape[1:]), some.dtype)

    with jax.default_device(device):
        return jax.jit(lambda some: jax.tree.map(leaf, some))(like)


class Narrower:
    """A program for fewer lanes, compiled in a thread while the wider one trains."""

    def __init__(self, program: Program, lanes: int, device: Any):
        self.lanes, self._trainer = lanes, None
        self._is_abandoned = False
        name = f"{POOL_THREAD}narrower"
        self._thread = threading.Thread(target=self._make, args=(program, device), daemon=True, name=name)
        self._thread.start()

    def _make(self, program: Program, device: Any) -> None:
        try:
            self._trainer = program.open(self.lanes, device)
        except Exception:  # then the wider one goes on
            self._trainer = None
        if self._is_abandoned:
            self.abandon()

    @property
    def is_ready(self) -> bool:
        return not self._thread.is_alive()

    def trainer(self) -> Trainer | None:
        return self._trainer

    def abandon(self) -> None:
        """Closes the program, once it is compiled: it is not needed any more."""
        self._is_abandoned = True
        if (trainer := self._trainer) is not None:
            trainer.close()


def narrower_width(width: int, active: int) -> int:
    """The narrowest width with room for the runs: `width`, three quarters of it, three quarters of that and so on."""
    while (less := 3 * width // 4) >= active:
        width = less
    return width
