"""`asymrl envs`: which worlds there are; and `asymrl check`: does a world keep its promises?"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from asymrl.cli.output import print_json
from asymrl.cli.usage import AsJson, EnvArgs, WorldName, full_world, world_named
from asymrl.envs.registration import gymnasium_id
from asymrl.settings.hyperparameters import PAPER_WORLDS
from asymrl.worlds.registry import WORLDS

if TYPE_CHECKING:
    from rich.table import Table

    from asymrl.worlds import World
    from asymrl.worlds.spaces import Space

NARROWEST, WIDE = 78, 116  # columns that the table needs, and those it needs with the names in Gymnasium

NOTES = """\
Sizes: a number of indices, R^n for a vector of n floats, HxW for a grid.
Returns: undiscounted, up to the limit; ~ is simulated, a .. b are proven bounds.
Any size: heaven-hell-N, shopping-N, memory-four-rooms-HxW (H and W odd),
  t-maze-N, rock-sample-N-K.
Options: after a colon, as in cleaner:maze_seed=7 or tiger:episodic=true."""


@dataclass(frozen=True)
class Envs:
    """List the worlds: sizes, discount, time limit, returns of a random and the best policy.

    For each world given, also what a critic may see there (--critic-sees).

      asymrl envs
      asymrl envs heaven-hell-6 tiger
    """

    worlds: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="WORLD")] = ()
    """Show only these, of any size and with any options, such as heaven-hell-6. By default all named worlds."""

    json: AsJson = False

    def run(self) -> int:
        worlds = [_describe(name) for name in self.worlds or WORLDS]
        if self.json:
            print_json(worlds)
            return 0
        from asymrl.runs.display import plain_console

        console = plain_console()
        console.width = max(console.width, NARROWEST)  # a number cut short would be a wrong number
        console.print(_table(worlds, wide=console.width >= WIDE))
        for world in worlds if self.worlds else ():
            console.print(f"\nWhat a critic may see in {world['name']}, one or several joined by +:")
            for name, meaning in world["signals"].items():
                console.print(f"  {name:16}{meaning}")
        console.print(f"\n{NOTES}", style="dim")
        return 0


@dataclass(frozen=True)
class Check:
    """Show how asymrl reads a world, and what is wrong with it; the exit status is 1 if something is.

    In a Python environment it plays episodes with random actions, some of them twice.

      asymrl check light.py:Light
    """

    world: WorldName

    env_args: EnvArgs = None

    seed: int = 0
    """Seed of the episodes that are examined."""

    json: AsJson = False

    def run(self) -> int:
        answer = self._answer()
        if self.json:
            print_json(answer)
        for problem in answer["problems"]:
            print(f"asymrl: {problem}", file=sys.stderr)
        if answer["traceback"]:
            print(answer["traceback"], file=sys.stderr)
        return 1 if answer["problems"] else 0

    def _answer(self) -> dict[str, Any]:
        """What was found; prints it for people."""
        from asymrl.worlds import CheckError, SteppedWorld, UserCodeError, check, check_environment
        from asymrl.worlds.checking.world_facts import compiled_facts

        env = world_named(full_world(self.world, self.env_args))
        findings: dict[str, Any] = {"world": env.name, "facts": None, "passed": [], "notes": [], "problems": []}
        findings["traceback"] = ""
        try:
            if not isinstance(env, SteppedWorld):
                report = check(env, seed=self.seed)
                facts = compiled_facts(env, report.rewards)
                print(report, *facts.lines(), sep="\n")
                findings |= {"facts": facts._asdict(), "passed": list(report.passed)}
                return findings | {"states": report.states, "pairs": report.pairs}
            checked = check_environment(env, seed=self.seed)
        except (CheckError, UserCodeError) as error:
            traceback = error.traceback if isinstance(error, UserCodeError) else ""
            return findings | {"problems": [_about(env, str(error))], "traceback": traceback}
        print(f"{env.name}: {checked.steps} steps in {checked.episodes} episodes examined")
        print(*(f"  ok  {rule}" for rule in checked.passed), *checked.facts.lines(), sep="\n")
        print(*(f"note: {note}" for note in checked.notes), sep="\n", end="\n" if checked.notes else "")
        findings |= {"facts": checked.facts._asdict(), "passed": list(checked.passed), "notes": list(checked.notes)}
        problems = [_about(env, each) for each in checked.problems]
        findings |= {"problems": problems, "traceback": checked.traceback}
        return findings | {"steps": checked.steps, "episodes": checked.episodes}


def _about(env: World, problem: str) -> str:
    return problem if problem.startswith(env.name) else f"{env.name}: {problem}"


def _describe(name: str) -> dict[str, Any]:
    from asymrl.theory.solvers.references import known_returns
    from asymrl.worlds.critic_inputs import critic_meanings

    env = world_named(name)
    reference = known_returns(name)
    returns = {} if reference is None else {who: asdict(score) for who, score in reference.undiscounted.items()}
    return {
        "name": name,
        "gymnasium": gymnasium_id(name) if name in WORLDS else None,
        "in_paper": name in PAPER_WORLDS,
        "kind": _kind(env),
        "states": _size(env.latent_space),
        "actions": _size(env.action_space),
        "observations": _observations(env),
        "discount": env.discount,
        "time_limit": env.time_limit,
        "returns": returns,
        "signals": critic_meanings(env),
    }


def _kind(env: World) -> str:
    """The paper's three kinds of representation."""
    from asymrl.worlds import Discrete, Record

    if isinstance(env.latent_space, Discrete):
        return "categorical"
    return "gridverse" if isinstance(env.latent_space, Record) else "feature-vector"


