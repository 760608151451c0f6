"""asymrl: agents that act on what they have seen, with critics that train on what is true.

    >>> import asymrl
    >>> runs = asymrl.train("heaven-hell-3", method="a2c-asym-hs", seeds=5)
    >>> runs.evaluate()

`train`, `sweep`, `compare`, `tune` and `reproduce` train runs and keep them in a folder; `load(folder)` gives
them as `Runs`, `resume(folder)` continues them, and `zoo.load(name)` gives a trained agent that ships with asymrl.
`make` gives a world by its name, `from_gymnasium` and `from_gymnax` turn other environments into worlds, and `register`
names your own world. Every subpackage lists its public names in its docstring.

Importing this package is cheap and registers the worlds with Gymnasium; JAX is imported when it is first needed.
"""

from __future__ import annotations

import asymrl.startup  # noqa: F401  before the others, which take a while

# isort: split
from typing import TYPE_CHECKING, Any

from asymrl.envs.registration import register_worlds
from asymrl.envs.sources import SOURCES
from asymrl.envs.user_code import load_class
from asymrl.lazy import exports
from asymrl.worlds.allowed_code import load_classes_by
from asymrl.worlds.notebook import draw_worlds_by
from asymrl.worlds.registry import add_source

if TYPE_CHECKING:
    from asymrl import (
        draw as draw,
        envs as envs,
        export as export,
        learners as learners,
        nn as nn,
        report as report,
        runs as runs,
        theory as theory,
        worlds as worlds,
        zoo as zoo,
    )
    from asymrl.api import (
        Comparison as Comparison,
        Runs as Runs,
        compare as compare,
        load as load,
        reproduce as reproduce,
        resume as resume,
        sweep as sweep,
        train as train,
        tune as tune,
    )
    from asymrl.envs.gymnasium_world import from_gymnasium as from_gymnasium
    from asymrl.envs.gymnax_world import from_gymnax as from_gymnax
    from asymrl.envs.sources import register as register
    from asymrl.runs.policy import Policy as Policy
    from asymrl.settings import (
        A2CSettings as A2CSettings,
        DQNSettings as DQNSettings,
        PPOSettings as PPOSettings,
        Settings as Settings,
    )
    from asymrl.worlds.registry import make as make

__version__ = "0.1.0"

for _source in SOURCES:
    add_source(_source)
register_worlds()
load_classes_by(load_class)


@draw_worlds_by
def _first_picture(world: Any) -> bytes | None:
    from asymrl.draw.frame import first_picture  # drawing is imported when something is drawn

    return first_picture(world)


__getattr__, __dir__ = exports(__name__)
