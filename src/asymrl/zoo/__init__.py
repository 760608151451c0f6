"""Trained agents that ship with the package: one for each world of the paper that has been trained so far.

    >>> agent = asymrl.zoo.load("heaven-hell-3")
    >>> agent.card.command
    >>> agent.evaluate()

`names()` lists them. Each is a store with one finished run, in `agents/NAME`: actor and critic in eight bits a weight,
learning curve and settings, but no state of the optimisers.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from asymrl.api.loaded import Runs
from asymrl.reading import read_json
from asymrl.runs.description import AGENTS, shipped_agents
from asymrl.runs.files import RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asymrl.runs.callback import Callback
    from asymrl.runs.placement import Pace, Placement

CARD_FILE = "card.json"


class Card(NamedTuple):
    """How good an agent is, and how it was trained."""

    returns: float
    """Mean return over the episodes of its evaluation, without discount, with sampled actions."""
    error: float
    """Standard error of that mean."""
    greedy_returns: float
    """Mean return if the most likely action is taken each time."""
    greedy_error: float
    length: float
    """Mean number of steps of these episodes."""
    episodes: int
    """Of the evaluation, which took place after training."""
    seed: int
    """Of the evaluation."""
    command: str
    """Trains this agent again."""
    seconds: float
    """How long its training took."""
    device: str
    """Where it was trained."""
    versions: dict[str, str]
    """Of asymrl and JAX, when it was trained."""


class ShippedAgent(Runs):
    """A trained agent that ships with the package. It can do what `Runs` can, except continue training."""

    def __init__(self, name: str, folder: Path):
        super().__init__(folder)
        self.name = name
        try:
            self.card = Card(**read_json(folder / CARD_FILE))
        except (OSError, ValueError, TypeError) as error:
            raise RunError(f"{folder / CARD_FILE}: damaged: {error}; install asymrl again") from error

    def plot(self, path: str | PathLike[str] | None = None, metric: str = "return") -> Path:
        """Draws the learning curve into a file, by default `NAME.png` in the current folder."""
        return super().plot(f"{self.name}.png" if path is None else path, metric)

    def resume(
        self,
        *,
        steps: int | None = None,
        display: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        pace: Pace | None = None,
        placement: Placement | None = None,
        current_code: bool = False,
    ) -> NoReturn:
        """Not possible: raises RunError, which says how to train such an agent."""
        del steps, display, callbacks, pace, placement, current_code
        raise RunError(f"{self.name}: a shipped agent cannot be trained on; `{self.card.command}` trains it again")


def names() -> list[str]:
    """The names of the shipped agents, which are the names of their worlds."""
    return shipped_agents()


def load(name: str) -> ShippedAgent:
    """The shipped agent of this world.

    Raises:
        RunError: if there is none; the message lists the agents that exist.
    """
    if name not in (agent_names := names()):
        raise RunError(f"there is no shipped agent {name!r}; there are {', '.join(agent_names)}")
    return ShippedAgent(name, AGENTS / name)


def folder_size(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def card_json(card: Card) -> bytes:
    """The contents of an agent's `card.json`."""
    data: dict[str, Any] = card._asdict()
    return (json.dumps(data, indent=1) + "\n").encode()
