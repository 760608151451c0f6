"""`asymrl doctor`: what does this machine have, how fast is it, and what is missing?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Doctor:
    """Tell what device, versions and speeds this machine has, and what is missing; the status is 1 if that hurts."""

    quick: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Measure no speeds."""
    training: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Measure a small training, too; compiling it takes up to a minute the first time."""

    def run(self) -> int:
        from asymrl.cli.machine import cache_size, devices, extras, nvidia_gpus, problems, versions

        _section("versions", versions())
        _section("devices", devices())
        _section("compilation cache", cache_size())
        if not self.quick or self.training:
            from asymrl.cli.machine import speeds

            _section("speed", speeds(training=self.training))
        _section("optional packages", extras())
        found = problems(nvidia_gpus())
        for problem in found:
            print(f"problem: {problem}")
        if not found:
            print("nothing is wrong")
        return 1 if found else 0


def _section(title: str, lines: dict[str, str]) -> None:
    print(title)
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"  {name:<{width}}  {value}")
    print()
