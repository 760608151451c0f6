"""Pictures show the true state on the left and only the observation on the right."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from asymrl.draw import draw_frame, draw_text, draw_view, draw_world, save_gif, style
from asymrl.draw.dispatch import view_text
from asymrl.report.films import random_actions, record
from asymrl.worlds import WORLDS, Box, Record, Step, World, make
from asymrl.worlds.builtin.cleaner import Cleaner, CleanerState
from tests.draw.panels import centre_of, left_and_right, lines, ring, rooms, seen_in, which_differ


class Drift(World):
    """A world of which nobody has drawn a picture yet."""

    name: str = eqx.field(static=True, default="drift")
    discount: float = eqx.field(static=True, default=0.9)
    time_limit: int | None = eqx.field(static=True, default=5)

    @property
    def action_names(self) -> tuple[str, ...]:
        return ("stay", "go")

    @property
    def observation_space(self) -> Box:
        return Box((1,))

    @property
    def latent_space(self) -> Record:
        return Record((("place", Box((1,))), ("wind", Box((12,)))))

    def reset(self, key: Any) -> Any:
        return {"place": jnp.zeros(1), "wind": jnp.arange(12.0)}

    def step(self, key: Any, state: Any, action: Any) -> Step:
        moved = {"place": state["place"] + 0.5 * action, "wind": state["wind"]}
        return Step(moved, jnp.float32(-1.0), jnp.bool_(False))

    def first_observation(self, key: Any, state: Any) -> Any:
        return state["place"]

    def observe(self, key: Any, state: Any, action: Any, next_state: Any) -> Any:
        return next_state["place"]

    def latent(self, state: Any) -> Any:
        return state

    def from_latent(self, latent: Any) -> Any:
        return latent


@pytest.mark.parametrize("name", WORLDS)
def test_all_moments_of_an_episode_have_the_same_even_size(name: str):
    env = make(name)
    frames = [moment.frame(env) for moment in record(env, [0, len(env.action_names) - 1, 1], seed=1)]
    assert {(frame.shape, frame.dtype) for frame in frames} == {((450, 800, 3), np.dtype(np.uint8))}


@pytest.mark.parametrize(
    ("name", "one", "other", "observation"),
    [
        ("heaven-hell-3", 1, 14 + 1, 1),
        ("heaven-hell-12", 0, 50, 51),
        ("shopping-5", 7, 8, 0),
        ("car-flag", np.array([0.1, 0.0, 1.0]), np.array([0.1, 0.0, -1.0]), np.array([0.1, 0.0, 0.0])),
        ("cart-pole", np.array([0.1, 1.0, 0.0, 0.0]), np.array([0.1, -1.0, 0.0, 0.0]), np.array([0.1, 0.0])),
        ("good-bad", 0, 1, 0),
        ("tiger", 0, 1, 2),
    ],
)
def test_a_hidden_difference_shows_in_the_state_only(name: str, one: Any, other: Any, observation: Any):
    assert which_differ(name, (one, observation), (other, observation)) == (True, False)


@pytest.mark.parametrize(
    ("name", "state", "one", "other"),
    [
        ("heaven-hell-3", 13, 13, 14),
        ("shopping-6", 36 * 5 + 5, 5, 36 + 5),
        ("car-flag", np.array([0.5, 0.01, 1.0]), np.array([0.5, 0.01, 0.0]), np.array([0.5, 0.01, 1.0])),
        ("good-bad", 1, 0, 1),
        ("tiger", 0, 0, 1),
    ],
)
def test_another_observation_shows_in_the_view_only(name: str, state: Any, one: Any, other: Any):
    assert which_differ(name, (state, one), (state, other)) == (False, True)


@pytest.mark.parametrize(("state", "heaven_is_left"), [(0, True), (14, False)])
def test_heaven_is_drawn_on_its_side(state: int, heaven_is_left: bool):
    left, _ = left_and_right(draw_frame(make("heaven-hell-3"), state, 15))
    heaven, hell = centre_of(left, style.GREEN), centre_of(left, style.VERMILION)
    assert (heaven[0] < hell[0]) is heaven_is_left
    assert heaven[1] == pytest.approx(hell[1], abs=3)


def test_the_item_of_the_shop_is_drawn_with_x_to_the_right_and_y_upwards():
    env = make("shopping-5")
    places = {}
    for x, y in ((0, 0), (4, 0), (0, 4)):
        left, _ = left_and_right(draw_frame(env, 12 * 25 + 5 * x + y, 50))
        places[x, y] = centre_of(left, style.ORANGE)
    assert places[4, 0][0] - places[0, 0][0] > 200
    assert places[0, 0][1] - places[0, 4][1] > 200


def test_robots_are_drawn_where_they_are_and_see_each_other():
    env = Cleaner()
    state = CleanerState(jnp.asarray(~env.walls).ravel(), jnp.array([3 * 13 + 1, 3 * 13 + 2]))
    left, right = left_and_right(draw_frame(env, state, seen_in(env, state)))
    assert centre_of(left, style.VERMILION)[0] < centre_of(left, style.BLUE)[0]
    first, second = right[100:, :190], right[100:, 190:]
    assert centre_of(first, style.BLUE)[0] > centre_of(first, style.VERMILION)[0]
    assert centre_of(second, style.BLUE)[0] > centre_of(second, style.VERMILION)[0]


@pytest.mark.parametrize(("heading", "green_is_left"), [(1, True), (3, False)])
def test_the_view_of_the_rooms_turns_with_the_agent(heading: int, green_is_left: bool):
    env, state = make("memory-four-rooms-5x5"), rooms(heading)
    _, right = left_and_right(draw_frame(env, state, seen_in(env, state)))
    assert (centre_of(right, style.GREEN)[0] < centre_of(right, style.BLUE)[0]) is green_is_left


def test_after_the_end_a_finite_world_shows_no_observation():
    env = make("heaven-hell-3")
    views = [left_and_right(draw_frame(env, 6, seen, 0, terminated=True))[1] for seen in (0, 13)]
    assert (views[0] == views[1]).all()
    assert (views[0] != left_and_right(draw_frame(env, 6, 0, 0))[1]).any()


def test_the_caption_tells_step_action_reward_and_return():
    env = make("tiger")
    plain = draw_frame(env, 0, 0, 0, step=1, reward=-1.0, total=-1.0)
    for change in ({"step": 2}, {"reward": 10.0}, {"total": 9.0}, {"truncated": True}):
        frame = draw_frame(env, 0, 0, 0, **{"step": 1, "reward": -1.0, "total": -1.0, **change})
        assert (frame[400:] != plain[400:]).any(), change
        assert (frame[:400] == plain[:400]).all(), change
    assert (draw_frame(env, 0, 0, 1, step=1, reward=-1.0, total=-1.0)[400:] != plain[400:]).any()
    assert (draw_frame(env, 0, 0, title="My tiger")[:45] != draw_frame(env, 0, 0)[:45]).any()


def test_frames_leave_nothing_behind_for_the_next_one():
    tiger, shop = make("tiger"), make("shopping-5")
    first = draw_frame(tiger, 0, 0, 1, step=3, total=1.0)
    draw_frame(shop, 100, 25)
    draw_frame(shop, 100, 25, dpi=60)
    assert (draw_frame(tiger, 0, 0, 1, step=3, total=1.0) == first).all()


def test_an_extra_panel_is_drawn_beside_the_others():
    env, shown = make("good-bad"), []
    frame = draw_frame(env, 0, 0, panel=lambda ax: shown.append(ax.barh(["good", "bad"], [0.9, 0.1], color=style.SKY)))
    assert frame.shape == (450, 1100, 3)
    assert len(shown) == 1
    assert centre_of(frame, style.SKY)[0] > 800
    assert (frame[55:395, :780] == draw_frame(env, 0, 0)[55:395, :780]).all()


@pytest.mark.parametrize("dpi", [50, 73, 150])
def test_sizes_are_even_at_any_resolution(dpi: int):
    height, width, _ = draw_frame(make("tiger"), 0, 2, dpi=dpi).shape
    assert height % 2 == 0
    assert width % 2 == 0
    assert width == pytest.approx(8 * dpi, abs=2)


def test_both_halves_can_be_drawn_into_any_figure():
    env = make("memory-four-rooms-5x5")
    figure = Figure(figsize=(4, 2))
    FigureCanvasAgg(figure)
    world_ax, view_ax = figure.subplots(1, 2)
    draw_world(env, rooms(), world_ax)
    draw_view(env, seen_in(env, rooms()), view_ax)
    figure.canvas.draw()
    assert all(ax.get_children() and not ax.axison for ax in (world_ax, view_ax))


@pytest.mark.parametrize("size", [3, 400, 1000])
def test_any_finite_world_is_drawn_by_its_names(size: int):
    env = ring("a-ring-with-a-very-long-name", size)
    frames = [draw_frame(env, state, observation) for state, observation in ((0, 2), (size - 1, 0), (size - 1, 1))]
    assert (left_and_right(frames[0])[0] != left_and_right(frames[1])[0]).any()
    assert (left_and_right(frames[1])[1] != left_and_right(frames[2])[1]).any()


def test_any_other_world_is_drawn_by_its_numbers():
    env = Drift()
    moments = list(record(env, random_actions(env, 1), seed=0))
    assert [moment.truncated for moment in moments] == [False] * 5 + [True]
    assert any((moments[0].frame(env) != moment.frame(env))[55:395].any() for moment in moments[1:])
    assert draw_text(env, moments[0].state, moments[0].observation) == lines("""
        drift, at the start
        state                              the agent sees
        place: [0.]                        [0.]
        wind: [0. 1. 2. ... 9. 10. 11.]
    """)


def test_a_thing_that_is_no_world_can_not_be_drawn():
    with pytest.raises(TypeError):
        draw_world(object(), 0, None)  # pyright: ignore[reportArgumentType]


def test_the_pole_leans_to_the_side_of_its_angle():
    env = make("cart-pole")
    tips = []
    for angle in (-0.1, 0.1):
        left, _ = left_and_right(draw_frame(env, np.array([0.0, 0.0, angle, 0.0]), np.array([0.0, angle])))
        tips.append(centre_of(left, style.ORANGE)[0])
    assert tips[0] + 10 < tips[1]


def test_a_film_has_all_frames_and_exact_colours(tmp_path):
    env = make("heaven-hell-3")
    frames = [moment.frame(env) for moment in record(env, [1, 2, 2, 2], seed=0)]
    save_gif(frames, tmp_path / "film.gif", 0.2)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 5  # pyright: ignore[reportAttributeAccessIssue]
        assert film.size == (800, 450)
        durations = []
        for i, frame in enumerate(frames):
            film.seek(i)
            durations.append(film.info["duration"])
            error = np.abs(np.asarray(film.convert("RGB"), int) - frame)
            assert np.mean(error.max(-1) == 0) > 0.98
    assert durations == [200] * 4 + [1000]


def test_a_film_needs_frames(tmp_path):
    with pytest.raises(ValueError, match="no frames"):
        save_gif([], tmp_path / "film.gif")


def test_a_picture_is_told_in_words():
    pixels = np.zeros((24, 24, 3), np.uint8)
    pixels[:, :12] = 200
    assert view_text(Drift(), pixels) == ["24x24x3, 0 to 200, mean 100"]
    assert view_text(Drift(), np.array([1, 2])) == ["[1 2]"]
