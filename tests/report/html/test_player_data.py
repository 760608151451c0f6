"""The data of the episode player: the numbers of `play_back`, each picture once, agents that a reader wants to see."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from asymrl.report.html.episode_data import MOST_STEPS, episode_data
from asymrl.report.html.episode_pictures import EpisodePictures
from asymrl.report.html.page import json_text
from asymrl.report.html.player_agents import PlayerAgent, choose_agents, play_starts
from asymrl.report.html.player_data import player_data, player_section
from asymrl.runs.files import RunError
from asymrl.runs.playback import play_back
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from tests.runs.engine.stores import small, store_with_networks

HEAVEN_HELL = small("heaven-hell-1", method="a2c-asym-hs", time_limit=6)


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> list[PlayerAgent]:
    path = store_with_networks(tmp_path_factory.mktemp("store") / "runs", HEAVEN_HELL, [0.2, 0.7, -0.5])
    return choose_agents(Store.open(path), 6)


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def data(agents: list[PlayerAgent], told: list[str]) -> dict:
    return json.loads(json_text(player_data(agents, seeds=[3, 5], tell=told.append)))


def test_it_says_what_it_computes(data: dict, told: list[str]):
    assert told[0] == "true values of a2c-asym-hs, seed 1 (best seed) in heaven-hell-1 (agent 1 of 2)"
    assert sum(line.startswith("episode ") for line in told) == len(data["episodes"])


def test_the_best_and_the_worst_seed_are_played(agents: list[PlayerAgent]):
    assert [(agent.number, agent.label) for agent in agents] == [
        (1, "a2c-asym-hs, seed 1 (best seed)"),
        (2, "a2c-asym-hs, seed 2 (worst seed)"),
    ]


def test_every_agent_has_every_start(data: dict):
    assert [(each["agent"], each["start"]) for each in data["episodes"]] == [(0, 3), (1, 3), (0, 5), (1, 5)]
    for one, other in ((0, 1), (2, 3)):
        same = data["episodes"][one]["states"][0], data["episodes"][other]["states"][0]
        assert same[0] == same[1]


def test_numbers_are_those_of_the_playback(agents: list[PlayerAgent], data: dict):
    for episode in data["episodes"]:
        run = agents[episode["agent"]].run
        played = play_back(run.world, run.settings, run.state.actor, run.state.critic, seed=episode["start"])
        assert data["agents"][episode["agent"]]["critic"] == played.critic == "V(h, s)"
        np.testing.assert_allclose(episode["values"], played.values, rtol=1e-5)
        np.testing.assert_allclose(episode["policy"], played.policy, rtol=1e-5)
        np.testing.assert_allclose(episode["rewards"], played.rewards, rtol=1e-5)
        np.testing.assert_allclose(episode["followed"], played.returns_to_go(), rtol=1e-5)
        assert episode["chosen"] == played.actions.tolist()
        assert [data["agents"][0]["actions"][a] for a in episode["chosen"]] == episode["actions"]
        assert len(episode["states"]) == len(episode["views"]) == len(played.actions) + 1
        assert episode["return"] == pytest.approx(float(played.rewards.sum()))


def test_the_true_state_is_in_the_belief_and_has_its_picture(data: dict):
    for episode in data["episodes"]:
        for t, belief in enumerate(episode["beliefs"]):
            shares = {name: share for name, share, _ in belief}
            pictures = {name: picture for name, _, picture in belief}
            assert sum(shares.values()) == pytest.approx(1)
            assert pictures[episode["state_names"][t]] == episode["states"][t]


def test_equal_pictures_are_stored_once(data: dict):
    urls = data["pictures"]
    assert len(set(urls)) == len(urls)
    used = {i for each in data["episodes"] for i in (*each["states"], *each["views"]) if i is not None}
    assert used <= set(range(len(urls)))
    assert sum(len(each["states"]) for each in data["episodes"]) > len(urls) / 2
    picture = Image.open(io.BytesIO(base64.b64decode(urls[0].partition("base64,")[2])))
    assert picture.width > 300
    assert max(map(len, urls)) < 20_000


def test_after_the_end_a_finite_world_shows_no_observation(agents: list[PlayerAgent]):
    """The last observation of a finite world belongs to the next episode; at the time limit there is one."""
    run, seen, pictures = agents[0].run, set(), EpisodePictures()
    for seed in range(8):
        played = play_back(run.world, run.settings, run.state.actor, run.state.critic, seed=seed)
        seen.add(played.truncated)
        last = episode_data(run.world, played, pictures, None)["views"][-1]
        assert (last is None) == (not played.truncated)
    assert seen == {True, False}


def test_long_episodes_are_cut_and_large_ones_left_out(agents: list[PlayerAgent]):
    assert MOST_STEPS >= 100  # the time limit of the paper's worlds
    few = player_data(agents, seeds=[3, 5], budget=0)
    assert (len(few["episodes"]), few["left_out"]) == (1, 3)


def test_without_seeds_good_and_bad_starts_are_shown(agents: list[PlayerAgent]):
    every = play_starts(agents, 16, seeds=range(16))
    means = {start.seed: np.mean([played.rewards.sum() for played in start.playbacks]) for start in every}
    shown = [start.seed for start in play_starts(agents, 2)]
    assert {means[seed] for seed in shown} == {min(means.values()), max(means.values())}
    assert len({*means.values()}) > 1


def test_a_section_for_the_page(agents: list[PlayerAgent], tmp_path: Path):
    settings = small("cleaner", method="a2c", time_limit=3)
    section = player_section(Store.open(store_with_networks(tmp_path / "runs", settings, [0.0])), seeds=[0])
    assert (section.name, section.script) == ("player", "startPlayer")
    (agent,) = section.data["agents"]
    assert not agent["finite"]
    assert agent["label"] == "a2c, seed 0"
    assert "beliefs" not in section.data["episodes"][0]


def test_a_store_without_networks_says_so(tmp_path: Path):
    store = Store.create(tmp_path / "runs", [Run(HEAVEN_HELL, 0)], keeps_networks=False)
    with pytest.raises(RunError, match="networks of its runs were not kept"):
        player_section(store)
    store.release()
