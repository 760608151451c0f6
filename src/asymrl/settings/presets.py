"""Presets: settings that work for a kind of problem that the paper does not have, each chosen by measuring.

`docs/how-to/presets.md` has what each of them reached in other people's environments.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple

from asymrl.settings.methods import method


class Preset(NamedTuple):
    """Settings by their names, and what they are good for."""

    method: str
    """The one that is trained unless another is given."""
    purpose: str
    """The kind of problem, in a line."""
    values: Mapping[str, Any]

    @property
    def learner(self) -> str:
        return method(self.method).learner


_PPO = {"streams": 16, "rollout": 64, "epochs": 4, "minibatches": 4, "memory_size": 64, "hidden": (64,)}
_CONTROL = {"streams": 8, "epochs": 10, "minibatches": 2, "entropy_weight": 0.0}

PRESETS: dict[str, Preset] = {
    "ppo-small": Preset(
        "ppo",
        "a few numbers per observation, discrete actions: CartPole without velocities",
        {**_PPO, **_CONTROL, "learning_rate": 1e-3, "discount": 0.98, "gae_lambda": 0.9},
    ),
    "ppo-control": Preset(
        "ppo",
        "continuous actions, rewards of any size: Pendulum without velocity",
        {
            **_PPO,
            **_CONTROL,
            **{"learning_rate": 2e-3, "discount": 0.95, "gae_lambda": 0.95},
            **{"normalise_rewards": True, "clip_values": False},
        },
    ),
    "ppo-memory": Preset(
        "ppo",
        "symbols to remember over many steps: T-maze, POPGym",
        {**_PPO, **{"rollout": 128, "epochs": 8, "minibatches": 8, "learning_rate": 1e-3, "entropy_weight": 0.01}},
    ),
    "ppo-grid": Preset(
        "ppo",
        "grids of symbols to explore and to remember: MiniGrid",
        {
            **_PPO,
            **{"streams": 64, "rollout": 32, "hidden": (128,), "learning_rate": 1e-3, "entropy_weight": 0.03},
            **{"normalise_observations": True},
        },
    ),
    "ppo-image": Preset(
        "ppo",
        "small images, discrete actions: MiniGrid in pixels",
        {**_PPO, "learning_rate": 5e-4, "entropy_weight": 0.01, "shared_memory": True},
    ),
    "a2c-short": Preset(
        "a2c",
        "short episodes, few steps: T-maze, .pomdp files",
        {
            **{"episodes": 8, "estimator": "td-lambda", "td_lambda": 0.9, "target_period": 1_000},
            **{"memory_size": 64, "hidden": (64,), "entropy_weight": 0.03, "entropy_steps": 2e5},
        },
    ),
}


def preset_named(name: str) -> Preset:
    """The preset with this name. Raises ValueError if there is none."""
    if name not in PRESETS:
        close = difflib.get_close_matches(name, PRESETS, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(PRESETS)}"
        raise ValueError(f"unknown preset {name!r}; {hint}")
    return PRESETS[name]


def preset_values(name: str | None, wanted: str) -> dict[str, Any]:
    """The settings of a preset, or none, for a method.

    Raises:
        ValueError: if there is no such preset, or it is one of another learner.
    """
    if name is None:
        return {}
    preset = preset_named(name)
    if method(wanted).learner != preset.learner:
        raise ValueError(
            f"preset {name} has settings of {preset.learner}, but {wanted} is trained by {method(wanted).learner}; "
            f"choose a method such as {preset.method}, or another preset"
        )
    return {**preset.values, "preset": name}
