"""How cells become batches."""

from __future__ import annotations

import math
import os

import hypothesis.strategies as st
import jax
import pytest
from asymrl.sweeps.cells import Cell, cells_of, product
from asymrl.sweeps.compiled import CompiledCache
from asymrl.sweeps.engine import halves
from asymrl.sweeps.planner import Measured, Sizes, choose_size, even_sizes, fixed_size, plan
from hypothesis import given

from asymrl.learning.settings import Settings


def machine(fastest: int, bytes_per_run: int = 10):
    """A device whose speed grows with the batch up to a size, and then no more; and a list of what was tried."""
    tried: list[int] = []

    def measure(size: int) -> Measured:
        tried.append(size)
        return Measured(1000.0 * min(size, fastest), bytes_per_run * size)

    return measure, tried


def test_few_cells_are_one_batch_without_a_measurement():
    measure, tried = machine(1)
    assert (choose_size(20, measure, math.inf, 24), tried) == (20, [])


def test_batches_grow_while_they_get_faster():
    measure, tried = machine(fastest=300)
    assert choose_size(5000, measure, math.inf, 24) == 384
    assert tried == [24, 96, 384, 1536]


def test_measuring_ends_with_the_time_for_it():
    measure, tried = machine(fastest=300)
    assert choose_size(5000, measure, math.inf, 24, lambda: len(tried) == 2) == 96
    assert tried == [24, 96]
    assert choose_size(5000, measure, math.inf, 24, lambda: True) == 24
    assert tried == [24, 96]


def test_a_cpu_has_two_runs_per_core_and_measures_nothing():
    (device,) = jax.local_devices(backend="cpu")[:1]
    sizes = Sizes(CompiledCache(), device, 1, lambda said: pytest.fail(f"measured: {said}"))
    cells = product(["tiger"], ["a2c"], {}, range(100), lambda *_: {})
    assert sizes(cells, lambda: False) == 2 * (os.cpu_count() or 1)


def test_batches_stay_within_memory():
    measure, _ = machine(fastest=10_000, bytes_per_run=10)
    assert choose_size(5000, measure, 3000.0, 24) == 300
    # A first batch that is too large already is as small as it gets; the engine halves it if it does not fit.
    assert choose_size(5000, measure, 100.0, 24) == 24


@given(cells=st.integers(1, 3000), most=st.integers(1, 500), devices=st.integers(1, 8))
def test_even_sizes_hold_all_cells_and_waste_few(cells: int, most: int, devices: int):
    count, size = even_sizes(cells, most, devices)
    assert size <= most
    assert count * size >= cells
    assert count * size - cells < count


def test_a_plan_has_every_cell_once_and_long_ones_first():
    axes = {"actor_rate": [1e-3, 1e-4], "steps": [100, 300]}
    cells = product(["tiger", "good-bad"], ["a2c", "a2c-asym-s"], axes, range(5), lambda *_: {})
    tasks = plan(cells, [], fixed_size(8))
    assert sorted(map(str, cells)) == sorted(str(cell) for task in tasks for cell in cells_of(task.batch))
    # Twenty cells of each program in three batches of at most seven.
    assert [(len(task.batch), task.width) for task in tasks].count((7, 7)) == 8
    longest = [max(settings.steps for settings in task.batch.settings) for task in tasks]
    assert longest == sorted(longest, reverse=True)


def test_a_batch_that_does_not_fit_is_halved():
    cells = [Cell(Settings("tiger"), seed) for seed in range(5)]
    (task,) = plan(cells, [], fixed_size(5))
    parts = halves(task)
    assert [(part.batch.seeds, part.width) for part in parts] == [((0, 1, 2), 3), ((3, 4), 3)]


def test_axes_win_over_what_is_known_and_must_be_settings():
    known = {"actor_rate": 0.5, "critic_rate": 0.25}
    (cell,) = product(["tiger"], ["a2c"], {"actor_rate": [0.125]}, [3], lambda *_: known)
    assert (cell.settings.actor_rate, cell.settings.critic_rate, cell.seed) == (0.125, 0.25, 3)
    with pytest.raises(ValueError, match="did you mean 'memory'"):
        product(["tiger"], ["a2c"], {"memry": ["gru"]}, [0], lambda *_: {})
    with pytest.raises(ValueError, match="the axis steps has no values"):
        product(["tiger"], ["a2c"], {"steps": []}, [0], lambda *_: {})
