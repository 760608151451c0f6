"""Everything that the command does, in plain Python, with no import deeper than `asymrl.<package>`."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl
import pytest
from PIL import Image

import asymrl
from asymrl.cli.command import COMMANDS

WORLD = "tiger:episodic=true"
TINY: dict[str, Any] = {
    "memory_size": 4, "hidden": (4,), "time_limit": 5, "steps": 240, "log_points": 4,
}  # fmt: skip
QUIET = asymrl.runs.Callback()


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> asymrl.Runs:
    """`asymrl train`."""
    out = tmp_path_factory.mktemp("api") / "runs"
    return asymrl.train(WORLD, "a2c", seeds=[3, 5], out=out, display=QUIET, **TINY)


def test_nothing_deeper_than_a_package_is_needed():
    """Of this file itself; `COMMANDS` is here to compare with."""
    tree = ast.parse(Path(__file__).read_text())
    imports = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    assert [name for name in imports if name.startswith("asymrl.")] == ["asymrl.cli.command"]
    from_python = {"train", "resume", "sweep", "compare", "reproduce"}
    assert from_python <= set(dir(asymrl)) & set(COMMANDS)


@pytest.mark.parametrize("package", ["", *(name for name in dir(asymrl) if name.islower())])
def test_every_name_that_is_listed_is_there(package: str):
    """The names of `dir` can be used, whatever was imported before; modules have a docstring that says what for."""
    module = getattr(asymrl, package) if package else asymrl
    if not hasattr(module, "__path__"):
        return
    assert module.__doc__
    for name in dir(module):
        assert getattr(module, name) is not None


def test_trained_runs_have_curves_and_a_table(runs: asymrl.Runs):
    assert len(runs) == 2
    assert [run.seed for run in runs.runs] == [3, 5]
    assert repr(runs).endswith("tiger:episodic=true · a2c · seeds 3 and 5 · 240 steps each)")
    assert runs.metrics.group_by("seed", maintain_order=True).len()["len"].to_list() == [4, 4]
    assert runs.metrics["timestep"].is_between(0, 240).all()
    assert runs.table["status"].to_list() == ["complete"] * 2
    assert runs.failed == []
    assert runs.summary().startswith("final return ")
    (row,) = runs.ranking().to_dicts()
    assert (row["method"], row["runs"]) == ("a2c", 2)


def test_a_folder_is_loaded_where_it_is(runs: asymrl.Runs, tmp_path: Path):
    again = asymrl.load(runs.folder)
    assert again.runs == runs.runs
    assert again.metrics.equals(runs.metrics)
    with pytest.raises(asymrl.runs.RunError, match="no runs here"):
        asymrl.load(tmp_path)


def test_the_same_training_has_the_same_curves(runs: asymrl.Runs, tmp_path: Path):
    """One seed alone, as complete settings: what a run is decides, not how it was asked for."""
    alone = asymrl.train(runs.runs[1].settings, seeds=[5], out=tmp_path / "alone", display=QUIET)
    metrics = [name for name in alone.metrics.columns if name != "run"]
    assert alone.metrics.select(metrics).equals(runs.metrics.filter(seed=5).select(metrics))


def test_agents_are_evaluated(runs: asymrl.Runs):
    table = runs.evaluate(episodes=20)
    assert table.select("run", "seed").rows() == [(0, 3), (1, 5)]
    # Listening costs 1, a door ends the episode: five steps at most, and no return below -4 - 100.
    assert table["length"].is_between(1, 5).all()
    assert table["return"].is_between(-104, 10).all()
    assert (table["terminated"] + table["truncated"]).to_list() == pytest.approx([1, 1])
    assert runs.evaluate(episodes=20).equals(table)
    assert runs.evaluate(episodes=20, greedy=True)["world"].to_list() == [WORLD] * 2


def test_the_best_agent_is_chosen_and_acts(runs: asymrl.Runs):
    best = runs.best()
    returns = dict(runs.table.select("seed", "recent_return").rows())
    assert best.seed == max(returns, key=lambda seed: returns[seed])
    assert runs.best(seed=3).seed == 3
    assert runs.best({"method": "a2c"}).seed == best.seed
    policy, game = runs.policy(3, np.random.default_rng(0)), asymrl.envs.Environment(best.world)
    observation, _ = game.reset(seed=0)
    policy.reset()
    steps, is_over = 0, False
    while not is_over:
        observation, _, terminated, truncated, _ = game.step(policy.act(observation))
        steps, is_over = steps + 1, terminated or truncated
    assert steps <= 5
    with pytest.raises(asymrl.runs.RunError, match="no run with the seed 4; the seeds are 3, 5"):
        runs.policy(4)


def test_runs_are_drawn_filmed_and_exported(runs: asymrl.Runs, tmp_path: Path):
    assert runs.plot(tmp_path / "curve.svg").read_text().startswith("<?xml")
    with Image.open(runs.render(tmp_path / "episode.gif", run_seed=3)) as film:
        assert film.format == "GIF"
    policy = asymrl.export.NumpyPolicy(runs.export(tmp_path / "policy.npz", run_seed=3))
    assert policy.about["run_seed"] == 3
    film = asymrl.report.film_of_world(asymrl.make("tiger"), "listen,listen")
    assert len(list(film.lines())) == 3


def test_runs_go_on(runs: asymrl.Runs, tmp_path: Path):
    """A run made longer equals one that was started with that length."""
    half = replace(runs.runs[0].settings, steps=120, log_points=2)
    short = asymrl.train(half, seeds=[3], out=tmp_path / "short", display=QUIET)
    assert short.resume(steps=240, display=QUIET).metrics["return"].to_list() == pytest.approx(
        runs.metrics.filter(seed=3)["return"].to_list()
    )
    assert asymrl.resume(short.folder, display=QUIET).table["status"].to_list() == ["complete"]
    with pytest.raises(asymrl.runs.RunError, match="can only be made longer"):
        short.resume(steps=60)


def test_a_sweep_does_what_is_missing(tmp_path: Path):
    def sweep(weights: list[float]) -> asymrl.Runs:
        axes = {"entropy_weight": weights}
        return asymrl.sweep(WORLD, "a2c", out=tmp_path, seeds=1, axes=axes, display=QUIET, **TINY)

    first = sweep([0.1]).metrics
    two = sweep([0.1, 1.0])
    assert two.table["entropy_weight"].to_list() == [0.1, 1.0]
    assert two.metrics.filter(run=0).equals(first)
    assert sorted(two.ranking()["entropy_weight"]) == [0.1, 1.0]
    assert {run.settings.entropy_weight for group in two.load({"entropy_weight": 1.0}) for run in group.runs} == {1.0}


def test_methods_are_compared(tmp_path: Path):
    comparison = asymrl.compare(WORLD, ["a2c", "a2c-asym-s"], seeds=2, out=tmp_path, display=QUIET, **TINY)
    assert [row.method for row in comparison.rows] == ["a2c", "a2c-asym-s"]
    assert [row.runs for row in comparison.rows] == [2, 2]
    assert comparison.method in comparison.advice
    assert len(comparison.runs) == 4
    with pytest.raises(ValueError, match="at least 2 are needed"):
        asymrl.compare(WORLD, ["a2c"], seeds=1, out=tmp_path)


def test_the_paper_in_numbers():
    """The table of figure 3 from the shipped runs, and the runs that it takes."""
    paper = asymrl.report.paper
    shipped = Path(__file__).parents[1] / "results"
    wanted = paper.extent("curves", ["heaven-hell-3"], ["a2c", "a2c-asym-hs"], seeds=5)
    assert len(paper.runs_of("curves", wanted)) == 10
    numbers = paper.reproduction("curves", shipped / "curves", wanted).numbers
    assert numbers["method"].to_list() == ["a2c", "a2c-asym-hs"]
    assert numbers["runs"].to_list() == [5, 5]
    metrics = asymrl.load(shipped / "curves").metrics
    assert paper.comparison(metrics.filter(pl.col("world") == "heaven-hell-3", pl.col("seed") < 5))["mean"][0] == (
        pytest.approx(numbers["mean"][0])
    )
    assert paper.tuned("heaven-hell-3", "a2c") == {"actor_rate": 0.001, "critic_rate": 0.001, "entropy_weight": 0.1}


@pytest.mark.slow
def test_a_part_of_the_paper_is_trained(tmp_path: Path):
    runs = asymrl.reproduce("curves", ["heaven-hell-3"], ["a2c"], seeds=1, steps=400, out=tmp_path, display=QUIET)
    assert runs.table["status"].to_list() == ["complete"]
    wanted = asymrl.report.paper.extent("curves", ["heaven-hell-3"], ["a2c"], 1, 400)
    files = asymrl.report.paper.reproduction("curves", tmp_path, wanted).save(tmp_path / "figures")
    assert [path.name for path in files] == ["curves.csv", "aggregates.csv", "curves.png", "aggregates.png"]


def test_theory_says_what_critics_are_worth():
    """Without a policy, the uniform one: its first action in tiger is worth the mean of -1 and twice (10 - 100) / 2."""
    analysis = asymrl.theory.analyse("tiger", horizon=1)
    assert analysis.V(()) == pytest.approx((-1 - 45 - 45) / 3)


def test_worlds_are_made_and_checked():
    assert "tiger" in asymrl.worlds.WORLDS
    assert "ok" in str(asymrl.worlds.check(asymrl.make("tiger", episodic=True)))
    known = asymrl.theory.solvers.known_returns("heaven-hell-3")
    assert known is not None
    assert known.undiscounted["best"].low == 1


def test_a_world_of_ones_own_is_trained(tmp_path: Path):
    """One state, one observation, two actions that are worth 1 both: every return is the length of an episode."""
    Rows, constant = asymrl.worlds.Rows, np.zeros((1, 2), int)
    world = asymrl.worlds.FiniteWorld(
        name="constant", transitions=Rows.deterministic(constant, 1), observations=Rows.deterministic(constant.T, 1),
        rewards=np.ones((1, 2)), ends=np.zeros((1, 2), bool), start=np.ones(1), state_names=["here"],
        action_names=["a", "b"], observation_names=["nothing"], time_limit=5,
    )  # fmt: skip
    settings = {name: value for name, value in TINY.items() if name != "time_limit"}
    runs = asymrl.train(world, "a2c", seeds=1, out=tmp_path / "runs", display=QUIET, **settings)
    assert runs.runs[0].settings.time_limit == 5
    assert runs.metrics["return"].to_list() == [5.0] * 4
    assert asymrl.make("constant").name == "constant"
    asymrl.register("another", lambda time_limit=3: world.with_time_limit(time_limit))
    assert asymrl.make("another").time_limit == 3
    with pytest.raises(ValueError, match="its name 'tiger' means a world of asymrl"):
        asymrl.train(asymrl.make("tiger", episodic=True), "a2c", out=tmp_path / "other")


def test_a_gymnasium_environment_is_a_world():
    world = asymrl.from_gymnasium(lambda: gymnasium.make("asymrl/Tiger-v0"))
    assert isinstance(world, asymrl.worlds.SteppedWorld)
    assert math.isfinite(world.discount)
