"""What is said about a file that can not be read: where, what was found, what was expected."""

from __future__ import annotations

from dataclasses import dataclass


class FileError(ValueError):
    """A `.pomdp` file says something that can not be; the message gives file, line and column."""


@dataclass(frozen=True)
class Limits:
    """How large a problem may be. A header can promise anything; what is promised is only made if it fits."""

    states: int = 1_000_000
    rows: int = 1 << 22
    """Pairs of a state and an action."""
    entries: int = 1 << 25
    """Probabilities that are not zero, in each table and in the joint outcomes."""


@dataclass(frozen=True)
class Source:
    """The text of a file, to say where in it something stands."""

    name: str
    text: str

    def error(self, offset: int, problem: str) -> FileError:
        """An error at this character of the text."""
        before = self.text.count("\n", 0, offset)
        column = offset - (self.text.rfind("\n", 0, offset) + 1)
        return FileError(f"{self.name}, line {before + 1}, column {column + 1}: {problem}")
