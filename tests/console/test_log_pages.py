"""The pages of the delivery log: what they show to whom, and where they lead."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from tests.console.access.making import token, tokens_file
from tests.console.conftest import ConsoleClient, client_of
from tests.console.stocking import stock_log
from tests.console.test_log_api import NOWHERE, write
from tests.console.test_pages import text_of
from tests.deliverylog.making import entry, event
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.postgres import Database

HTMX = {"HX-Request": "true"}


@pytest.fixture
def console(database: Database) -> Iterator[ConsoleClient]:
    """A console with a log of 120 attempts."""
    stock_log(database.url)
    client = client_of(NOWHERE, DELIVERY_LOG_URL=database.url)
    yield client
    asyncio.run(client.app.state.console.log.close())


def links(page: str, pattern: str) -> list[str]:
    return [unescape(address) for address in re.findall(rf'href="({pattern})"', page)]


def test_a_search_is_paged_in_both_directions(console: ConsoleClient) -> None:
    first = console.get("/log")
    assert first.status_code == 200
    assert first.text.count("<tr>") == 51
    [older] = links(first.text, r"/log\?next=[^\"]+")
    second = console.get(older)
    assert "Newer" in text_of(second)
    [oldest] = links(second.text, r"/log\?next=[^\"]+")
    assert console.get(oldest).text.count("<tr>") == 21
    [newer] = links(second.text, r"/log\?prev=[^\"]+")
    attempts = links(first.text, r"/log/attempts/[^\"]+")
    assert links(console.get(newer).text, r"/log/attempts/[^\"]+") == attempts
    assert "hx-get" not in second.text  # the chart is counted once, not for each page


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("status=failed", 18),
        ("status=failed&tenant=acme", 9),
        ("topic=order.paid&code=MSG_SIZE_TOO_LARGE", 6),
        ("destination=nowhere", 0),
        ("since=2020-01-01T00:00&until=2020-01-02T00:00", 0),
    ],
)
def test_filters(console: ConsoleClient, query: str, count: int) -> None:
    page = console.get(f"/log?{query}")
    assert len(links(page.text, r"/log/attempts/[^\"]+")) == count
    assert ("No attempt matches" in page.text) == (count == 0)


def test_the_chart_counts_what_the_search_names(console: ConsoleClient) -> None:
    [address] = re.findall(r'hx-get="(/log/chart[^"]+)"', console.get("/log?tenant=acme&status=").text)
    assert unescape(address) == "/log/chart?tenant=acme"
    chart = console.get(unescape(address), headers=HTMX)
    assert "<html" not in chart.text
    [plot] = re.findall(r'data-plot="([^"]+)"', chart.text)
    counts = json.loads(unescape(plot))
    assert (sum(counts["events"]), sum(counts["failures"])) == (51, 9)
    assert len(counts["times"]) in (60, 61)
    assert "51 delivered, 9 failed attempts, 15.0%" in text_of(chart)
    assert "<html" in console.get("/log/chart").text
    refused = console.get("/log/chart?since=2026-01-02T00:00&until=2026-01-01T00:00", headers=HTMX)
    assert refused.status_code == 200
    assert "Not counted" in text_of(refused)


def test_failed_attempts_by_type_and_code_lead_to_their_search(console: ConsoleClient) -> None:
    failures = console.get("/log/failures", headers=HTMX)
    assert "<html" not in failures.text
    assert "18 in the delivery log" in text_of(failures)
    counts = [int(count) for count in re.findall(r'number bad">(\d+)<', failures.text)]
    assert (sum(counts), counts) == (18, sorted(counts, reverse=True))
    searches = links(failures.text, r"/log\?status=failed[^\"]+")
    assert [len(links(console.get(each).text, r"/log/attempts/[^\"]+")) for each in searches] == counts
    assert "<html" in console.get("/log/failures").text


def test_a_log_that_does_not_answer_costs_the_overview_its_part_alone(recorded: Outbox) -> None:
    without, away = client_of(recorded.url), client_of(recorded.url, DELIVERY_LOG_URL=NOWHERE)
    assert "/log/failures" not in without.get("/").text
    assert 'hx-get="/log/failures"' in away.get("/").text
    assert "Not counted" in text_of(away.get("/log/failures", headers=HTMX))
    asyncio.run(away.app.state.console.log.close())


def test_an_attempt_and_its_event(console: ConsoleClient) -> None:
    page = console.get("/log/attempts/attempt-7?tenant_id=acme")
    assert "out of quota" in page.text
    assert "MSG_SIZE_TOO_LARGE" in page.text
    [address] = links(page.text, r"/log/events/[^\"]+")
    shown = console.get(address)
    assert "the payload" in shown.text
    assert "the header" in shown.text
    assert links(shown.text, r"/log/attempts/[^\"]+") == ["/log/attempts/attempt-7?tenant_id=acme"]
    assert console.get("/log?event=event-7").headers["location"] == "/log/events/event-7"
    for path in ("/log/attempts/none", "/log/events/none", "/log/attempts/attempt-7?tenant_id=globex"):
        assert console.get(path).status_code == 404


def test_what_the_log_holds_is_shown_and_never_run() -> None:
    console = client_of(NOWHERE, DELIVERY_LOG_URL="memory://")
    attack = "<script>alert(1)</script>"
    its = event(f"e/?{attack}#", topic=attack, tenant_id=f'"{attack}', data=attack.encode(), metadata={attack: attack})
    write(console, [entry(f"a/?{attack}#", of=its, code=attack, response_data={attack: attack}, destination_id=attack)])
    page = console.get("/log")
    [attempt] = links(page.text, r"/log/attempts/[^\"]+")
    [address] = links(page.text, r"/log/events/[^\"]+")
    for path in ("/log", attempt, address):
        answer = console.get(path)
        assert answer.status_code == 200, path
        assert attack not in answer.text
        assert attack in text_of(answer)
    asyncio.run(console.app.state.console.log.close())


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/log?since=yesterday", 422, "is not a time"),
        ("/log?next=x", 400, "Invalid cursor"),
        ("/log?status=lost", 400, "Unknown status"),
        ("/log?topic=%00", 422, "NUL"),
        ("/log?next=a&prev=b", 400, "exclude each other"),
    ],
)
def test_errors_are_pages(path: str, status: int, message: str) -> None:
    console = client_of(NOWHERE, DELIVERY_LOG_URL="memory://")
    response = console.get(path)
    assert response.status_code == status
    assert message in text_of(response)
    asyncio.run(console.app.state.console.log.close())


def test_without_a_log_the_page_says_how_to_get_one() -> None:
    page = client_of(NOWHERE).get("/log")
    assert page.status_code == 200
    assert "relay-cli log migrate" in text_of(page)


def test_each_role_sees_what_it_may(database: Database, tmp_path: Path) -> None:
    stock_log(database.url)
    console = client_of(NOWHERE, DELIVERY_LOG_URL=database.url, CONSOLE_TOKENS_FILE=str(tokens_file(tmp_path)))
    secrets = {"/log/attempts/attempt-7": ("out of quota",), "/log/events/event-7": ("the payload", "the header")}
    for path in ("/log", "/log/chart", *secrets):
        assert console.get(path).status_code == 401
        for role in ("reader", "operator", "admin"):
            page = console.get(path, headers={"Authorization": f"Bearer {token(f'{role}-token')}"})
            assert page.status_code == 200
            for secret in secrets.get(path, ()):
                assert (secret in page.text) == (role != "reader"), (path, role)
    asyncio.run(console.app.state.console.log.close())


def test_an_events_page_leads_to_its_attempts(recorded: Outbox) -> None:
    [id_] = recorded.insert([Row("t")])
    stock_log(recorded.url, 8, event_id=id_)
    console = client_of(recorded.url_of("console"), DELIVERY_LOG_URL=recorded.url)
    page = console.get(f"/events/{id_}").text
    assert links(page, r"/log/[^\"]+") == [f"/log/events/{id_}", "/log/attempts/attempt-7?tenant_id=acme"]
    assert links(console.get(f"/log/events/{id_}").text, r"/events[^\"]+") == [f"/events?event_id={id_}"]
    asyncio.run(console.app.state.console.log.close())
