"""The pictures that environments draw of themselves, of the very episode that was played."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from asymrl import cli
from asymrl.draw.dispatch import world_text
from asymrl.draw.draw_others import _pixels_in
from asymrl.draw.frame import draw_frame, save_mp4
from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.learners.learner import new_run
from asymrl.report.films import Film, film_of_world, scenes_of
from asymrl.report.html.episode_pictures import EpisodePictures
from asymrl.runs.environment_frames import NoFramesError, environment_frames, frames_per_second, played_frames
from asymrl.runs.playback import play_back
from asymrl.settings import new_settings
from asymrl.worlds.repeated import repeated
from asymrl.worlds.spaces import Box, Image as ImageSpace, Record
from asymrl.worlds.stepped_world import SteppedWorld
from tests.envs.gym.foreign_envs import Walker


class Lamp(gymnasium.Env):
    """Shows its number, and draws a square as bright as that; the number starts anywhere, by the seed."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space, action_space = spaces.Box(0, 255, (1,)), spaces.Discrete(2)
    render_mode = None

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.number = self.first()
        return self._seen(), {"state": self._seen()}

    def first(self) -> int:
        return int(self.np_random.integers(100))

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        self.number += 1 + int(action)
        return self._seen(), 1.0, False, False, {"state": self._seen()}

    def render(self) -> Any:
        return np.full((20, 30, 3), self.number, np.uint8) if self.render_mode == "rgb_array" else None

    def _seen(self) -> np.ndarray:
        return np.array([self.number], np.float32)


class Unseeded(Lamp):
    def first(self) -> Any:
        return np.random.default_rng().random()


class Shy(Lamp):
    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        return super().step({}["brush"] if self.render_mode else action)


class Equipped(Lamp):
    """Shows its number among other things."""

    observation_space: Any = spaces.Dict(
        {"camera": spaces.Box(0, 255, (8, 8, 3), np.uint8), "number": Lamp.observation_space}
    )

    def _seen(self) -> Any:
        return {"camera": np.zeros((8, 8, 3), np.uint8), "number": super()._seen()}


class Dull(Lamp):
    metadata = {"render_modes": []}


class Clumsy(Lamp):
    def render(self) -> Any:
        raise KeyError("brush")


def lamp(kind: type = Lamp) -> SteppedWorld:
    return from_gymnasium(kind, time_limit=6, name=kind.__name__)


def pixels_of(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture)


def played(world: SteppedWorld, actions: list[int], seed: int = 3) -> Any:
    stepper = world.open(1)
    seen = [stepper.reset([seed])[0][0]]
    seen += [stepper.step(np.array([action]), np.ones(1, bool))[0][0] for action in actions]
    stepper.close()
    return np.stack(seen)


def test_pictures_are_of_the_episode_that_was_played():
    world, actions = lamp(), [1, 0, 1]
    seen = played(world, actions)
    frames = environment_frames(world, 3, actions, seen)
    assert [int(frame[0, 0, 0]) for frame in frames] == seen[:, 0].astype(int).tolist()
    assert frames_per_second(world) == 10


def test_held_actions_are_held_for_pictures_too():
    world: Any = repeated(lamp(), 2)
    seen = played(world, [1, 0])
    frames = environment_frames(world, 3, [1, 0], seen)
    assert [int(frame[0, 0, 0]) for frame in frames] == seen[:, 0].astype(int).tolist()
    assert np.diff(seen[:, 0]).tolist() == [4, 2]
    assert frames_per_second(world) == 5


def test_an_environment_that_does_not_repeat_itself_is_named():
    world = lamp(Unseeded)
    with pytest.raises(ValueError, match=r"Unseeded does not repeat an episode from its seed: step 0 looks different"):
        environment_frames(world, 3, [1, 0], played(world, [1, 0]))


def test_what_cannot_draw_is_named():
    with pytest.raises(NoFramesError, match="Dull has no render mode rgb_array"):
        environment_frames(lamp(Dull), 3, [], played(lamp(Dull), []))
    with pytest.raises(ValueError, match=r"Clumsy: render\(\) failed: .*KeyError: 'brush'"):
        environment_frames(lamp(Clumsy), 3, [], played(lamp(Clumsy), []))


def test_a_film_shows_the_pictures_and_one_without_them_the_numbers(tmp_path: Path):
    """The whole middle of the left card is as bright as the lamp."""
    for kind, wanted in ((Lamp, True), (Dull, False)):
        path = tmp_path / f"{kind.__name__}.png"
        last = film_of_world(lamp(kind), seed=3, steps=2).save(path)
        pixels = pixels_of(path)
        assert (int(pixels[225, 205, 0]) == int(last.observation[0])) == wanted


