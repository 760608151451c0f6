"""The page that follows a training: made again when the store has changed, and always something to show."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asymrl.report.html.live import SHARE, LivePage, PageServer
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.runs.tables import RunResult
from tests.report.html.browser import opened
from tests.runs.engine.stores import made_result, small

RUNS = [Run(small(steps=1000), seed) for seed in range(2)]


def grow(store: Store, points: int) -> None:
    """Writes tables in which each run has so many points."""

    def partly(run: Run) -> RunResult:
        whole = made_result(run)
        assert whole.curve is not None
        return whole._replace(status="training", curve=whole.curve[:points])

    store.write_tables({number: partly(run) for number, run in enumerate(store.runs)})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store.create(tmp_path / "runs", RUNS)
    yield made
    made.release()


class Clock:
    """A clock that goes on by a fixed time whenever it is looked at."""

    def __init__(self, pace: float):
        self.now, self.pace = 0.0, pace

    def __call__(self) -> float:
        self.now += self.pace
        return self.now


def data_of(live: LivePage, section: str) -> dict[str, Any]:
    """The data of a section of the page."""
    return json.loads(live.page().body.decode().split(f'id="data-{section}">')[1].split("</script>")[0])


def points_of(live: LivePage) -> list[int]:
    """How many points the curves have, one number per run."""
    (world,) = data_of(live, "curves")["worlds"]
    return [sum(value is not None for value in run) for line in world["lines"] for run in line["values"]["return"]]


def test_the_page_follows_the_store(store: Store):
    live = LivePage(store.path, Clock(0.0))
    assert "have the runs begun?" in live.page().body.decode()
    grow(store, 5)
    assert points_of(live) == [5, 5]
    first = live.page()
    assert live.page() is first  # nothing has changed, so nothing is made again
    assert data_of(live, "live")["version"] == first.etag
    assert '<p class="live" role="status">Follows the training.</p>' in first.body.decode()
    grow(store, 9)
    assert points_of(live) == [9, 9]
    assert live.page().etag != first.etag
    store.write_tables({number: made_result(run) for number, run in enumerate(store.runs)})
    assert '<p class="live" role="status">All runs are over.</p>' in live.page().body.decode()


def test_the_page_may_ask_its_own_server_only(store: Store):
    page = LivePage(store.path).page().body.decode()
    assert "default-src 'none'" in page
    assert "connect-src 'self'" in page


def test_what_was_there_stays_when_the_store_is_damaged_or_gone(store: Store):
    live = LivePage(store.path, Clock(0.0))
    grow(store, 5)
    shown = live.page()
    (store.path / "runs.parquet").write_bytes(b"half a ta")
    assert live.page() is shown
    shutil.rmtree(store.path)
    assert live.page() is shown


def test_making_the_page_takes_a_small_share_of_the_time(store: Store):
    clock = Clock(1.0)  # between two looks at the clock a second has passed, so that making the page takes one
    live = LivePage(store.path, clock)
    grow(store, 5)
    first = live.page()
    grow(store, 9)
    assert live.page() is first  # too soon
    clock.now += 1 / SHARE
    assert live.page() is not first


def wait_until(page: Any, expression: str) -> None:
    """Waits until a JavaScript expression is true. Playwright's own function for that needs `eval` in the page."""
    for _ in range(600):
        with contextlib.suppress(Exception):  # of Playwright, while the page is being loaded again
            if page.evaluate(expression):
                return
        page.wait_for_timeout(100)
    pytest.fail(f"never true: {expression}")


@pytest.mark.slow
def test_new_points_appear_in_a_browser_and_choices_stay(store: Store):
    grow(store, 5)
    live = LivePage(store.path)
    with PageServer(live.page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with opened(server.url) as (page, said):
                chart = "[...document.getElementById('section-curves').charts.values()][0]"
                assert page.evaluate(f"{chart}.data[0].length") == 5
                page.get_by_label("each run").check()
                grow(store, 9)
                wait_until(page, f"{chart}.data[0].length === 9")
                assert page.get_by_label("each run").is_checked()
                assert page.evaluate(f"{chart}.series.length") == 3  # the axis and two runs
                wait_until(page, "document.querySelector('.live').textContent.includes(', as of ')")
                cut_off = f"request: {server.url}"  # a look for news that the next loading of the page overtook
                assert [line for line in said if line.rstrip("/") != cut_off.rstrip("/")] == []
                server.shutdown()
                server.server_close()
                wait_until(page, "document.querySelector('.live').classList.contains('ended')")
                assert "has ended" in page.text_content(".live")
        finally:
            server.shutdown()
            thread.join()


def test_a_link_out_of_the_folder_is_not_followed(store: Store, tmp_path: Path):
    (tmp_path / "secret.json").write_text('{"what": "a secret"}')
    grow(store, 5)
    (store.path / "manifest.json").symlink_to(tmp_path / "secret.json")
    page = LivePage(store.path).page().body.decode()
    assert "a secret" not in page
    assert "manifest.json: a link to a file outside of this folder" in page


def test_links_in_a_circle_are_not_followed(tmp_path: Path):
    (tmp_path / "sessions.json").symlink_to("sessions.json")
    (tmp_path / "metrics.parquet").symlink_to("/dev/zero")
    assert "metrics.parquet: a link to a file outside" in LivePage(tmp_path, Clock(0.0)).page().body.decode()
