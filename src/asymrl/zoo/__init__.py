"""Trained agents that ship with the package: one for each world of the paper that has been trained so far.

    >>> agent = asymrl.zoo.load("heaven-hell-3")
    >>> agent.card.command
    >>> agent.evaluate()

`names()` lists them. Each is a store with one finished run, in `agents/NAME`: actor and critic in eight bits a weight,
learning curve and settings, but no state of the optimisers. `pack` makes entries from stores with trained runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.zoo.packing import pack as pack
    from asymrl.zoo.shipped import Card as Card, ShippedAgent as ShippedAgent, load as load, names as names

__getattr__, __dir__ = exports(__name__)
