"""Deleting old events through the console: who may, what is recorded, and how it is stopped."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.console.conftest import ConsoleClient
from tests.console.test_api import API, key, problem
from tests.console.test_pages import send, text_of
from tests.outbox.admin.filling import fill_aged, fill_old
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until

AGES = {"delivered_days": 7, "dead_days": 30, "reason": "full disk"}
_SLOW_DELETE = """
CREATE FUNCTION wait() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.001); RETURN OLD; END $$;
CREATE TRIGGER slow BEFORE DELETE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION wait();
"""


@pytest.fixture
def pruned(recorded: Outbox) -> Outbox:
    """An outbox whose console may delete, with old events, and new ones of all statuses."""
    recorded.database.run("GRANT DELETE ON openoutbox_events TO openoutbox_console")
    fill_old(recorded, "DELIVERED", 12)
    fill_old(recorded, "DEAD", 3)
    for status in ("DELIVERED", "DEAD"):
        fill_aged(recorded, status, 2)
    recorded.fill("t", 1)
    return recorded


def test_old_events_are_counted_deleted_once_and_recorded(console: ConsoleClient, pruned: Outbox) -> None:
    counts = console.post(f"{API}/prune", json=AGES | {"dry_run": True})
    preview = counts.json()
    assert (counts.status_code, preview) == (200, {"delivered": 12, "dead": 3, "exact": True, "at": preview["at"]})
    headers = key()
    begun = console.post(f"{API}/prune", json=AGES, headers=headers)
    place = begun.headers["location"]
    wait_until(lambda: console.get(place).json()["state"] != "running", what="the prune")
    change = console.get(place).json()
    assert [change[name] for name in ("action", "state", "events", "expected")] == ["prune", "complete", 15, 15]
    assert (change["selection"], change["reason"]) == ({"delivered_days": 7.0, "dead_days": 30.0}, "full disk")
    assert pruned.counts() == {"DELIVERED": 2, "DEAD": 2, "PENDING": 1}
    fill_old(pruned, "DEAD", 1)
    assert console.post(f"{API}/prune", json=AGES, headers=headers).json() == change
    other = console.post(f"{API}/prune", json=AGES | {"dead_days": 0}, headers=headers)
    assert problem(other) == (422, "idempotency-key-reused")
    assert pruned.counts()["DEAD"] == 3


@pytest.mark.parametrize(
    "body",
    [{"delivered_days": 0, "dead_days": 0}, {"delivered_days": -1}, {"dead_days": 36_501}, {"older_than": 7}],
    ids=str,
)
def test_ages_that_are_none_are_refused(console: ConsoleClient, pruned: Outbox, body: dict[str, float]) -> None:
    assert problem(console.post(f"{API}/prune", json=body, headers=key())) == (422, "invalid-request")
    assert console.get(f"{API}/changes").json()["items"] == []


def test_without_the_right_nothing_begins_and_the_answer_names_the_grant(
    console: ConsoleClient, recorded: Outbox
) -> None:
    fill_old(recorded, "DEAD", 3)
    grant = "GRANT SELECT, DELETE, UPDATE (updated_at)"
    for body in (AGES, AGES | {"dry_run": True}):
        refused = console.post(f"{API}/prune", json=body, headers=key())
        assert problem(refused) == (503, "table-unusable")
        assert grant in refused.json()["detail"]
    assert console.get(f"{API}/changes").json()["items"] == []
    page = console.get("/prune")
    assert "3 events from before" in text_of(page)
    assert grant in text_of(page)
    assert 'method="post" action="/prune"' not in page.text


def test_the_form_deletes_what_it_has_counted(console: ConsoleClient, pruned: Outbox) -> None:
    page = console.get("/prune?delivered_days=&dead_days=30")
    assert "Delivered left alone" in text_of(page)
    assert "Delete 3 events" in text_of(page)
    [form] = re.findall(r'(?s)<form method="post" action="/prune".*?</form>', page.text)
    hidden = {name: unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)}
    begun = send(console, "/prune", **hidden, reason="full disk")
    assert begun.status_code == 303
    wait_until(lambda: "complete 3 of 3 events" in text_of(console.get(begun.headers["location"])), what="the prune")
    assert "dead for more than 30 d" in text_of(console.get("/changes"))
    assert pruned.counts() == {"DELIVERED": 14, "DEAD": 2, "PENDING": 1}
    assert "No event is that old" in text_of(console.get("/prune?delivered_days=&dead_days=30"))
    assert "should be a valid number" in text_of(console.get("/prune?dead_days=old"))


def test_what_comes_of_age_after_the_count_is_left_out(console: ConsoleClient, pruned: Outbox) -> None:
    age = "UPDATE openoutbox_events SET updated_at = %s::timestamptz - interval '30 days' WHERE event_type = 'DEAD-1'"
    at = console.get(f"{API}/prune-preview").json()["at"]
    pruned.database.run(age, [at])
    later = AGES | {"as_of": "9999-01-01T00:00:00Z"}
    counts = [
        console.post(f"{API}/prune", json=body | {"dry_run": True}).json() for body in (AGES | {"as_of": at}, later)
    ]
    assert [count["dead"] for count in counts] == [3, 4]
    begun = console.post(f"{API}/prune", json=AGES | {"as_of": at}, headers=key())
    wait_until(lambda: console.get(begun.headers["location"]).json()["state"] == "complete", what="the prune")
    assert pruned.counts()["DEAD"] == 2


def test_ages_must_be_sent_by_the_form_that_deletes(console: ConsoleClient, pruned: Outbox) -> None:
    assert send(console, "/prune", delivered_days="7").status_code == 422
    assert pruned.counts()["DELIVERED"] == 14


def test_it_stops_while_it_rests_for_the_relays(console: ConsoleClient, pruned: Outbox) -> None:
    fill_old(pruned, "DELIVERED", 3000)
    pruned.database.run(_SLOW_DELETE)
    place = console.post(f"{API}/prune", json=AGES, headers=key()).headers["location"]
    wait_until(lambda: console.get(place).json()["events"] > 0, what="the first batch")
    console.post(f"{place}/stop")
    wait_until(lambda: console.get(place).json()["state"] != "running", what="the stop")
    change = console.get(place).json()
    assert [change[name] for name in ("state", "events", "error")] == ["stopped", 1000, "stopped by local"]
    assert pruned.counts()["DELIVERED"] == 2014
