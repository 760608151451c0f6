"""Settings: what is refused, and what makes two runs share a program."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import jax
import numpy as np
import pytest

from asymrl.learners.numbers import numbers_of, stack_numbers
from asymrl.learners.program import program
from asymrl.settings import MOST_STEPS, A2CSettings, DQNSettings, PPOSettings, new_settings, settings_type
from asymrl.settings.methods import DQN_METHODS, METHODS, PAPER_METHODS, method

# Another value for every field. Those of the first table are numbers of the program, those of the second its shape.
OTHER_NUMBERS: dict[str, Any] = {
    "steps": 5_000,
    "stop_return": 3.0,
    "actor_rate": 0.5,
    "critic_rate": 0.25,
    "adam_eps": 0.125,
    "adam_beta2": 0.5,
    "clip_norm": 2.0,
    "entropy_weight": 4.0,
    "entropy_end": 8.0,
    "entropy_steps": 16.0,
    "discount": 0.75,
    "td_lambda": 0.0625,
    "target_period": 32,
    "critic_first": 64,
    "polyak": 0.375,
}
OTHER_SHAPES: dict[str, Any] = {
    "world": "tiger",
    "method": "a2c",
    "entropy_schedule": "constant",
    "episodes": 3,
    "time_limit": 50,
    "action_repeat": 2,
    "bootstrap_truncated": True,
    "normalise_observations": True,
    "normalise_rewards": True,
    "estimator": "mc",
    "td_n": 4,
    "target": "polyak",
    "actor_sees": "grid",
    "critic_sees": "heaven-side",
    "observation_features": "features.py:Glyphs",
    "state_features": "features.py:Truth",
    "memory": "lstm",
    "actor_memory": "gru",
    "critic_memory": "none",
    "memory_size": 64,
    "window": 3,
    "hidden": (32,),
    "log_points": 100,
    "evaluation_episodes": 5,
    "evaluation_greedy": False,
    "precision": "tf32",
}


def test_every_setting_is_a_number_or_a_shape_or_a_label():
    assert sorted([*OTHER_NUMBERS, *OTHER_SHAPES, "preset", "start_from"]) == sorted(
        field.name for field in fields(A2CSettings)
    )


@pytest.mark.parametrize("name", OTHER_NUMBERS)
def test_a_number_changes_the_numbers_and_not_the_program(name: str):
    other = replace(A2CSettings(), **{name: OTHER_NUMBERS[name]})
    assert other.shape() == A2CSettings().shape()
    assert program(other) is program(A2CSettings())
    assert float(getattr(numbers_of(other), name)) == OTHER_NUMBERS[name]
    assert float(getattr(numbers_of(A2CSettings()), name)) != OTHER_NUMBERS[name]


@pytest.mark.parametrize("name", OTHER_SHAPES)
def test_anything_else_changes_the_program(name: str):
    other = replace(A2CSettings(), **{name: OTHER_SHAPES[name]})
    assert other.shape() != A2CSettings().shape()
    assert getattr(other.shape(), name) == OTHER_SHAPES[name]


def test_what_follows_from_other_settings():
    numbers = numbers_of(replace(A2CSettings(), entropy_weight=0.5, steps=1_000, log_points=200))
    np.testing.assert_allclose(numbers.entropy_end, 0.05, rtol=1e-6)
    assert int(numbers.log_period) == 5
    assert int(numbers_of(replace(A2CSettings(), steps=10, log_points=200)).log_period) == 1
    assert np.isinf(numbers_of(A2CSettings()).clip_norm)


def test_numbers_are_stacked_by_run():
    batch = stack_numbers([A2CSettings(), replace(A2CSettings(), discount=0.5)])
    assert {leaf.shape for leaf in jax.tree.leaves(batch)} == {(2,)}
    np.testing.assert_allclose(batch.discount, [0.99, 0.5], rtol=1e-6)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"method": "a3c"}, "unknown method 'a3c'; did you mean 'a2c'? choose one of a2c, a2c-asym-s"),
    ({"method": "ppo"}, "ppo is trained with PPOSettings, not with A2CSettings"),
    ({"method": "a2c-react-0"}, "unknown method 'a2c-react-0'"),
    *[
        ({name: value}, f"{name} is {value}; it must be a positive number")
        for name in ("steps", "actor_rate", "critic_rate", "adam_eps", "entropy_steps", "episodes", "time_limit",
                     "td_n", "target_period", "log_points", "memory_size")
        for value in (0, -1)
    ],
    ({"actor_rate": float("nan")}, "actor_rate is nan; it must be a positive number"),
    ({"critic_rate": float("inf")}, "critic_rate is inf; it must be a positive number"),
    *[
        ({name: value}, f"{name} is {value}; it must lie between 0 and 1")
        for name in ("discount", "adam_beta2", "td_lambda", "polyak")
        for value in (-0.1, 1.1, float("nan"))
    ],
    ({"adam_beta2": 1.0}, "adam_beta2 is 1; with it, no gradient would count: choose less"),
    ({"entropy_weight": -1.0}, "entropy_weight is -1.0; it must be 0 or a positive number"),
    ({"entropy_weight": float("nan")}, "entropy_weight is nan; it must be 0 or a positive number"),
    ({"entropy_end": -1.0}, "entropy_end is -1.0; it must be 0 or a positive number"),
    ({"evaluation_episodes": -1}, "evaluation_episodes is -1; it must be 0 or a positive number"),
    ({"clip_norm": 0.0}, "clip_norm is 0.0; it must be a positive number, or none"),
    ({"clip_norm": float("nan")}, "clip_norm is nan; it must be a positive number, or none"),
    ({"steps": MOST_STEPS + 1}, f"steps is {MOST_STEPS + 1}; a run can have at most {MOST_STEPS}"),
    ({"target_period": 10**10}, f"target_period is 10000000000; a run can have at most {MOST_STEPS} steps"),
    ({"memory": "transformer"}, "memory 'transformer' is not one of gru, lstm, none"),
    ({"window": 0}, "window 0: remember at least 1 pair, or none for the whole episode"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "message"), REFUSED, ids=lambda value: str(value) if isinstance(value, dict) else "")
def test_what_can_not_be_is_refused(wrong: dict[str, Any], message: str):
    with pytest.raises(ValueError) as refusal:
        A2CSettings(**wrong)
    assert message in str(refusal.value)


def test_methods_differ_in_what_the_critic_reads_and_how_long_the_memory_is():
    told = {name: (method(name).reads, method(name).window) for name in PAPER_METHODS}
    assert told == {
        "a2c": ("h", None),
        "a2c-asym-s": ("s", None),
        "a2c-asym-hs": ("hs", None),
        "a2c-react-2": ("h", 2),
        "a2c-react-4": ("h", 4),
    }
    assert method("a2c-react-7").window == 7
    assert {name: method(name).reads for name in DQN_METHODS} == {
        "dqn": "h",
        "adqn": "hs",
        "adqn-vr": "hs",
        "adqn-state": "s",
        "adqn-state-vr": "s",
        "adqn-short": "hs",
        "adqn-short-vr": "hs",
    }


def test_a_method_decides_which_learner_has_the_settings():
    kinds = {"a2c": A2CSettings, "ppo": PPOSettings, "dqn": DQNSettings}
    for name in METHODS:
        assert settings_type(name) is kinds[method(name).learner]
        assert type(new_settings(method=name)) is kinds[method(name).learner]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "a2c", "streams": 8}, "streams is a setting of ppo; a2c is trained by a2c, so leave it out"),
        ({"method": "ppo", "target": "polyak"}, "target is a setting of a2c and dqn; ppo is trained by ppo"),
        ({"method": "adqn", "colour": 1}, "colour is no setting; adqn is trained by dqn"),
        ({"method": "adqn", "prefill": 10**10}, "prefill is 10000000000; a run can have at most"),
        ({"method": "adqn", "replay_steps": 10**10}, "replay_steps is 10000000000; a run can have at most"),
        ({"method": "ppo", "value_weight": float("nan")}, "value_weight is nan; it must be 0 or a positive number"),
        (
            {"method": "ppo", "streams": 2**13, "rollout": 2**8, "steps": MOST_STEPS},
            f"with 8192 streams of 256 steps, a run can have at most {2**31 - 1 - 2**21}",
        ),
        ({"method": "ppo", "streams": 6}, "minibatches is 4; it must divide streams, which is 6"),
    ],
)
def test_settings_that_a_learner_cannot_use_are_refused(given: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        new_settings(**given)


def test_a_window_of_ones_own_goes_before_that_of_the_method():
    assert A2CSettings(method="a2c-react-4").architecture.window == 4
    assert A2CSettings(method="a2c-react-4", window=9).architecture.window == 9
    assert A2CSettings(method="a2c-asym-hs", window=1).architecture.window == 1
