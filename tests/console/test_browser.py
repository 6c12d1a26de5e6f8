"""The console in a browser, beside a relay, a database and a broker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest
import redis
from playwright.sync_api import Browser, Page, expect

from tests.console.serving import serving
from tests.console.stocking import STREAM, TENANT, stock_log, stock_store
from tests.outbox.admin.filling import fill_aged
from tests.support.console import watched
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row, give_rights
from tests.support.waiting import DEADLINE, patience, wait_until

_MILLISECONDS = patience(DEADLINE) * 1000
_HURRY = """addEventListener("DOMContentLoaded", () => {
    for (const part of document.querySelectorAll("[data-live]")) part.dataset.live = part.dataset.live / 10;
})"""
"""Runs before the console's own scripts."""


@pytest.fixture
def console(recorded: Outbox) -> Iterator[str]:
    """The address of a console on the outbox."""
    with serving(recorded.url_of("console")) as address:
        yield address


@pytest.fixture
def stocked(recorded: Outbox) -> Iterator[str]:
    """The address of a console with a delivery log and an event store in the outbox's database."""
    stock_log(recorded.url)
    stock_store(recorded.url)
    with recorded.database.connect() as connection:
        give_rights(connection)
    with serving(recorded.url_of("console"), DELIVERY_LOG_URL=recorded.url_of("console")) as address:
        yield address


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new page in a context of its own, whose live part is polled ten times as often."""
    context = browser.new_context()
    context.set_default_timeout(_MILLISECONDS)
    context.add_init_script(_HURRY)
    yield context.new_page()
    context.close()


def test_a_group_of_dead_letters_is_found_replayed_and_arrives_at_the_broker(
    recorded: Outbox, console: str, page: Page, daemon: StartDaemon, redis_url: str
) -> None:
    stream = recorded.database.name
    fill_aged(recorded, "DEAD", 30)
    recorded.database.run(f"UPDATE openoutbox_events SET event_type = '{stream}' WHERE status = 'DEAD'")
    recorded.database.run(
        "UPDATE openoutbox_events SET last_error = 'OTHER: x' WHERE partition_key IN ('key-1', 'key-2')"
    )
    daemon(PUBLISHER_TYPE="redis", PUBLISHER_URL=redis_url).wait_ready()
    complaints = watched(page)
    page.goto(console)
    expect(page.get_by_text("30 events are dead")).to_be_visible()
    page.keyboard.press("/")
    page.wait_for_url("**/events")
    page.get_by_label("Error contains").fill("other")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("tbody tr")).to_have_count(6)
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_role("listitem").filter(has_text="FATAL").get_by_role("link", name="Replay all").click()
    expect(page.get_by_role("heading", name="24 events")).to_be_visible()
    page.get_by_label("Events a second").fill("50")
    page.get_by_label("Reason").fill("the broker was full")
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_text("complete")).to_be_visible()
    expect(page.get_by_text("24 of 24 events")).to_be_visible()
    with redis.Redis.from_url(redis_url) as client:
        wait_until(lambda: client.xlen(stream) == 24, what="24 messages")
        client.delete(stream)
    wait_until(lambda: recorded.counts() == {"DELIVERED": 24, "DEAD": 6}, what="24 deliveries")
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_text("6 events are dead")).to_be_visible()
    assert complaints == []


_ASK = "poll(); htmx.trigger(followed(), 'live')"
"""What the timer does, and what a script may do: neither sends anything while the page is stopped."""


def read_again(console: str) -> None:
    """Make the console's readings old, as every request does that may have changed something; they rest for seconds."""
    httpx.post(f"{console}/nothing", timeout=patience(DEADLINE))


def polls(page: Page, count: int) -> None:
    """Wait until the page has got so many answers to its polls since it was loaded."""
    wait_until(lambda: page.evaluate("live.polls") >= count, what=f"{count} polls")


