"""The settings of a run as options of `asymrl train`, those of all learners: which were given, and with what values."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import tyro

from asymrl.cli.parsing import default_hint, descriptions, typed
from asymrl.settings import SETTINGS, SETTINGS_TYPES

METHOD = """The learner and what its critic reads: a2c, a2c-asym-s, a2c-asym-hs, a2c-react-k with any k, such as
a2c-react-4, and the same with ppo; dqn, adqn, adqn-vr, adqn-state, adqn-state-vr, adqn-short, adqn-short-vr. Default:
a2c-asym-hs, or that of the preset."""
BASIC = ("method", "preset", "start_from", "steps", "stop_return", "discount", "time_limit", "action_repeat",
         "log_points", "evaluation_episodes", "evaluation_greedy", "precision")  # fmt: skip
NETWORK = ("actor_sees", "critic_sees", "draws", "observation_features", "state_features", "memory", "actor_memory",
           "critic_memory", "memory_size", "window", "hidden", "shared_memory")  # fmt: skip


def given_settings(name: str, settings: Iterable[str]) -> Any:
    """The type of a group of options: a dictionary that holds the settings that were given, and no others."""
    return TypedDict(name, {each: _option(each) for each in settings if each in SETTINGS}, total=False)  # pyright: ignore


def _option(name: str) -> Any:
    """The type of a setting, annotated with what it means, which learners have it and what they have by default."""
    learners = {learner: kind for learner, kind in SETTINGS_TYPES.items() if name in kind.__dataclass_fields__}
    defaults = {
        learner: each.default for learner, kind in learners.items() for each in fields(kind) if each.name == name
    }
    first = next(iter(learners.values()))
    text, usual = descriptions(first)[name], next(iter(defaults.values()))
    text = re.sub(r"\bNone:", "Default:" if usual is None else "none:", text)
    hint = default_hint(usual)
    if len(set(defaults.values())) > 1:
        hint = f"(default: {', '.join(f'{learner} {typed(default)}' for learner, default in defaults.items())})"
    if len(learners) < len(SETTINGS_TYPES):
        text = f"{', '.join(learners)}: {text}"
    if name == "method":
        text, hint = " ".join(METHOD.split()), ""
    return Annotated[typing.get_type_hints(first)[name], tyro.conf.arg(help=text, help_behavior_hint=hint)]


if TYPE_CHECKING:
    Basic = Learner = Network = dict[str, Any]
else:
    Basic = given_settings("Basic", BASIC)
    Network = given_settings("Network", NETWORK)
    Learner = given_settings("Learner", [name for name in SETTINGS if name not in ("world", *BASIC, *NETWORK)])