def test_a_picture_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "def draw(ax, state, observation):\n    ax.set_axis_off()\n    ax.axvspan(0, 1, color=(0, 0, 1))\n"
        "def bad(ax, state, observation):\n    raise KeyError('wheel')\n"
    )
    options = ("--steps", "1", "-o", "out.png", "--picture")
    assert cli.main(["render", "tiger", *options, "mine.py:draw"]) == 0
    assert pixels_of(tmp_path / "out.png")[225, 205].tolist() == [0, 0, 255]
    for name, said in (
        ("mine.py:bad", "--picture mine.py:bad failed: mine.py:5: KeyError: 'wheel'"),
        ("mine.py:gone", "mine.py has no 'gone'"),
        ("mine", "write FILE.py:FUNCTION"),
    ):
        (tmp_path / "out.png").unlink(missing_ok=True)
        capsys.readouterr()
        assert cli.main(["render", "tiger", *options, name]) == 2
        assert said in capsys.readouterr().err
        assert not (tmp_path / "out.png").exists()


def test_an_untrained_id_is_filmed_or_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "pygame", None)
    path = tmp_path / "cart.gif"
    assert cli.main(["render", "CartPole-v1", "--steps", "2", "-o", str(path)]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "CartPole-v1: render() failed" in error
    assert "pip install" in error
    monkeypatch.undo()
    pytest.importorskip("pygame")
    assert cli.main(["render", "CartPole-v1", "--steps", "2", "-o", str(path)]) == 0
    with Image.open(path) as film:
        assert film.n_frames == 3  # pyright: ignore[reportAttributeAccessIssue]
        assert film.info["duration"] == 20, "it says 50 pictures a second"


def test_mp4_films(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "imageio_ffmpeg", None)
        with pytest.raises(ImportError, match=r'pip install "asymrl\[video\]"'):
            save_mp4([np.zeros((4, 4, 3), np.uint8)], tmp_path / "film.mp4")
    pytest.importorskip("imageio_ffmpeg")
    assert cli.main(["render", "tiger", "--steps", "3", "-o", str(tmp_path / "film.mp4")]) == 0
    assert (tmp_path / "film.mp4").read_bytes()[4:8] == b"ftyp"
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]
    with pytest.raises(OSError, match="ffmpeg failed"):
        save_mp4([np.zeros((3, 3, 3), np.uint8)], tmp_path / "odd.mp4")
    assert not (tmp_path / "odd.mp4").exists()


def test_an_environment_that_fails_where_it_draws_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    world = f"{__name__}:Shy:render_mode=none"
    monkeypatch.setattr(Shy, "__init__", lambda self, render_mode=None: None)
    assert cli.main(["render", world, "--steps", "2", "-o", str(tmp_path / "shy.gif")]) == 2
    line, *traceback = capsys.readouterr().err.splitlines()
    assert "Shy" in line
    assert "step() in episode 1, step 1 (reset with seed 0): test_environment_frames.py:" in line
    assert line.endswith("KeyError: 'brush'")
    assert traceback[0].startswith("Traceback")
    assert "src/asymrl" not in "".join(traceback)
    assert not list(tmp_path.iterdir())


def test_an_agent_that_sees_some_groups_is_filmed(tmp_path: Path):
    world = from_gymnasium(Equipped, time_limit=3, name="equipped")
    settings = new_settings(
        world="equipped", method="a2c", time_limit=3, memory_size=4, hidden=(4,), actor_sees="number"
    )
    actor = new_run(world, settings, 0).actor
    playback = play_back(world, settings, actor, None, seed=1)
    assert list(playback.observations) == ["number"]
    frames = played_frames(world, playback, 1)
    assert [int(frame[0, 0, 0]) for frame in frames] == playback.observations["number"][:, 0].tolist()
    film = Film(world, "equipped", scenes_of(playback), playback, seed=1)
    assert film.save(tmp_path / "film.png").step == 3
    assert film.save(tmp_path / "film.gif").step == 3


def test_an_unknown_state_is_not_shown_as_nothing():
    world = from_gymnasium(Walker, time_limit=4)
    assert world.without_latent
    assert world_text(world, np.zeros(0)) == ["not known"]


def test_images_that_are_seen_are_shown():
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    space = Record((("place", Box((2,))), ("camera", ImageSpace(shape=(2, 2, 3)))))
    np.testing.assert_array_equal(_pixels_in(space, {"place": np.zeros(2), "camera": pixels}), pixels)
    assert _pixels_in(Box((2,)), np.zeros(2)) is None
    assert _pixels_in(space, {"place": np.zeros(2)}) is None


def test_pixels_fill_a_frame_and_a_page_has_each_once():
    world = lamp()
    frame = draw_frame(world, np.zeros(1), np.zeros(1), picture=np.full((20, 30, 3), 77, np.uint8))
    assert frame[225, 205].tolist() == [77, 77, 77]
    pictures = EpisodePictures()
    bright, dark = (np.full((400, 600, 3), value, np.uint8) for value in (200, 20))
    assert [pictures.pixels(each) for each in (bright, dark, bright)] == [0, 1, 0]
