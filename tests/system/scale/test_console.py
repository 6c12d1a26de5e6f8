"""What the console's pages cost on ten million rows, a third of which share one time. Figures are printed.

``-k 2-million`` runs the same on two million, which takes half a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from benchmarks.console_rows import fill_for_console
from relay.core.event import Status
from relay.outbox.admin.event_types import read_event_types
from relay.outbox.admin.overview import dead_groups, read_overview
from relay.outbox.admin.readings import STATEMENT_SECONDS
from relay.outbox.admin.search import EventSearch, search_events
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.console import ConsoleProcess, chromium, watched
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.fixtures.postgres import create_database, drop_database

pytestmark = [pytest.mark.scale, pytest.mark.timeout(1800)]

TABLE = TableName()


def timed(work: Callable[[], object], times: int = 5) -> float:
    """The median of the seconds that it takes."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[times // 2]


def deep_in_the_group(outbox: Outbox) -> str:
    """The cursor of a page behind a hundred pages of rows that share one time."""
    until = datetime.now(UTC) - timedelta(days=20)
    cursor = None
    for _ in range(100):
        page = search_events(
            outbox.reader_url, TABLE, EventSearch((Status.DELIVERED,), until=until, limit=200, cursor=cursor)
        )
        assert len(page.events) == 200
        cursor = page.next
    assert cursor is not None
    return cursor


@pytest.fixture(scope="module", params=[2, 10], ids="{}-million".format)
def filled(request: pytest.FixtureRequest, postgres: str) -> Iterator[Outbox]:
    """An outbox with so many million rows, which all tests here share."""
    database = create_database(postgres)
    outbox = Outbox.create(database)
    for extension in ("console", "pause", "fleet"):
        add_extension(outbox.owner_url, TABLE, extension)
    with outbox.database.connect() as connection:
        give_rights(connection)
        fill_for_console(connection, request.param * 1_000_000)
    yield outbox
    drop_database(database)


def test_readings_of_very_many_rows(filled: Outbox, capsys: pytest.CaptureFixture[str]) -> None:
    def search(**filters: object) -> Callable[[], object]:
        return lambda: search_events(filled.reader_url, TABLE, EventSearch(**filters))  # type: ignore[arg-type]

    middle = datetime.now(UTC) - timedelta(hours=1)
    figures = {
        "first page of all": timed(search()),
        "page in the middle": timed(search(until=middle)),
        "page among very many of one time": timed(search(cursor=deep_in_the_group(filled))),
        "page of a type": timed(search(event_type="t7")),
        "page of a type that no event has": timed(search(event_type="none")),
        "dead events with an error": timed(search(statuses=(Status.DEAD,), error="E3")),
        "dead letters by type and error": timed(lambda: dead_groups(filled.reader_url, TABLE)),
        "overview": timed(lambda: read_overview(filled.reader_url, TABLE)),
        "types": timed(lambda: read_event_types(filled.reader_url, TABLE)),
    }
    with capsys.disabled():
        for name, seconds in figures.items():
            print(f"\n{name}: {seconds * 1000:.0f} ms", end="")
    assert all(seconds < STATEMENT_SECONDS for seconds in figures.values())


def test_a_browser_on_very_many_rows(filled: Outbox, capsys: pytest.CaptureFixture[str]) -> None:
    """What a browser waits for a page, its part in it included; and pages further on, by their links."""
    with ConsoleProcess(filled.url_of("console")) as console, chromium() as browser:
        page = browser.new_page()
        complaints = watched(page)
        page.goto(f"{console.wait_ready().address}/changes")
        figures = {}
        for name in ("Overview", "Types", "Dead letters", "Events"):
            page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
            expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
            figures[name] = page.evaluate("performance.getEntriesByType('navigation')[0].responseEnd")
        for _ in range(3):
            with page.expect_navigation():
                page.get_by_role("link", name="Older").click()
            expect(page.locator("tbody tr")).to_have_count(50)
        figures["Events, the fourth page"] = page.evaluate("performance.getEntriesByType('navigation')[0].responseEnd")
    with capsys.disabled():
        for name, milliseconds in figures.items():
            print(f"\n{name} in a browser: {milliseconds:.0f} ms", end="")
    assert complaints == []
