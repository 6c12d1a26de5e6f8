"""Replay takes back exactly what was asked for, once, and remembers it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from relay.core.errors import ConfigError, StorageBusy
from relay.outbox.admin.replay import Replayed, ReplayOptions, ReplayRefused, preview, replay
from relay.outbox.admin.selection import Kind, Selection
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.outbox.admin.filling import fill_aged, left
from tests.support.fixtures.outbox import Outbox

TABLE = TableName()
BOTH: tuple[Kind, ...] = ("dead", "delivered")
GRANT = "GRANT INSERT ON openoutbox_replays TO openoutbox_relay"


def fill(outbox: Outbox) -> None:
    """40 dead, 40 delivered, 3 pending."""
    fill_aged(outbox, "DEAD", 40)
    fill_aged(outbox, "DELIVERED", 40)
    fill_aged(outbox, "PENDING", 3)


def ids(outbox: Outbox, *names: str) -> tuple[UUID, ...]:
    rows = outbox.database.run("SELECT event_id FROM openoutbox_events WHERE event_type = ANY(%s)", [list(names)])
    return tuple(id_ for (id_,) in rows)


def test_a_replayed_event_is_as_if_never_tried_and_otherwise_unchanged(outbox: Outbox) -> None:
    fill(outbox)
    columns = "event_id, event_type, partition_key, payload, headers::text, created_at"
    before = sorted(outbox.rows(columns), key=lambda row: str(row[0]))
    replay(outbox.relay_url, TABLE, Selection(BOTH, since=timedelta(days=10)), ReplayOptions())
    assert sorted(outbox.rows(columns), key=lambda row: str(row[0])) == before
    assert outbox.counts() == {"PENDING": 83}
    state = "status, attempts, last_error, delivered_at, locked_by, locked_at"
    assert set(outbox.rows(state)) == {("PENDING", 0, None, None, None, None)}
    due = "SELECT count(*) FROM openoutbox_events WHERE available_at <= NOW() AND updated_at = available_at"
    assert outbox.database.run(due) == [(80,)]
    outbox.check_invariants()


@pytest.mark.parametrize(
    ("selection", "dead", "delivered"),
    [
        (Selection(), set(range(1, 41)), set()),
        (Selection(("delivered",)), set(), set(range(1, 41))),
        (Selection(event_type="DEAD-7"), {7}, set()),
        (Selection(BOTH, partition_key="key-3"), {3, 13, 23, 33}, {3, 13, 23, 33}),
        (Selection(BOTH, since=timedelta(hours=5, minutes=30)), set(range(1, 6)), set(range(1, 6))),
        (Selection(until=timedelta(hours=38, minutes=30)), {39, 40}, set()),
        (Selection(BOTH, since=timedelta(hours=2.5), until=timedelta(hours=1.5)), {2}, {2}),
        (Selection(event_type="DEAD-7", partition_key="key-8"), set(), set()),
        (Selection(BOTH, until=datetime(2999, 1, 1, tzinfo=UTC)), set(range(1, 41)), set(range(1, 41))),
    ],
)
def test_only_what_meets_every_condition_is_taken(
    outbox: Outbox, selection: Selection, dead: set[int], delivered: set[int]
) -> None:
    fill(outbox)
    expected = Replayed(dead=len(dead), delivered=len(delivered))
    assert preview(outbox.relay_url, TABLE, selection, ReplayOptions()) == expected
    assert outbox.counts() == {"DEAD": 40, "DELIVERED": 40, "PENDING": 3}
    assert replay(outbox.relay_url, TABLE, selection, ReplayOptions(batch_size=3)) == expected
    assert set(range(1, 41)) - set(left(outbox, "DEAD")) == dead
    assert set(range(1, 41)) - set(left(outbox, "DELIVERED")) == delivered


def test_a_moment_is_as_good_as_an_age(outbox: Outbox) -> None:
    fill(outbox)
    moment = datetime.now(UTC) - timedelta(hours=2.5)
    chosen = Selection(BOTH, since=moment, until=timedelta(hours=1.5))
    assert preview(outbox.relay_url, TABLE, chosen, ReplayOptions()) == Replayed(dead=1, delivered=1)
    assert replay(outbox.relay_url, TABLE, chosen, ReplayOptions()) == Replayed(dead=1, delivered=1)
    assert 2 not in left(outbox, "DEAD")


def test_by_id(outbox: Outbox) -> None:
    fill(outbox)
    chosen = ids(outbox, "DEAD-3", "DELIVERED-4", "PENDING-1")
    assert replay(outbox.relay_url, TABLE, Selection(BOTH, ids=chosen), ReplayOptions()).total == 2
    assert replay(outbox.relay_url, TABLE, Selection(BOTH, ids=chosen), ReplayOptions()).total == 0


def test_the_limit_takes_the_oldest_across_batches(outbox: Outbox) -> None:
    fill(outbox)
    options = ReplayOptions(limit=5, batch_size=2)
    assert preview(outbox.relay_url, TABLE, Selection(), options).dead == 5
    assert replay(outbox.relay_url, TABLE, Selection(), options).dead == 5
    assert left(outbox, "DEAD") == list(range(1, 36))


def test_an_event_that_dies_again_meanwhile_is_not_taken_twice(outbox: Outbox) -> None:
    fill_aged(outbox, "DEAD", 10)

    def dies_again(_: Replayed) -> None:
        outbox.database.run("UPDATE openoutbox_events SET status = 'DEAD', updated_at = NOW() WHERE status = 'PENDING'")

    assert replay(outbox.relay_url, TABLE, Selection(), ReplayOptions(batch_size=2), dies_again).dead == 10


def test_leased_and_pending_events_are_left_alone(outbox: Outbox) -> None:
    fill_aged(outbox, "PENDING", 4)
    outbox.database.run("UPDATE openoutbox_events SET attempts = 3, last_error = 'x'")
    lease = (
        "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'r', locked_at = NOW() WHERE event_type = %s"
    )
    outbox.database.run(lease, ["PENDING-1"])
    before = outbox.rows("*")
    assert replay(outbox.relay_url, TABLE, Selection(BOTH), ReplayOptions()).total == 0
    assert outbox.rows("*") == before


def test_it_stands_back_behind_a_locked_table(outbox: Outbox) -> None:
    fill_aged(outbox, "DEAD", 3)
    with outbox.database.connect(autocommit=False) as other:
        other.execute("LOCK TABLE openoutbox_events IN EXCLUSIVE MODE")
        with pytest.raises(StorageBusy, match="lock timeout"):
            replay(outbox.relay_url, TABLE, Selection(), ReplayOptions())
        other.rollback()


def test_every_event_is_recorded_in_its_own_transaction(outbox: Outbox) -> None:
    fill(outbox)
    for _ in range(2):
        add_extension(outbox.owner_url, TABLE, "replay-audit")
    outbox.database.run(GRANT)
    options = ReplayOptions(batch_size=3, reason="the broker's disk", who="jo@host")
    selection = Selection(BOTH, since=timedelta(hours=4.5))
    assert replay(outbox.relay_url, TABLE, selection, options) == Replayed(delivered=4, dead=4, recorded=True)
    columns = "from_status, from_attempts, from_error, outbox, reason, replayed_by"
    rows: list[Any] = outbox.database.run(f"SELECT {columns} FROM openoutbox_replays ORDER BY from_status, from_since")
    common = ("openoutbox_events", "the broker's disk", "test_relay (jo@host)")
    assert rows == [
        *[("DEAD", 25, f"FATAL: no {n}", *common) for n in (4, 3, 2, 1)],
        *[("DELIVERED", 0, None, *common)] * 4,
    ]
    matching = (
        "SELECT count(*) FROM openoutbox_replays JOIN openoutbox_events USING (event_id) WHERE status = 'PENDING'"
    )
    assert outbox.database.run(matching) == [(8,)]
    assert outbox.database.run("SELECT count(DISTINCT replay_id) FROM openoutbox_replays") == [(1,)]


def test_what_cannot_be_recorded_is_not_replayed(outbox: Outbox) -> None:
    fill_aged(outbox, "DEAD", 4)
    add_extension(outbox.owner_url, TABLE, "replay-audit")
    outbox.database.run(GRANT)
    outbox.database.run("ALTER TABLE openoutbox_replays ADD CHECK (reason <> '')")
    with pytest.raises(Exception, match="check constraint"):
        replay(outbox.relay_url, TABLE, Selection(), ReplayOptions())
    assert outbox.counts() == {"DEAD": 4}


def test_an_unknown_extension_is_refused(outbox: Outbox) -> None:
    with pytest.raises(ConfigError, match=r"extension 'nonsense' does not exist; the extensions are .*replay-audit"):
        add_extension(outbox.owner_url, TABLE, "nonsense")


def test_what_the_broker_would_drop_is_refused_and_nothing_is_done(outbox: Outbox) -> None:
    fill(outbox)
    options = ReplayOptions(duplicate_window=3600 * 2.5)
    refusal = r"of these events, 2 .* Run it after (\d{4}-\S+), .*--to 150m"
    with pytest.raises(ReplayRefused, match=refusal) as refused:
        replay(outbox.relay_url, TABLE, Selection(BOTH), options)
    [(newest,)] = outbox.database.run("SELECT max(delivered_at) FROM openoutbox_events")
    [until] = re.findall(refusal, str(refused.value))
    assert newest + timedelta(hours=2.5) < datetime.fromisoformat(until) <= newest + timedelta(hours=2.5, seconds=1)
    with pytest.raises(ReplayRefused):
        preview(outbox.relay_url, TABLE, Selection(("delivered",), ids=ids(outbox, "DELIVERED-1")), options)
    assert outbox.counts() == {"DEAD": 40, "DELIVERED": 40, "PENDING": 3}
    assert replay(outbox.relay_url, TABLE, Selection(), options).dead == 40
    older = Selection(("delivered",), until=timedelta(minutes=150))
    assert replay(outbox.relay_url, TABLE, older, options).delivered == 38
