"""The agents that ship with the package: they load, are as good as they say, and hold nothing but numbers and text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import asymrl
from asymrl import zoo
from asymrl.cli.commands.train import Train
from asymrl.cli.parsing import parse
from asymrl.nn.agent import Critic
from asymrl.runs.files import RunError
from asymrl.runs.store import Store
from asymrl.settings.hyperparameters import PAPER_WORLDS
from asymrl.zoo import AGENTS, CARD_FILE, folder_size

LARGEST = 1_100_000  # bytes of an entry: actor and critic of the paper's size in eight bits a weight, a curve and text
LARGEST_ROOMS = 3_200_000  # critics of the memory rooms, which read grids, are larger
NAMES = zoo.names()


def test_the_agents_are_of_worlds_of_the_paper():
    assert "heaven-hell-3" in NAMES
    assert set(NAMES) <= set(PAPER_WORLDS)


def test_an_unknown_agent_is_refused_by_naming_those_that_are_there():
    with pytest.raises(RunError, match=r"no shipped agent 'heaven-hell'; there are .*heaven-hell-3"):
        zoo.load("heaven-hell")
    with pytest.raises(RunError, match="no shipped agent"):
        zoo.load("../agents/heaven-hell-3")


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_holds_networks_tables_and_text_only(name: str):
    files = sorted(str(path.relative_to(AGENTS / name)) for path in (AGENTS / name).rglob("*") if path.is_file())
    assert files == [
        "card.json",
        "checkpoint/000001.json",
        "checkpoint/000001.safetensors",
        "metrics.parquet",
        "runs.parquet",
        "settings.json",
    ]
    assert folder_size(AGENTS / name) < (LARGEST_ROOMS if "rooms" in name else LARGEST)
    manifest = json.loads((AGENTS / name / "checkpoint" / "000001.json").read_text())
    parts = {array.split(".")[0] for array in manifest["arrays"]}
    assert {"actor", "critic"} < parts
    assert not parts & {"actor_adam", "critic_adam", "target"}
    networks = {array["dtype"] for name, array in manifest["arrays"].items() if name.startswith(("actor.", "critic."))}
    assert networks == {"float16", "int8"}
    kinds = {array["dtype"] for array in manifest["arrays"].values()}
    assert kinds <= {"float16", "int8", "float32", "int32", "uint32", "bool"}


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_is_one_finished_run_of_the_asymmetric_critic(name: str):
    agent = zoo.load(name)
    (run,) = agent.runs
    assert (run.settings.world, run.settings.method) == (name, "a2c-asym-hs")
    (status,) = agent.table["status"].to_list()
    assert status in ("complete", "solved")
    if status == "complete":
        assert agent.metrics["timestep"].max() == pytest.approx(run.settings.steps, rel=0.02)
    assert isinstance(agent.best().state.critic, Critic)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_of_a_card_describes_the_run(name: str):
    agent = zoo.load(name)
    program, command, *arguments = agent.card.command.split()
    assert (program, command) == ("asymrl", "train")
    options = parse(Train, arguments, "asymrl train")
    assert options.settings() == agent.runs[0].settings
    assert options.seed_list == (agent.runs[0].seed,)


def test_a_shipped_agent_acts_like_any_run():
    agent = zoo.load("heaven-hell-3")
    assert isinstance(agent, asymrl.Runs)
    table = agent.evaluate(episodes=100, seed=3)
    assert table["world"].to_list() == ["heaven-hell-3"]
    error = max(agent.card.error, 0.002)
    assert abs(table["return"][0] - agent.card.returns) < 4 * error * np.sqrt(agent.card.episodes / 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_agent_is_as_good_as_its_card_says(name: str):
    agent = zoo.load(name)
    again = agent.evaluate(agent.card.episodes, seed=agent.card.seed)
    assert again["return"][0] == pytest.approx(agent.card.returns, abs=1e-3)
    assert again["length"][0] == pytest.approx(agent.card.length, rel=0.01)
    greedy = agent.evaluate(agent.card.episodes, seed=agent.card.seed, greedy=True)
    assert greedy["return"][0] == pytest.approx(agent.card.greedy_returns, abs=0.05)
    other = agent.evaluate(agent.card.episodes, seed=agent.card.seed + 1)
    spread = np.hypot(max(agent.card.error, 1e-3), max(other["return_error"][0], 1e-3))
    assert abs(other["return"][0] - agent.card.returns) < 4 * spread


def test_a_shipped_agent_is_not_trained_on_and_its_folder_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    agent = zoo.load("heaven-hell-3")
    before = {path: path.stat().st_mtime_ns for path in agent.folder.rglob("*")}
    with pytest.raises(RunError, match="cannot be trained on; `asymrl train heaven-hell-3 "):
        agent.resume()
    assert agent.plot() == Path("heaven-hell-3.png")
    assert (tmp_path / "heaven-hell-3.png").stat().st_size > 1000
    assert {path: path.stat().st_mtime_ns for path in agent.folder.rglob("*")} == before


def test_a_damaged_card_is_named(tmp_path: Path):
    store = AGENTS / "heaven-hell-3"
    (tmp_path / "settings.json").write_bytes((store / "settings.json").read_bytes())
    (tmp_path / CARD_FILE).write_text('{"returns": 1}')
    with pytest.raises(RunError, match=r"card.json: damaged"):
        zoo.ShippedAgent("some", tmp_path)
    assert len(Store.open(tmp_path)) == 1