def _size(space: Space) -> Any:
    """A number for indices, one for each entry of a vector of them, a shape for an array, each part of a record."""
    from asymrl.worlds import Discrete, MultiDiscrete, Record

    if isinstance(space, Discrete):
        return space.n
    if isinstance(space, MultiDiscrete):
        return {"sizes": list(space.sizes)}
    if isinstance(space, Record):
        return {name: _size(part) for name, part in space.items()}
    return list(space.shape)


def _observations(env: World) -> Any:
    """Like `_size`, but as in the paper the symbol that some finite worlds show at reset is not counted."""
    from asymrl.worlds import FiniteWorld

    return len(env.observation_names) if isinstance(env, FiniteWorld) else _size(env.observation_space)


def _table(worlds: list[dict[str, Any]], *, wide: bool) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1 if wide else 0, 0, 0), show_edge=False)
    table.add_column("world", no_wrap=True, style="bold")
    for column in ("|S|", "|A|", "|O|", "discount", "limit", "random", "best"):
        table.add_column(column, justify="right", no_wrap=True)
    if wide:
        table.add_column("in Gymnasium", no_wrap=True)
    headings = [_heading(world) for world in worlds]
    group = None
    for heading, world in sorted(zip(headings, worlds, strict=True), key=lambda pair: headings.index(pair[0])):
        if heading != group:
            if group is not None:
                table.add_row()
            table.add_row(Text(heading, style="italic"), style="dim")
            group = heading
        cells = [world["name"], _short(world["states"]), _short(world["actions"]), _short(world["observations"])]
        cells += [f"{world['discount']:g}", str(world["time_limit"])]
        cells += [format_score(world["returns"].get(who)) for who in ("random", "best")]
        table.add_row(*cells, *([world["gymnasium"] or ""] if wide else []))
    return table


def _heading(world: dict[str, Any]) -> str:
    """What stands above worlds of one kind; those that the paper does not have come under a heading of their own."""
    beyond = not world["in_paper"] and world["gymnasium"] is not None
    return f"more: {world['kind']}" if beyond else world["kind"]


def _short(size: Any) -> str:
    if isinstance(size, int):
        return str(size)
    if isinstance(size, dict) and "sizes" in size:
        return "x".join(map(str, size["sizes"]))
    if isinstance(size, dict):
        return "x".join(map(str, size["grid"][:2])) if "grid" in size else f"{len(size)} parts"
    return f"R^{size[0]}" if len(size) == 1 else "x".join(map(str, size))


def format_score(entry: dict[str, Any] | None) -> str:
    """A return with two decimals: a number, an estimate, or an interval."""
    if entry is None:
        return "not computed"
    low, high = (f"{entry[end]:.2f}".rstrip("0").rstrip(".") for end in ("low", "high"))
    shown = low if low == high else f"{low} .. {high}"
    return f"~{shown}" if entry["kind"] == "Monte-Carlo" else shown
