"""Runs: products of worlds, methods, settings and seeds, and which lists of runs are refused."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from dataclasses import fields, replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from asymrl.runs import runs as run_lists
from asymrl.runs.files import RunError
from asymrl.runs.runs import (
    Run,
    check_beginnings,
    check_runs,
    differing,
    from_json,
    full_label,
    label,
    product,
    to_json,
)
from asymrl.settings import A2CSettings, new_settings
from tests.runs.engine.conftest import tiny


def test_a_product_has_every_run_once():
    axes = {"actor_rate": [1e-3, 1e-4], "steps": [100, 300]}
    runs = product(["tiger", "good-bad"], ["a2c", "a2c-asym-s"], axes, range(5), lambda *_: {})
    assert len(set(runs)) == len(runs) == 2 * 2 * 2 * 2 * 5
    # Learning rates and lengths are numbers, so one program trains them together.
    groups = Counter(run.settings.shape() for run in runs)
    assert {(shape.world, shape.method): count for shape, count in groups.items()} == {
        (world, method): 20 for world in ("tiger", "good-bad") for method in ("a2c", "a2c-asym-s")
    }


def test_axes_win_over_what_is_known_and_must_be_settings():
    known = {"actor_rate": 0.5, "critic_rate": 0.25}
    (run,) = product(["tiger"], ["a2c"], {"actor_rate": [0.125]}, [3], lambda *_: known)
    assert (run.settings.actor_rate, run.settings.critic_rate, run.seed) == (0.125, 0.25, 3)
    for axes, message in (
        ({"memry": ["gru"]}, "did you mean 'memory'"),
        ({"steps": []}, "the axis steps has no values"),
        ({"world": ["tiger"]}, "world is not an axis of settings: name the worlds of the sweep"),
    ):
        with pytest.raises(ValueError, match=message):
            product(["tiger"], ["a2c"], axes, [0], lambda *_: {})


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], "no runs: choose at least one seed"),
        ([Run(tiny(), -1)], "seed -1: choose a whole number from 0"),
        ([Run(tiny(), 2**32)], "seed 4294967296: choose a whole number from 0 to 4294967295"),
        ([Run(tiny(), 1), Run(tiny(), 1)], "2 runs have seed 1 and the same settings"),
        # One of them is the other's beginning.
        ([Run(tiny(), 1), Run(tiny(steps=24_000), 1)], "2 runs have seed 1 and the same settings"),
    ],
)
def test_lists_of_runs_that_make_no_sense_are_refused(runs: list[Run], message: str):
    with pytest.raises(ValueError, match=message):
        check_runs(runs)


def test_a_prefill_fits_into_the_replay_and_ends_before_the_run():
    for name in ("a2c", "ppo"):
        check_beginnings([Run(new_settings(method=name, steps=500), 0)])
    check_beginnings([Run(new_settings(method="adqn", steps=501, prefill=500), 0)])
    with pytest.raises(ValueError, match="prefill is 500 and steps is 500, so adqn would end before it learns"):
        check_beginnings([Run(new_settings(method="adqn", steps=500, prefill=500), 0)])
    check_beginnings([Run(new_settings(method="adqn", prefill=500, replay_steps=500), 0)])
    with pytest.raises(ValueError, match=r"prefill is 501, more than the replay holds \(replay_steps is 500\)"):
        check_beginnings([Run(new_settings(method="adqn", prefill=501, replay_steps=500), 0)])
    check_beginnings([Run(new_settings(steps=501, critic_first=500), 0)])
    with pytest.raises(ValueError, match="critic_first is 500 and steps is 500, so the actor would never learn"):
        check_beginnings([Run(new_settings(steps=500, critic_first=500), 0)])


SETTINGS = {
    "steps": st.sampled_from([100, 300]),
    "actor_rate": st.sampled_from([1e-3, 0.1, 1 / 3]),
    "clip_norm": st.sampled_from([None, 2.0]),
    "hidden": st.sampled_from([(4,), (8, 3)]),
    "memory": st.sampled_from(["gru", "lstm"]),
}


@given(drawn=st.lists(st.tuples(st.fixed_dictionaries(SETTINGS), st.integers(0, 2**32 - 1)), min_size=1, max_size=6))
def test_runs_are_written_and_read(drawn: list[tuple[dict[str, Any], int]]):
    runs = list({run.key: run for run in (Run(tiny(**settings), seed) for settings, seed in drawn)}.values())
    described = to_json(runs)
    assert from_json(described, "here") == tuple(runs)
    assert set(described["runs"][0]) == {"seed", *differing(runs)}


def test_runs_that_are_made_longer():
    run = Run(tiny(), 1)
    longer = run.extended(16_000)
    assert longer == Run(tiny(steps=16_000, log_points=40), 1)
    assert longer.key == run.key != Run(tiny(actor_rate=0.5), 1).key
    assert run.extended(12_000) == run
    with pytest.raises(RunError, match="was started with 12000 steps; it can only be made longer"):
        run.extended(11_999)


def test_names_for_people():
    run = Run(A2CSettings("tiger", "a2c", actor_rate=0.5, hidden=(4,)), 3)
    assert label(run, ("actor_rate",)) == "seed 3, actor_rate=0.5"
    assert full_label(run) == "tiger a2c hidden=(4,) actor_rate=0.5 seed=3"


def test_a_run_whose_learning_rate_ends_at_zero_is_not_made_longer():
    run = Run(new_settings(method="ppo", steps=1000, log_points=10), 0)
    with pytest.raises(RunError, match="falls to zero at 1000 steps"):
        run.extended(2000)
    assert Run(replace(run.settings, anneal=False), 0).extended(2000).settings.steps == 2000


def test_runs_of_several_learners_are_written_and_read_alike():
    """Each run has the settings of its learner, no more; what all share stands once."""
    runs = [
        Run(new_settings(method=name, world="tiger", steps=500), seed)
        for name in ("a2c", "ppo", "dqn")
        for seed in (0, 1)
    ]
    data = json.loads(json.dumps(to_json(runs)))
    assert data["settings"]["world"] == "tiger"
    assert "streams" not in data["settings"]
    assert [("streams" in run, "replay_steps" in run) for run in data["runs"][::2]] == [(0, 0), (1, 0), (0, 1)]
    assert from_json(data, "here") == tuple(runs)
    assert {"method", "learning_rate"} <= set(differing(runs))
    assert "streams" not in differing(runs)


def test_a_setting_of_one_learner_is_tried_with_its_methods_only():
    runs = product(["tiger"], ["a2c", "ppo"], {"streams": [4, 8], "steps": [100]}, [0], lambda *_: {})
    assert [(run.settings.method, getattr(run.settings, "streams", None)) for run in runs] == [
        ("a2c", None),
        ("ppo", 4),
        ("ppo", 8),
    ]
    with pytest.raises(ValueError, match="prefill is a setting of dqn; a2c is trained by a2c"):
        product(["tiger"], ["a2c", "ppo"], {"prefill": [10]}, [0], lambda *_: {})


def test_runs_that_share_their_settings_are_read_once(monkeypatch: pytest.MonkeyPatch):
    """What a store of 300 000 runs takes to be read depends on how many settings it has."""
    made = []
    monkeypatch.setattr(run_lists, "new_settings", lambda **values: made.append(1) or new_settings(**values))
    runs = run_lists.from_json({"settings": {"world": "tiger"}, "runs": [{"seed": i} for i in range(20_000)]}, "here")
    assert (len(runs), len(made)) == (20_000, 1)
    assert runs[0].settings is runs[-1].settings
    assert runs[0].settings.shape() is runs[-1].settings.shape()


def test_more_settings_than_a_store_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_lists, "MOST_KINDS", 2)
    each = [{"seed": 0, "actor_rate": rate} for rate in (0.1, 0.2, 0.3)]
    with pytest.raises(RunError, match=r"^here: 3 different settings; a store holds runs of at most 2$"):
        run_lists.from_json({"settings": {}, "runs": each}, "here")
    assert len(run_lists.from_json({"settings": {}, "runs": each[:2]}, "here")) == 2


def test_settings_are_the_same_in_another_process():
    """Their hash is remembered, but not passed on: it differs between processes."""
    settings = A2CSettings("tiger", "a2c", critic_rate=0.25)
    assert hash(settings) == hash(A2CSettings("tiger", "a2c", critic_rate=0.25)) == hash(replace(settings))
    assert settings.shape() == A2CSettings("tiger", "a2c", actor_rate=0.5).shape()
    other = pickle.loads(pickle.dumps(settings))
    assert other == settings
    assert other.__dict__.keys() == {each.name for each in fields(A2CSettings)}
