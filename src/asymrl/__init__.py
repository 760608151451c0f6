"""asymrl: agents that act on what they have seen, with critics that train on what is true.

    >>> import asymrl
    >>> env = asymrl.make("heaven-hell-3")

Importing this package is cheap and registers the worlds with Gymnasium; JAX is imported when it is first needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from asymrl.adapters.gym.registration import register_worlds

if TYPE_CHECKING:
    from asymrl import theory as theory
    from asymrl import worlds as worlds
    from asymrl.adapters import gym as gym
    from asymrl.adapters.elsewhere import register as register
    from asymrl.adapters.gym.foreign import from_gymnasium as from_gymnasium
    from asymrl.adapters.gymnax import from_gymnax as from_gymnax
    from asymrl.learning.settings import Settings as Settings
    from asymrl.runs.policy import Policy as Policy
    from asymrl.training import Result as Result
    from asymrl.training import load as load
    from asymrl.training import resume as resume
    from asymrl.training import train as train
    from asymrl.worlds.registry import make as make

__version__ = "0.1.0"
__all__ = [
    "Policy",
    "Result",
    "Settings",
    "__version__",
    "from_gymnasium",
    "from_gymnax",
    "gym",
    "load",
    "make",
    "register",
    "resume",
    "theory",
    "train",
    "worlds",
]

_HOME = {
    "worlds": "asymrl.worlds",
    "gym": "asymrl.adapters.gym",
    "theory": "asymrl.theory",
    "make": "asymrl.worlds.registry:make",
    "register": "asymrl.adapters.elsewhere:register",
    "from_gymnasium": "asymrl.adapters.gym.foreign:from_gymnasium",
    "from_gymnax": "asymrl.adapters.gymnax:from_gymnax",
    "Policy": "asymrl.runs.policy:Policy",
    "Settings": "asymrl.learning.settings:Settings",
    "train": "asymrl.training:train",
    "resume": "asymrl.training:resume",
    "load": "asymrl.training:load",
    "Result": "asymrl.training:Result",
}

register_worlds()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'asymrl' has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted(__all__)