def test_the_overview_follows_the_outbox_until_it_is_stopped_or_hidden(
    recorded: Outbox, console: str, page: Page
) -> None:
    page.goto(console)
    expect(page.get_by_text("No relay is connected")).to_be_visible()
    fill_aged(recorded, "DEAD", 7)
    read_again(console)
    expect(page.get_by_text("7 events are dead")).to_be_visible()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.get_by_role("checkbox", name="Live").uncheck()
    fill_aged(recorded, "DEAD", 1)
    sent.clear()
    page.evaluate(_ASK)
    page.evaluate("new Promise((done) => setTimeout(done))")
    assert sent == []
    page.get_by_role("checkbox", name="Live").check()
    read_again(console)
    expect(page.get_by_text("8 events are dead")).to_be_visible()
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => window.away }); window.away = true")
    fill_aged(recorded, "DEAD", 1)
    page.evaluate(_ASK)
    page.evaluate("new Promise((done) => setTimeout(done))")
    sent.clear()
    page.evaluate(_ASK)
    page.evaluate("new Promise((done) => setTimeout(done))")
    assert sent == []
    read_again(console)
    page.evaluate("window.away = false; dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_text("9 events are dead")).to_be_visible()


def test_a_poll_that_changes_nothing_leaves_focus_and_selection(recorded: Outbox, console: str, page: Page) -> None:
    recorded.fill("t", 1)
    recorded.database.run("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now() - interval '1 day'")
    recorded.database.run("UPDATE openoutbox_events SET status = 'DEAD', delivered_at = NULL, updated_at = now()")
    statuses: list[int] = []
    page.on("response", lambda response: None if "/static/" in response.url else statuses.append(response.status))
    minute = -1.0
    while minute != time.time() // 60:  # the plot's minutes go on with the clock, which is a change
        minute = time.time() // 60
        page.goto(console)
        statuses.clear()
        page.evaluate("""
            document.querySelector('main [data-live] a').focus();
            getSelection().selectAllChildren(document.querySelector('main [data-live] dl'));
            window.shown = document.querySelector('main [data-live] a');
        """)
        before = page.evaluate("String(getSelection())")
        polls(page, 2)
    assert before
    assert set(statuses) == {304}
    assert page.evaluate("document.activeElement === window.shown && window.shown.isConnected")
    assert page.evaluate("String(getSelection())") == before


@pytest.mark.parametrize(
    "holds",
    ["document.querySelector('main [data-live] a').focus()", "getSelection().selectAllChildren(followed())"],
    ids=["focus", "selection"],
)
def test_a_change_waits_while_its_part_has_the_focus_or_a_selection(
    recorded: Outbox, console: str, page: Page, holds: str
) -> None:
    fill_aged(recorded, "DEAD", 1)
    page.goto(f"{console}/types")
    page.evaluate(holds)
    before = page.locator("main [data-live] tbody").inner_text()
    recorded.fill("another-type", 1)
    read_again(console)
    expect(page.locator("#live-state")).to_contain_text("There is news")
    polls(page, 2)
    assert page.locator("main [data-live] tbody").inner_text() == before
    page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges()")
    expect(page.locator("main [data-live] tbody")).to_contain_text("another-type")
    expect(page.locator("#live-state")).to_be_empty()


def test_times_are_absolute_in_utc_or_local_by_choice(recorded: Outbox, console: str, browser: Browser) -> None:
    [id_] = recorded.insert([Row("t", b"{}")])
    recorded.database.run("UPDATE openoutbox_events SET created_at = '2026-07-01 22:30:15+00'")
    page = browser.new_context(timezone_id="Asia/Kolkata").new_page()
    page.goto(f"{console}/events/{id_}")
    created = page.get_by_role("listitem").filter(has_text="Created")
    expect(created).to_contain_text("2026-07-01 22:30:15")
    expect(created).to_contain_text(" ago")
    page.get_by_role("button", name="Times are UTC").click()
    expect(created).to_contain_text("2026-07-02 04:00:15")
    page.reload()
    expect(page.get_by_role("button", name="Times are local")).to_be_visible()
    expect(created).to_contain_text("2026-07-02 04:00:15")
    page.context.close()


def test_a_live_page_says_when_it_is_not_up_to_date(recorded: Outbox, console: str, page: Page) -> None:
    page.goto(f"{console}/types")
    recorded.database.run("ALTER TABLE openoutbox_events RENAME TO elsewhere")
    read_again(console)
    expect(page.get_by_role("status")).to_contain_text("there is no table openoutbox_events")
    recorded.database.run("ALTER TABLE elsewhere RENAME TO openoutbox_events")
    expect(page.get_by_role("status")).to_be_empty()


def test_a_type_is_paused_and_resumed(recorded: Outbox, console: str, page: Page, daemon: StartDaemon) -> None:
    relay = daemon(PUBLISHER_TYPE="null", RELAY_ID="relay-7").wait_ready()
    page.goto(f"{console}/fleet")
    page.get_by_label("Type or prefix").fill("t")
    page.get_by_label("Reason").fill("repair")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("row").filter(has_text="event type t")).to_contain_text("repair")
    wait_until(lambda: relay.metric("openoutbox_paused") == 1, what="the relay to obey")
    recorded.fill("t", 1)
    recorded.fill("other", 1)
    wait_until(lambda: recorded.counts() == {"PENDING": 1, "DELIVERED": 1}, what="the delivery of the other type")
    page.get_by_role("link", name="Types").click()
    row = page.get_by_role("row").filter(has_text="paused")
    expect(row.get_by_role("rowheader")).to_contain_text("t paused")
    row.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("link", name="Pause t")).to_be_visible()
    wait_until(lambda: recorded.counts() == {"DELIVERED": 2}, what="the delivery")


def test_a_failed_attempt_is_found_with_its_response(stocked: str, page: Page) -> None:
    complaints = watched(page)
    page.goto(stocked)
    page.keyboard.press("g")
    page.keyboard.press("l")
    page.wait_for_url("**/log")
    expect(page.get_by_text("102 delivered")).to_be_visible()
    expect(page.locator("#log-plot canvas")).to_be_visible()
    page.get_by_role("link", name="Older").click()
    page.get_by_role("link", name="Newer").click()
    page.get_by_label("Code").fill("MSG_SIZE_TOO_LARGE")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("tbody tr")).to_have_count(18)
    expect(page.get_by_text("0 delivered, 18 failed attempts")).to_be_visible()
    page.get_by_role("link", name="order.paid attempt attempt-7", exact=True).click()
    expect(page.get_by_text("out of quota")).to_be_visible()
    page.get_by_role("link", name="event-7").click()
    expect(page.get_by_text("the payload")).to_be_visible()
    assert complaints == []


def test_a_stream_is_found_from_its_tenant(stocked: str, page: Page) -> None:
    page.goto(f"{stocked}/store")
    expect(page.get_by_role("row").filter(has_text="balances")).to_contain_text("no holder")
    page.get_by_role("link", name=str(TENANT)).click()
    page.get_by_role("link", name=str(STREAM)).click()
    expect(page.get_by_role("heading", name="1 · AccountOpened")).to_be_visible()
    expect(page.get_by_text("the body")).to_be_visible()
