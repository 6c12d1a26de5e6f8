"""People with a login in a browser: what an operator does on an event and, without scripts, on every page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from playwright.sync_api import Browser, Locator, Page, expect

from tests.console.access.making import token, tokens_file
from tests.console.serving import serving
from tests.outbox.admin.filling import fill_aged
from tests.support.console import watched
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row, give_rights
from tests.support.waiting import DEADLINE, patience, wait_until

_OPERATOR = "operator-token"


@pytest.fixture
def console(recorded: Outbox, tmp_path: Path) -> Iterator[str]:
    """The address of a console that asks for a login."""
    log = recorded.url_of("console")
    with serving(log, CONSOLE_TOKENS_FILE=str(tokens_file(tmp_path)), DELIVERY_LOG_URL=log) as address:
        yield address


def logged_in(browser: Browser, address: str, scripts: bool = True) -> Page:
    """A page of its own, at the overview, logged in as the operator."""
    page = browser.new_context(java_script_enabled=scripts).new_page()
    page.set_default_timeout(patience(DEADLINE) * 1000)
    page.goto(f"{address}/")
    page.get_by_label("Token").fill(token(_OPERATOR))
    page.get_by_role("button", name="Log in with the token").click()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    expect(page.locator(".who")).to_contain_text(f"{_OPERATOR}, operator")
    return page


def change(page: Page, action: str, reason: str) -> None:
    """Fill the form of an action on an event, a type or a selection, send it, and wait for the page that answers."""
    form = page.locator("main form").filter(has=page.get_by_role("button", name=action, exact=True))
    form.get_by_label("Reason").fill(reason)
    _leave(page, form.get_by_role("button"))


def _leave(page: Page, link: Locator) -> None:
    """Click on what leads to another page, and wait for that: a page that is being left cannot be loaded again."""
    with page.expect_navigation():
        link.click()


def test_an_event_shows_every_attempt_and_is_replayed_when_the_cause_is_gone(
    recorded: Outbox, console: str, browser: Browser, daemon: StartDaemon, redis_url: str
) -> None:
    stream = recorded.database.name
    with redis.Redis.from_url(redis_url) as client:
        client.set(stream, "no stream")
        log = {"DELIVERY_LOG_URL": recorded.url, "DELIVERY_LOG_FLUSH_INTERVAL": "50ms"}
        relay = daemon(PUBLISHER_TYPE="redis", PUBLISHER_URL=redis_url, RETRY_MAX_ATTEMPTS="1", **log).wait_ready()
        [event] = recorded.insert([Row(stream, b"the payload")])
        wait_until(lambda: relay.metric("openoutbox_log_written_total") == 1, what="the failed attempt in the log")
        wait_until(lambda: recorded.counts() == {"DEAD": 1}, what="the death")
        with recorded.database.connect() as connection:
            give_rights(connection)  # on the log's tables, which the relay has made
        page = logged_in(browser, console)
        complaints = watched(page)
        page.goto(f"{console}/events/{event}")
        expect(page.get_by_text("the payload")).to_be_visible()
        attempts = page.get_by_role("region", name="Attempts").locator("tbody tr")
        expect(attempts).to_have_count(1)
        expect(attempts).to_contain_text("WRONGTYPE")
        client.delete(stream)
        change(page, "Replay", "the key is free")
        expect(page.get_by_role("status")).to_contain_text("The event was changed")
        wait_until(lambda: client.xlen(stream) == 1, what="the message")
        wait_until(lambda: relay.metric("openoutbox_log_written_total") == 2, what="the second attempt in the log")
        client.delete(stream)
    page.goto(f"{console}/events/{event}")
    expect(page.get_by_text("DELIVERED", exact=True)).to_be_visible()
    expect(attempts).to_have_count(2)
    expect(attempts.first).to_contain_text("success")
    attempts.last.get_by_role("link").click()
    expect(page.locator("main")).to_contain_text("WRONGTYPE")
    assert complaints == []


def test_every_change_is_made_without_scripts_and_recorded_with_its_name(
    recorded: Outbox, console: str, browser: Browser
) -> None:
    fill_aged(recorded, "DEAD", 80)
    recorded.database.run("UPDATE openoutbox_events SET event_type = 't', last_error = 'E: x'")
    recorded.database.run("GRANT DELETE ON openoutbox_events TO openoutbox_console")
    recorded.insert([Row("waiting"), Row("waiting")])
    recorded.database.run(
        "UPDATE openoutbox_events SET available_at = now() + interval '1 day' WHERE event_type = 'waiting'"
    )
    page = logged_in(browser, console, scripts=False)
    _change_one_event(page)
    _change_many(page)
    _pause_and_resume(page)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto(f"{console}/events")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    rows = recorded.database.run("SELECT action, changed_by, reason FROM openoutbox_changes ORDER BY started_at")
    assert [(action, reason) for action, _, reason in rows] == [
        ("cancel", "no longer true"),
        ("retry", "now"),
        ("bury", "wrong"),
        ("replay", "a few first"),
        ("replay", "repaired"),
        ("pause", "repair"),
        ("resume", ""),
        ("pause", "all"),
        ("resume", ""),
    ]
    assert {name for _, name, _ in rows} == {_OPERATOR}


def _visit(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()


def _change_one_event(page: Page) -> None:
    """From a search: cancel one, then retry and bury the other."""
    for actions in ((("Cancel", "no longer true"),), (("Retry", "now"), ("Bury", "wrong"))):
        _visit(page, "Events")
        page.get_by_label("Status").select_option("PENDING")
        page.get_by_label("Type", exact=True).fill("waiting")
        page.get_by_role("button", name="Search").click()
        page.get_by_role("row").get_by_role("link", name="waiting").first.click()
        for action, reason in actions:
            change(page, action, reason)
            told = "The event was changed" if action != "Cancel" else "complete"
            expect(page.get_by_text(told).first).to_be_visible()


def _change_many(page: Page) -> None:
    """Replay a group of dead letters: one slowly, and stopped; the rest at once, followed by loading the page again."""
    _begin_replay(page, rate="1", reason="a few first")
    _leave(page, page.get_by_role("button", name="Stop"))
    wait_until(lambda: bool(page.reload()) and page.get_by_text("stopped", exact=True).is_visible(), what="the stop")
    _begin_replay(page, rate="", reason="repaired")
    wait_until(lambda: bool(page.reload()) and page.get_by_text("complete").is_visible(), what="the replay")
    _visit(page, "Dead letters")
    expect(page.get_by_role("link", name="Replay all E")).to_have_count(0)


def _begin_replay(page: Page, rate: str, reason: str) -> None:
    _visit(page, "Dead letters")
    page.get_by_role("link", name="Replay all E").click()
    page.get_by_label("Events a second").fill(rate)
    change(page, "Replay", reason)


def _pause_and_resume(page: Page) -> None:
    """A type from its line, and the whole outbox."""
    _visit(page, "Types")
    page.get_by_role("link", name="Pause t", exact=True).click()
    change(page, "Pause", "repair")
    page.get_by_role("button", name="Resume t").click()
    _visit(page, "Relays")
    page.get_by_label("What").select_option("the whole outbox")
    change(page, "Pause", "all")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)


@pytest.mark.parametrize("by", ["an ended login", "a login in another tab"])
def test_a_form_survives_its_login(recorded: Outbox, console: str, browser: Browser, by: str) -> None:
    [event] = recorded.insert([Row("t", b"{}")])
    page = logged_in(browser, console)
    page.goto(f"{console}/events/{event}")
    page.get_by_label("Reason").fill('partner\'s wish, "as agreed" & more')
    page.context.clear_cookies()
    if by == "a login in another tab":
        other = page.context.new_page()
        other.goto(f"{console}/logins")
        other.get_by_label("Token").fill(token(_OPERATOR))
        _leave(other, other.get_by_role("button"))
    _leave(page, page.get_by_role("button", name="Bury"))
    if by == "an ended login":
        expect(page.get_by_role("status")).to_contain_text("what you wrote is kept")
        expect(page.locator("dl")).to_contain_text('partner\'s wish, "as agreed" & more')
        page.get_by_label("Token").fill("wrong")
        _leave(page, page.get_by_role("button"))
        expect(page.get_by_role("alert")).to_contain_text("The token is wrong")
        page.get_by_label("Token").fill(token(_OPERATOR))
        _leave(page, page.get_by_role("button"))
    expect(page.get_by_role("status")).to_contain_text(f"Send it as {_OPERATOR}?")
    assert recorded.counts() == {"PENDING": 1}
    _leave(page, page.get_by_role("button", name="Send"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("DEAD")
    [(reason, who)] = recorded.database.run("SELECT reason, changed_by FROM openoutbox_changes")
    assert (reason, who) == ('partner\'s wish, "as agreed" & more', _OPERATOR)
