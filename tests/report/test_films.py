"""Films of episodes: what is replayed, what is refused, and what the files hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from asymrl.nn.distributions import Categorical, Greedy, MultiCategorical
from asymrl.report.films import Film, film_of_world, parse_actions, policy_text, random_actions, scenes_of
from asymrl.runs.playback import Playback
from asymrl.worlds import make
from tests.worlds.dials import Dials

TO_THE_PRIEST_AND_TO_HEAVEN = "S,E,E,E,W,W,W,N,N,N,N,W,W,W,N"


def test_actions_are_replayed_to_the_end_of_the_episode():
    film = film_of_world(make("heaven-hell-3"), TO_THE_PRIEST_AND_TO_HEAVEN)
    text = list(film.lines())
    assert len(text) == 16
    assert text[0].startswith("heaven-hell-3, at the start")
    assert text[-1].endswith("step 15  reward 1  return 1 (the end)")


def test_a_film_has_all_scenes_and_a_picture_the_last(tmp_path: Path):
    env = make("heaven-hell-3")
    last = film_of_world(env, "S,E,E", steps=2).save(tmp_path / "film.gif", dpi=40)
    assert (last.step, last.action, last.terminated) == (2, 2, False)
    with Image.open(tmp_path / "film.gif") as film:
        assert (film.n_frames, film.size) == (3, (320, 180))  # pyright: ignore[reportAttributeAccessIssue]
    film_of_world(env, "S,E,E", steps=2).save(tmp_path / "last.png", dpi=40)
    with Image.open(tmp_path / "last.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture), last.frame(env, dpi=40))


def test_actions_have_names_in_any_case_or_indices():
    env = make("heaven-hell-3")
    assert parse_actions(env, "S, e,0,W") == [1, 2, 0, 3]
    with pytest.raises(ValueError, match=r"unknown policy or action 'up'.*N, S, E, W, or indices 0 to 3"):
        parse_actions(env, "N,up")
    with pytest.raises(ValueError, match="unknown policy or action '4'"):
        parse_actions(env, "4")


def test_random_actions_follow_from_the_seed():
    env = make("heaven-hell-3")
    drawn = [[next(actions) for _ in range(200)] for actions in (random_actions(env, seed) for seed in (0, 0, 1))]
    assert drawn[0] == drawn[1] != drawn[2]
    assert set(drawn[0]) == {0, 1, 2, 3}


def test_vectors_of_indices_are_shown_as_text():
    env = Dials()
    first, *_, last = film_of_world(env, seed=1).lines()
    assert first.startswith("dials, at the start")
    actions = random_actions(env, 1)
    third = [next(actions).tolist() for _ in range(3)][-1]
    assert last.strip().startswith(f"dials, after {third[0]}, {third[1]}")
    with pytest.raises(ValueError, match="the actions of dials are vectors; only 'random' can be shown"):
        parse_actions(env, "0,1")
    policy, values = np.array([[0.2, 0.5, 0.3, 0.9, 0.1]]), np.array([2.5])
    actions, rewards = np.array([[2, 0]]), np.array([1.0])
    states = np.zeros(2, int)
    kind = MultiCategorical((3, 2))
    played = Playback(states, states, actions, rewards, policy, values, True, "V(h)", 0.9, kind)
    thoughts, _ = Film(env, "dials", scenes_of(played), played).lines()
    assert "policy left 0.20 0.50 0.30, right 0.90 0.10  takes 2, 0" in thoughts
    greedy = played._replace(policy=np.array([[2.0, -1.0]]), distribution=Greedy(2))
    assert policy_text(greedy, ("left", "right"), 0) == "values left 2.00  right -1.00"


def test_a_played_episode_becomes_scenes_with_the_thoughts_of_its_agent():
    env = make("tiger")
    policy, values = np.array([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7]]), np.array([2.5, 7.0])
    actions, rewards = np.array([0, 2]), np.array([-1.0, 10.0])
    played = Playback(
        np.zeros(3, int), np.array([2, 0, 0]), actions, rewards, policy, values, False, "V(h)", 0.9, Categorical(3)
    )
    scenes = scenes_of(played)
    assert [(scene.step, scene.reward, scene.total) for scene in scenes] == [(0, None, 0), (1, -1, -1), (2, 10, 9)]
    assert [scene.terminated for scene in scenes] == [False, False, True]
    first, second, end = Film(env, "tiger", scenes, played).lines()
    assert first.endswith("policy listen 0.80  open-left 0.10  open-right 0.10  takes listen\ncritic V(h) = 2.5")
    assert second.endswith("takes open-right\ncritic V(h) = 7")
    assert end.endswith("step 2  reward 10  return 9 (the end)")
