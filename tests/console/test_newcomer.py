"""An operator who has never seen the product, in six situations: at most three clicks, or three commands.

What is broken and since when, why this event is not delivered, and what cures it: read from pages and output alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.running import call_cli
from tests.console.situations import EXTENSIONS, WAITING, Situation, all_situations
from tests.support.fixtures.database import Database
from tests.support.servers.tcp_proxy import Mode
from tests.support.waiting import DEADLINE, patience, wait_until

MOST = 3
"""Clicks for an answer."""
_ID = r"[0-9a-f]{8}-[0-9a-f-]{27}"
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z"

BROKEN = {
    "stopped": r"No relay is connected: 40 events wait, the oldest has been due for 5 min",
    "paused": rf"Event type \S+ is paused by ada since {_TIME}: the partner migrates; 40 due events wait",
    "key_held_by_dead": rf"Event {_ID} of its key is dead since {_TIME} and holds the key\.",
    "key_held_by_retrying": rf"It waits behind event {_ID} of its key, which is PENDING\.",
    "away": rf"Destination \S+ is away since {_TIME}: .* refused, according to relay-1\.",
    "refused": rf"The database refuses to claim event {_ID}: claiming: under audit .*, according to relay-1\.",
    "many_dead": r"3,000 events are dead; all died in the last hour, 400 of them of type type\.\d\.",
}
"""What Overview and commands say of each: the same words."""
WHY = {
    **BROKEN,
    "stopped": rf"No relay is connected: it has been due since {_TIME}\.",
    "paused": rf"Event type \S+ is paused by ada since {_TIME}: the partner migrates\.",
    "away": rf"Its destination \S+ is away since {_TIME}: .* refused\.",
    "refused": rf"The database refuses to claim event {_ID}: claiming: under audit .*\.",
    "many_dead": rf"It has been dead since {_TIME}, after 25 failed attempts: HTTP_\d+: partner \w refused \d+\.",
}
"""What an event's page and ``relay-cli show`` say of an event that is not delivered."""


@pytest.fixture(scope="module")
def situations(outbox_templates: Callable[[Sequence[str]], Database], redis_url: str) -> Iterator[dict[str, Situation]]:
    """All of them."""
    with all_situations(outbox_templates(EXTENSIONS), redis_url) as made:
        yield made


class Visitor:
    """Begins at Overview, reads what is visible, and counts clicks."""

    def __init__(self, page: Page, its: Situation) -> None:
        self.page = page
        self.clicks = 0
        page.set_default_timeout(patience(DEADLINE) * 1000)
        page.goto(its.address)

    def reads(self, pattern: str) -> None:
        """It stands on the page, and can be seen."""
        expect(self.page.locator("main").get_by_text(re.compile(pattern)).first).to_be_visible()

    def click(self, role: Literal["link", "button"], name: str) -> None:
        """One click, on the first of this name."""
        self.clicks += 1
        assert self.clicks <= MOST, f"{name} would be click {self.clicks}"
        self.page.get_by_role(role, name=re.compile(f"^{name}")).first.click()

    def find(self, event_id: str) -> None:
        """Two clicks to the page of an event whose id a customer has named."""
        self.click("link", "Events")
        self.page.get_by_label("Or one event by its id").fill(event_id)
        self.click("button", "Search")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", BROKEN)
def test_commands_say_what_is_broken_and_what_to_type(
    situations: dict[str, Situation], name: str, tmp_path: Path
) -> None:
    its = situations[name]

    def typed(*arguments: str) -> str:
        done = call_cli(tmp_path, *arguments, STORAGE_URL=its.outbox.url_of("operator"))
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert re.search(BROKEN[name], typed("causes"))
    if name != "many_dead":  # of which stats has the number
        assert re.search(BROKEN[name], typed("stats"))
    shown = typed("show", its.event)
    assert re.search(f"why: +{WHY[name]}", shown)
    [step] = re.findall("^to do: +(.*)", shown, re.MULTILINE)[:1]
    assert step


@pytest.mark.parametrize("name", BROKEN)
def test_overview_says_at_once_what_is_broken_and_two_clicks_say_why_an_event_waits(
    situations: dict[str, Situation], name: str, page: Page
) -> None:
    visitor = Visitor(page, situations[name])
    visitor.reads(BROKEN[name])
    visitor.find(situations[name].event)
    visitor.reads(WHY[name])


def delivered(its: Situation, count: int) -> None:
    """Wait until so many are."""
    wait_until(lambda: its.outbox.counts() == {"DELIVERED": count}, what=f"{count} deliveries")


def correct_row(its: Situation) -> None:
    """No row is refused any more."""
    its.outbox.database.run("DROP TRIGGER IF EXISTS audit ON openoutbox_events")


def test_the_refused_row_is_one_click_away(situations: dict[str, Situation], page: Page) -> None:
    its = situations["refused"]
    visitor = Visitor(page, its)
    visitor.click("link", "Event$")
    expect(page.get_by_text(its.event, exact=True)).to_be_visible()
    correct_row(its)  # it is tried again after seconds, in which the other tests run


def test_a_type_is_resumed_by_one_click(situations: dict[str, Situation], page: Page) -> None:
    its = situations["paused"]
    visitor = Visitor(page, its)
    visitor.click("button", f"Resume event type {its.type}")
    visitor.reads("No problem")
    delivered(its, WAITING)


@pytest.mark.parametrize(
    ("name", "action"), [("key_held_by_dead", "Replay"), ("key_held_by_retrying", "Retry")], ids=["dead", "retrying"]
)
def test_a_key_is_freed_by_two_clicks(situations: dict[str, Situation], page: Page, name: str, action: str) -> None:
    its = situations[name]
    its.mend_broker()
    visitor = Visitor(page, its)
    visitor.click("link", "Event$")
    expect(page.get_by_text(its.head, exact=True)).to_be_visible()
    visitor.click("button", action)
    delivered(its, WAITING + 1)
    assert visitor.clicks == 2


def test_a_cause_and_all_dead_events_are_replayed_by_two_clicks(situations: dict[str, Situation], page: Page) -> None:
    its = situations["many_dead"]
    visitor = Visitor(page, its)
    visitor.click("link", "Replay all HTTP_")
    visitor.reads("^75 events")
    visitor = Visitor(page, its)
    visitor.click("link", "Replay all dead")
    visitor.reads("3,000 events")
    page.get_by_label("Events a second").fill("")
    visitor.click("button", "Replay")
    visitor.reads("of 3,000 events")
    delivered(its, 3000)


def test_a_destination_that_comes_back_and_a_row_that_is_corrected_need_no_click(
    situations: dict[str, Situation],
) -> None:
    situations["away"].proxy.set(Mode.FLOW)
    correct_row(situations["refused"])
    for name in ("away", "refused"):
        delivered(situations[name], WAITING)
