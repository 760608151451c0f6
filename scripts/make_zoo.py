"""Makes entries of `asymrl.zoo` from stores whose networks were kept: `python scripts/make_zoo.py STORE...`.

For each world in the stores, the finished run of the method with the best return is evaluated and written without the
state of its optimisers. An entry that is there already is replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from asymrl.runs.wording import estimate, size_text
from asymrl.zoo.packing import EPISODES, pack
from asymrl.zoo.shipped import AGENTS, folder_size


@dataclass(frozen=True)
class MakeZoo:
    """Make entries of the zoo from stores with trained runs."""

    stores: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="STORE ...")]
    """Folders of runs that kept their networks."""

    method: str = "a2c-asym-hs"
    """Method of the runs to choose from."""

    episodes: int = EPISODES
    """Episodes of the evaluation."""

    out: Path = AGENTS
    """Folder of the entries."""

    def run(self) -> None:
        for world, card in pack(self.stores, self.out, self.method, self.episodes).items():
            size = size_text(folder_size(self.out / world))
            print(f"{world}: return {estimate(card.returns, card.error, 3)}, {size}, {card.command}")


if __name__ == "__main__":
    tyro.cli(MakeZoo).run()
