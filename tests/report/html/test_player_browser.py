"""The episode player in a real browser: it steps, and what it shows is what the data say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asymrl.report.html import page_of
from asymrl.report.html.player_data import player_section
from asymrl.runs.store import Store
from tests.report.html.browser import opened
from tests.runs.engine.stores import small, store_with_networks


def shown(number: float | None) -> str:
    """A number as the player writes it."""
    if number is None:
        return "–"
    text = str(int(number)) if number == int(number) else f"{number:.3f}"
    return "0.000" if text == "-0.000" else text.replace("-", "−")


def check_step(page: Any, data: dict, episodes: list[int], t: int) -> None:
    """Every lane shows what the data of its episode say about a step."""
    lanes = page.locator(".player-lane")
    assert lanes.count() == len(episodes)
    for lane, number in enumerate(episodes):
        episode = data["episodes"][number]
        at, place = min(t, episode["steps"]), lanes.nth(lane)
        picture = place.locator(".player-pictures img").first
        assert picture.get_attribute("src") == data["pictures"][episode["states"][at]]
        assert place.locator('[data-fact="step"]').inner_text() == str(at)
        assert place.locator('[data-fact="return"]').inner_text() == shown(sum(episode["rewards"][:at]))
        if at == episode["steps"]:
            assert place.locator("[data-field]").count() == 0
            continue
        for field in ("values", "followed"):
            assert place.locator(f'[data-field="{field}"]').inner_text() == shown(episode[field][at])
        bars = place.locator(".player-policy .player-value").all_inner_texts()
        assert bars == [shown(share) for share in episode["policy"][at]]
        chosen = place.locator(".player-policy .player-next .player-name").inner_text()
        assert chosen == episode["actions"][at]
        cards = place.locator(".player-cards b").all_inner_texts()
        assert cards == [shown(share) for _, share, _ in episode["beliefs"][at]]


@pytest.mark.slow
def test_the_player_steps_and_shows_the_data(tmp_path: Path):
    settings = small("heaven-hell-1", method="a2c-asym-hs", time_limit=6)
    store = Store.open(store_with_networks(tmp_path / "runs", settings, [0.2, 0.7]))
    section = player_section(store, seeds=[3, 5])
    data, file = section.data, tmp_path / "page.html"
    file.write_text(page_of("Episodes", [section]), encoding="utf-8")
    last = max(data["episodes"][i]["steps"] for i in (0, 1))
    with opened(file) as (page, said):
        check_step(page, data, [0, 1], 0)
        page.locator(".player").scroll_into_view_if_needed()
        for key, t in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("ArrowLeft", 0)):  # not clicked yet
            page.keyboard.press(key)
            check_step(page, data, [0, 1], t)
        page.focus(".player")
        for t in range(1, last + 1):
            page.keyboard.press("ArrowRight")
            check_step(page, data, [0, 1], t)
        page.keyboard.press("ArrowRight")  # nothing comes after the end
        check_step(page, data, [0, 1], last)
        page.keyboard.press("ArrowLeft")
        check_step(page, data, [0, 1], last - 1)
        page.keyboard.press("Home")
        check_step(page, data, [0, 1], 0)
        page.keyboard.press("End")
        check_step(page, data, [0, 1], last)
        page.locator(".player input[type=range]").fill("2")
        check_step(page, data, [0, 1], 2)
        page.click(".player-back")
        check_step(page, data, [0, 1], 1)
        page.locator(".player input[type=range]").focus()
        page.keyboard.press("ArrowRight")
        check_step(page, data, [0, 1], 2)
        # At another start, the agent that was compared comes along.
        page.select_option("#player-episode", "2")
        check_step(page, data, [2, 3], 0)
        page.focus("#player-episode")
        page.keyboard.press("ArrowRight")  # a step, not the next episode
        check_step(page, data, [2, 3], 1)
        page.keyboard.press("Home")
        page.select_option("#player-other", "")
        check_step(page, data, [2], 0)
        page.select_option("#player-episode", "1")
        page.select_option("#player-other", "0")
        check_step(page, data, [1, 0], 0)
        page.focus(".player")
        page.keyboard.press(" ")
        assert page.inner_text(".player-play") == "Pause"
        page.locator(".player-step", has_text="step 2 of").wait_for()
        page.keyboard.press(" ")
        assert page.inner_text(".player-play") == "Play"
        assert said == []
