"""docs/reference/conformance.md#states on a table made by hand, in every state that was ever committed."""

from __future__ import annotations

import pytest
from psycopg import sql

from tests.support.fixtures.nats import MakeStream
from tests.support.waiting import eventually, patience, wait_until
from tests.system.contract.conftest import Watch
from tests.system.contract.history import Change, WatchedTable, relay_of

ALLOWED = {
    ("PENDING", "DELIVERING"),
    ("DELIVERING", "DELIVERED"),
    ("DELIVERING", "PENDING"),
    ("DELIVERING", "DEAD"),
    ("DELIVERING", "DELIVERING"),
}
PACE = {"RETRY_MAX_ATTEMPTS": "3", "RETRY_BASE_DELAY": "400ms", "RETRY_MAX_DELAY": "500ms", "RETRY_JITTER": "0.5"}
DELAYS = {1: (0.4, 0.6), 2: (0.5, 0.75)}
"""Bounds of the delay after the first and second failure: base and twice the base, cut to the longest, and jitter."""
LEASE = 4.0


def check(changes: list[Change]) -> None:
    """What holds for every change of every row."""
    for change in changes:
        assert change.same, "a column of the application's changed"
        assert change.step in ALLOWED
        assert change.updated_at > change.was_updated_at
        assert (change.status == "DELIVERING") == (change.locked_at is not None) == (change.locked_by is not None)
        assert (change.status == "DELIVERED") == (change.delivered_at is not None)
        if change.status == "DELIVERING":
            assert change.attempts == change.was_attempts
            assert change.available_at == change.was_available_at
        if change.step == ("PENDING", "DELIVERING"):
            assert change.locked_at is not None
            assert change.locked_at >= change.available_at, "claimed before its time"


def check_retried(change: Change, attempts: int) -> None:
    least, most = DELAYS[attempts]
    assert change.step == ("DELIVERING", "PENDING")
    assert (change.was_attempts, change.attempts) == (attempts - 1, attempts)
    assert change.last_error
    assert least - 1e-5 <= change.delay <= most + 1e-5


async def test_every_way_of_an_event_through_the_states(watch: Watch, nats_url: str, stream: MakeStream) -> None:
    table, name = watch(), await stream()
    hour_ago, later = sql.SQL("now() - interval '1 hour'"), sql.SQL("now() + interval '3 seconds'")
    leased = {"status": "DELIVERING", "locked_by": "another's"}
    good = table.insert(name.subject())
    good_again = table.insert(name.subject(), attempts=2, last_error="before")
    scheduled = table.insert(name.subject(), available_at=later)
    absent = table.insert(f"absent{name.prefix}.x")
    impossible = table.insert("two words")
    expired = table.insert(name.subject(), **leased, locked_at=hour_ago)
    expired_last = table.insert(name.subject(), **leased, locked_at=hour_ago, attempts=2)
    held = table.insert(name.subject(), **leased, locked_at=sql.SQL("now()"), attempts=1)
    delivered = table.insert(name.subject(), status="DELIVERED", delivered_at=hour_ago)
    dead = table.insert(name.subject(), status="DEAD", attempts=1)
    env = {"PUBLISHER_TYPE": "nats", "PUBLISHER_URL": nats_url, "LEASE_TIMEOUT": f"{LEASE:g}s", **PACE}
    with relay_of(table, **env) as relay:
        done = {"DELIVERED", "DEAD"}
        await eventually(lambda: relay.running and set(table.statuses().values()) == done, what="every row to be done")

        def counted() -> tuple[float, ...]:
            return tuple(relay.metric("openoutbox_events_total", status=status) for status in ("failed", "success"))

        # A write is counted just after its commit. The leases that were taken back are failed attempts, too.
        await eventually(lambda: counted() == (4 + 3, 5), what="all to be counted")
        reaped = {how: relay.metric("openoutbox_leases_reaped_total", result=how) for how in ("retried", "dead")}
        assert relay.stop() == 0
    for event_id in table.statuses():
        check(table.changes(event_id))
    check_delivered_at_once(table, good, scheduled)
    assert (table.row(good_again)["attempts"], table.row(good_again)["status"]) == (2, "DELIVERED")
    assert not table.changes(delivered)
    assert not table.changes(dead)
    check_buried_at_the_last_attempt(table.changes(absent))
    check_buried(table.changes(impossible)[1:], 1)
    check_retried(table.changes(expired)[0], 1)
    assert table.row(expired)["status"] == "DELIVERED"
    check_buried(table.changes(expired_last), 3)
    check_taken_back_in_time(table.changes(held)[0])
    assert reaped == {"retried": 2, "dead": 1}


def check_delivered_at_once(table: WatchedTable, *event_ids: str) -> None:
    for event_id in event_ids:
        steps = [change.step for change in table.changes(event_id)]
        assert steps == [("PENDING", "DELIVERING"), ("DELIVERING", "DELIVERED")]
        assert table.row(event_id)["attempts"] == 0


def check_buried(changes: list[Change], attempts: int) -> None:
    [buried] = changes
    assert (buried.status, buried.attempts, bool(buried.last_error)) == ("DEAD", attempts, True)


def check_buried_at_the_last_attempt(changes: list[Change]) -> None:
    assert [change.status for change in changes] == ["DELIVERING", "PENDING"] * 2 + ["DELIVERING", "DEAD"]
    check_retried(changes[1], 1)
    check_retried(changes[3], 2)
    assert (changes[5].attempts, bool(changes[5].last_error)) == (3, True)


def check_taken_back_in_time(change: Change) -> None:
    """Not before the lease is over, and within a quarter of it (and some seconds for a machine that is busy)."""
    assert change.was_locked_at is not None
    held = (change.updated_at - change.was_locked_at).total_seconds()
    assert LEASE < held < LEASE * 1.25 + patience(4)
    check_retried(change, 2)


RELAY_IDS = ['O\'Brien "quoted" \\ %s {} $1', "rélay-✓-реле", "x" * 200, "  padded\tand\nbroken  "]


@pytest.mark.parametrize("relay_id", RELAY_IDS)
def test_locked_by_is_the_relay_id_whatever_it_is(watch: Watch, relay_id: str) -> None:
    table = watch(schema='Odd "schema" %s', table="Täble; 'x' %(y)s $1")
    event_id = table.insert("some.type")
    with relay_of(table, PUBLISHER_TYPE="null", RELAY_ID=relay_id) as relay:
        wait_until(lambda: relay.running and table.row(event_id)["status"] == "DELIVERED", what="the event's delivery")
        metrics = relay.get("/metrics")[1]
        assert relay.stop() == 0
        assert {line.get("relay_id", relay_id) for line in relay.log_lines()} == {relay_id}
    assert table.changes(event_id)[0].locked_by == relay_id
    escaped = relay_id.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    assert f'openoutbox_relay_state{{relay_id="{escaped}"}} 1.0' in metrics
