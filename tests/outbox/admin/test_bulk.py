"""Many events are changed as one is, in batches; what a relay holds or has changed meanwhile is left out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from relay.core.errors import StorageBusy
from relay.outbox.admin import examination
from relay.outbox.admin.actions import Action
from relay.outbox.admin.bulk import change_events, count_events
from relay.outbox.admin.causes import CauseName
from relay.outbox.admin.examination import ExaminedEvent
from relay.outbox.admin.replay import ReplayOptions
from relay.outbox.admin.selection import Kind, Selection, SelectionReader
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox, give_rights

TABLE = TableName()
PENDING: tuple[Kind, ...] = ("pending",)
BY_ANN = ReplayOptions(who="ann", reason="wrong import", batch_size=3)
_WAITING = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, attempts, last_error, created_at,
                               updated_at, available_at)
SELECT gen_random_uuid(), %(kind)s || '-' || n %% 3, 'key-' || n, 'x',
       CASE WHEN %(kind)s = 'failed' THEN 3 ELSE 0 END, CASE WHEN %(kind)s = 'failed' THEN 'E' || n %% 2 || ': no' END,
       NOW() - make_interval(mins => n), NOW() - make_interval(mins => n),
       NOW() + make_interval(hours => CASE WHEN %(kind)s = 'due' THEN -1 ELSE 1 END)
FROM generate_series(1, %(count)s) AS n
"""
CLAIM = (
    "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'relay-0', locked_at = NOW(), updated_at = NOW()"
)


def fill(outbox: Outbox, count: int = 12) -> None:
    """Waiting events of each sort: due, scheduled and never tried, after a failure; those of today first."""
    with outbox.database.connect() as connection:
        for kind in ("due", "scheduled", "failed"):
            connection.execute(_WAITING, {"kind": kind, "count": count})


def summary(outbox: Outbox, where: str = "TRUE") -> dict[str, int]:
    """How many events of each sort and status."""
    later = "CASE WHEN status = 'PENDING' AND available_at > now() THEN ' later' ELSE '' END"
    name = f"split_part(event_type, '-', 1) || ' ' || status || {later}"
    return dict(outbox.database.run(f"SELECT {name}, count(*) FROM openoutbox_events WHERE {where} GROUP BY 1"))


LATER = {"due PENDING": 12, "scheduled PENDING later": 12, "failed PENDING later": 12}


@pytest.mark.parametrize(
    ("action", "selection", "expected"),
    [
        (Action.RETRY, Selection(PENDING), {"due PENDING": 12, "scheduled PENDING": 12, "failed PENDING": 12}),
        (Action.BURY, Selection(PENDING), {"due DEAD": 12, "scheduled DEAD": 12, "failed DEAD": 12}),
        (Action.CANCEL, Selection(PENDING), LATER | {"scheduled PENDING later": 0}),
        (
            Action.BURY,
            Selection(PENDING, event_type="failed-1"),
            LATER | {"failed DEAD": 4, "failed PENDING later": 8},
        ),
        (Action.RETRY, Selection(PENDING, error="e1: N"), LATER | {"failed PENDING": 6, "failed PENDING later": 6}),
        (
            Action.BURY,
            Selection(PENDING, error_code="E0"),
            LATER | {"failed DEAD": 6, "failed PENDING later": 6},
        ),
        (
            Action.CANCEL,
            Selection(PENDING, since=timedelta(minutes=4.5), until=timedelta(minutes=1.5)),
            LATER | {"scheduled PENDING later": 9},
        ),
        (
            Action.BURY,
            Selection(PENDING, partition_key="key-7"),
            dict.fromkeys(LATER, 11) | {"due DEAD": 1, "scheduled DEAD": 1, "failed DEAD": 1},
        ),
    ],
)
def test_what_the_selection_names_and_the_action_allows_is_changed(
    outbox: Outbox, action: Action, selection: Selection, expected: dict[str, int]
) -> None:
    fill(outbox)
    add_extension(outbox.owner_url, TABLE, "console")
    with outbox.database.connect() as connection:
        give_rights(connection)
        connection.execute("GRANT DELETE ON openoutbox_events TO openoutbox_console")
    url = outbox.url_of("console")
    counted = count_events(url, TABLE, action, selection, BY_ANN)
    assert summary(outbox) == LATER
    totals: list[int] = []
    changed = change_events(url, TABLE, action, selection, BY_ANN, totals.append)
    assert summary(outbox) == {name: count for name, count in expected.items() if count}
    assert (counted.events, counted.exact) == (changed, True)
    assert totals == sorted(totals)
    assert totals[-1] == changed
    dead = set(outbox.database.run("SELECT last_error FROM openoutbox_events WHERE status = 'DEAD'"))
    assert dead <= {("BURIED: by ann: wrong import",)}
    kept = changed if action is Action.CANCEL else 0
    assert outbox.database.run("SELECT count(*) FROM openoutbox_cancelled WHERE NOT may_have_been_sent") == [(kept,)]
    outbox.check_invariants()
    assert change_events(url, TABLE, action, selection, BY_ANN) == 0


