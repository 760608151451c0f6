"""Makes entries of `asymrl.zoo` from stores whose networks were kept: `python scripts/make_zoo.py STORE...`.

For each world in the stores, the finished run of the method with the best return is evaluated and written without the
state of its optimisers. An entry that is there already is replaced.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import tyro

from asymrl.api.wanted import settings_for
from asymrl.runs.arrays import quantised
from asymrl.runs.evaluation import evaluate
from asymrl.runs.files import RunError, write_whole
from asymrl.runs.runs import Run
from asymrl.runs.sessions import sessions
from asymrl.runs.states import without_training_state
from asymrl.runs.store import Store
from asymrl.runs.tables import COMPLETE, RUNS_FILE, SOLVED, read_table
from asymrl.runs.trained import load_trained
from asymrl.runs.wording import estimate, size_text
from asymrl.settings import names_of
from asymrl.settings.run_settings import ZOO
from asymrl.zoo import AGENTS, CARD_FILE, Card, card_json, folder_size

EPISODES, SEED = 1000, 0  # of the evaluation whose result an entry states


class Finalist(NamedTuple):
    """A finished run of a store."""

    store: Store
    number: int
    score: tuple[float, float]
    """Its final return, and minus the length of its last episodes: among equal returns, shorter episodes win."""

    @property
    def run(self) -> Run:
        return self.store.runs[self.number]


def best_by_world(folders: Sequence[Path], method: str) -> dict[str, Finalist]:
    """The best finished run of a method in each world of some stores.

    Raises:
        RunError: if a folder holds no runs, or there is no finished run of the method.
    """
    best: dict[str, Finalist] = {}
    for store in map(Store.open, folders):
        finals = dict(read_table(store.path, RUNS_FILE).select("run", "final_return").rows())
        for number, result in store.results().items():
            settings = store.runs[number].settings
            if result.status not in (COMPLETE, SOLVED) or settings.method != method:
                continue
            if settings.start_from is not None and not settings.start_from.startswith(ZOO):
                continue  # it could not be trained again elsewhere
            # 100 episodes are too few where an exit gives 5 or -5.
            final = result.recent_return if (mean := finals.get(number)) is None else mean
            finalist = Finalist(store, number, (final, -result.recent_length))
            if settings.world not in best or finalist.score > best[settings.world].score:
                best[settings.world] = finalist
    if not best:
        raise RunError(f"{', '.join(map(str, folders))}: no finished run of {method}")
    return best


def pack(
    folders: Sequence[Path], out: Path = AGENTS, method: str = "a2c-asym-hs", episodes: int = EPISODES
) -> dict[str, Card]:
    """Writes an entry for each world of some stores: the best finished run, without its training state.

    The networks are rounded to eight bits a weight, and then evaluated. An existing entry is replaced.

    Args:
        folders: stores that kept the networks of their runs.
        out: the folder of the entries.
        method: of the runs.
        episodes: of the evaluation.

    Returns:
        The cards of the new entries, by world.
    """
    cards = {}
    for world, finalist in best_by_world(folders, method).items():
        entry = _written(finalist, out / world)
        cards[world] = _card(finalist, entry, episodes)
        write_whole(out / world / CARD_FILE, card_json(cards[world]))
    return cards


def train_command(run: Run) -> str:
    """The command that trains a run."""
    settings = run.settings
    usual = settings_for(settings.world, settings.method)
    words = ["asymrl", "train", settings.world, "--method", settings.method]
    for name in names_of(type(settings)):
        if (value := getattr(settings, name)) == getattr(usual, name):
            continue
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", *map(str, value if isinstance(value, tuple) else [value])]
    return shlex.join([*words, "--seed-list", str(run.seed)])


def _card(finalist: Finalist, entry: Store, episodes: int) -> Card:
    (trained,) = load_trained(entry)
    (evaluation,) = evaluate(trained, episodes=episodes, seed=SEED)
    (greedy,) = evaluate(trained, episodes=episodes, seed=SEED, greedy=True)
    result, recorded = finalist.store.results()[finalist.number], sessions(finalist.store.path)
    return Card(
        returns=evaluation.returns.mean,
        error=evaluation.returns.error,
        greedy_returns=greedy.returns.mean,
        greedy_error=greedy.returns.error,
        length=evaluation.length.mean,
        episodes=episodes,
        seed=SEED,
        command=train_command(finalist.run),
        seconds=round(result.seconds, 1),
        device=result.device or "unknown",
        versions=recorded[-1]["versions"] if recorded else {},
    )


def _written(finalist: Finalist, folder: Path) -> Store:
    (saved,) = (saved for _, saved in finalist.store.saved([finalist.number]))
    result = finalist.store.results()[finalist.number]._replace(probe_timesteps=None, probe_values=None)
    if folder.exists():
        shutil.rmtree(folder)
    entry = Store.create(folder, [finalist.run])
    try:
        entry.write_tables({0: result})
        networks = without_training_state(saved)
        entry.save(networks._replace(arrays=quantised(networks.arrays)), "zoo")
    finally:
        entry.release()
    (folder / ".lock").unlink()
    return entry


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