@pytest.mark.parametrize("bound", [None, "_MOST_JUDGED", "_MOST_ERRORS"])
def test_a_cause_is_counted_by_its_errors_or_by_reading_where_they_are_too_many(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, bound: str | None
) -> None:
    fill(outbox)
    outbox.database.run("UPDATE openoutbox_events SET last_error = 'E0: no ' || partition_key WHERE attempts > 0")
    outbox.database.run("UPDATE openoutbox_events SET last_error = 'E0: no 1 ' || repeat('x ', 400) WHERE attempts = 0")
    read: list[str] = []
    reading = SelectionReader.read

    def counting(self: SelectionReader, kind: Kind, earliest: object = None) -> Iterator[list[ExaminedEvent]]:
        read.append(kind)
        return reading(self, kind, earliest)

    monkeypatch.setattr(SelectionReader, "read", counting)
    if bound is not None:
        monkeypatch.setattr(f"relay.outbox.admin.selection.{bound}", 2)
    for error, kinds, expected in (
        ("E0: no key-9", {}, 1),
        ("E0: no key-9", {"event_type": "failed-0"}, 1),
        ("E0: no key-9", {"event_type": "failed-1"}, 0),
        ("E0: no 7 " + "x " * 500, {}, 24),
        ("E0: no 7 " + "x " * 500, {"since": timedelta(minutes=4.5)}, 8),
        ("E1: no key-9", {}, 0),
    ):
        selection = Selection(PENDING, cause=CauseName.of(error).mark, **kinds)
        counted = count_events(outbox.owner_url, TABLE, Action.BURY, selection, BY_ANN)
        assert (counted.events, counted.exact) == (expected, True), error
    assert bool(read) == (bound is not None)


def test_by_id_and_up_to_a_limit_the_oldest_first(outbox: Outbox) -> None:
    fill(outbox)
    ids: list[tuple[UUID]] = outbox.database.run("SELECT event_id FROM openoutbox_events WHERE event_type = 'due-1'")
    some = Selection(PENDING, ids=tuple(id_ for (id_,) in ids))
    assert count_events(outbox.relay_url, TABLE, Action.CANCEL, some, BY_ANN).events == 0
    assert change_events(outbox.relay_url, TABLE, Action.BURY, some, BY_ANN) == 4
    few = ReplayOptions(limit=3, batch_size=2)
    of_one_type = Selection(PENDING, event_type="failed-0")
    assert count_events(outbox.relay_url, TABLE, Action.BURY, of_one_type, few).events == 3
    assert change_events(outbox.relay_url, TABLE, Action.BURY, of_one_type, few) == 3
    left = "SELECT partition_key FROM openoutbox_events WHERE event_type = 'failed-0' AND status = 'PENDING'"
    assert outbox.database.run(left) == [("key-3",)]


def test_what_a_relay_holds_or_claims_meanwhile_is_left_out(outbox: Outbox) -> None:
    fill(outbox)
    outbox.database.run(f"{CLAIM} WHERE event_type = 'due-0'")
    with outbox.database.connect(autocommit=False) as relay:
        relay.execute(f"{CLAIM} WHERE event_type = 'due-1'")  # a claim that has not committed: it holds the rows

        def claims(total: int) -> None:
            if total == 3:  # the places of all events have been read, and the first batch is committed
                outbox.database.run(f"{CLAIM} WHERE event_type IN ('due-2', 'failed-2') AND status = 'PENDING'")

        changed = change_events(outbox.relay_url, TABLE, Action.BURY, Selection(PENDING), BY_ANN, claims)
        relay.commit()
    counts = summary(outbox)
    assert counts["due DELIVERING"] >= 8
    assert sum(count for name, count in counts.items() if "DELIVERING" in name) == 36 - changed
    assert sum(count for name, count in counts.items() if "DEAD" in name) == changed
    assert "due PENDING" not in counts
    outbox.check_invariants()


def test_an_event_that_comes_back_while_the_change_runs_is_not_taken_twice(outbox: Outbox) -> None:
    fill(outbox)

    def comes_back(_: int) -> None:
        outbox.database.run("UPDATE openoutbox_events SET status = 'PENDING', updated_at = NOW() WHERE status = 'DEAD'")

    assert change_events(outbox.relay_url, TABLE, Action.BURY, Selection(PENDING), BY_ANN, comes_back) == 36

    def fails(_: int) -> None:
        outbox.database.run(
            "UPDATE openoutbox_events SET available_at = NOW() + INTERVAL '1 hour', updated_at = NOW() "
            "WHERE available_at <= NOW()"
        )

    fails(0)
    assert change_events(outbox.relay_url, TABLE, Action.RETRY, Selection(PENDING), BY_ANN, fails) == 36


def test_what_has_moved_since_the_operator_saw_it_is_left_out(outbox: Outbox) -> None:
    fill(outbox)
    seen = count_events(outbox.relay_url, TABLE, Action.BURY, Selection(PENDING), BY_ANN)
    assert seen.events == 36
    outbox.database.run("UPDATE openoutbox_events SET attempts = 1, updated_at = NOW() WHERE event_type = 'due-0'")
    outbox.fill("new", 5)
    selection = Selection(PENDING, unchanged_since=seen.at)
    assert count_events(outbox.relay_url, TABLE, Action.BURY, selection, BY_ANN).events == 32
    assert change_events(outbox.relay_url, TABLE, Action.BURY, selection, BY_ANN) == 32
    assert summary(outbox, "status = 'PENDING'") == {"due PENDING": 4, "new PENDING": 5}


def test_another_event_in_the_place_of_one_that_was_read_is_left_alone(outbox: Outbox) -> None:
    fill(outbox)

    def replaces(_: int) -> None:
        waiting = "status = 'PENDING' AND event_type <> 'new'"
        outbox.database.run(f"DELETE FROM openoutbox_events WHERE {waiting}")
        outbox.database.run("VACUUM openoutbox_events")
        outbox.database.run(
            "INSERT INTO openoutbox_events (event_id, event_type, payload, created_at, updated_at) "
            "SELECT gen_random_uuid(), 'new', 'x', NOW() - INTERVAL '1 day', NOW() - INTERVAL '1 day' "
            "FROM generate_series(1, 40)"
        )

    changed = change_events(outbox.relay_url, TABLE, Action.BURY, Selection(PENDING), BY_ANN, replaces)
    assert changed == 3
    assert outbox.counts()["DEAD"] == 3


def test_an_event_that_has_moved_twice_and_is_in_its_place_again_is_left_alone(outbox: Outbox) -> None:
    fill(outbox)

    def moves(total: int) -> None:
        for _ in range(2 if total == 3 else 0):
            outbox.database.run("UPDATE openoutbox_events SET updated_at = NOW() WHERE status = 'PENDING'")
            outbox.database.run("VACUUM openoutbox_events")

    assert change_events(outbox.relay_url, TABLE, Action.BURY, Selection(PENDING), BY_ANN, moves) == 3


def test_a_rare_event_is_reached_in_bounded_steps_that_report(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "EXAMINED", 5)
    fill(outbox)
    outbox.fill("alike", 30)
    totals: list[int] = []
    selection = Selection(PENDING, event_type="due-1", partition_key="key-1")
    assert change_events(outbox.relay_url, TABLE, Action.BURY, selection, BY_ANN, totals.append) == 1
    assert totals[0] == 0
    assert totals[-1] == 1
    assert len(totals) > 5
    everything = Selection(PENDING)
    assert change_events(outbox.relay_url, TABLE, Action.BURY, everything, BY_ANN) == 65
    assert outbox.counts() == {"DEAD": 66}


@pytest.mark.parametrize("action", [Action.RETRY, Action.BURY])
def test_it_stands_back_behind_a_locked_table(outbox: Outbox, action: Action) -> None:
    fill(outbox)
    with outbox.database.connect(autocommit=False) as other:
        other.execute("LOCK TABLE openoutbox_events IN EXCLUSIVE MODE")
        with pytest.raises(StorageBusy, match="lock timeout"):
            change_events(outbox.relay_url, TABLE, action, Selection(PENDING), BY_ANN)
        other.rollback()
    assert summary(outbox) == LATER


def test_a_batch_holds_its_rows_no_longer_than_its_transaction(outbox: Outbox) -> None:
    fill(outbox)
    locked: list[Any] = []

    def looks(_: int) -> None:
        free = "SELECT count(*) FROM (SELECT 1 FROM openoutbox_events FOR UPDATE SKIP LOCKED) AS free"
        locked.append(outbox.database.run(free)[0][0])

    change_events(outbox.relay_url, TABLE, Action.BURY, Selection(PENDING), BY_ANN, looks)
    assert set(locked) == {36}
