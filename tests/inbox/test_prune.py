"""Old marks are deleted in batches, and none that a repeat may still need."""

from __future__ import annotations

import pytest

from openoutbox import inbox
from relay.core.blame import KEPT
from relay.core.errors import ConfigError, RowRefused, SchemaError
from relay.inbox import prune as module
from relay.inbox.prune import InboxRetention, PrunedMarks, preview, prune
from relay.inbox.stats import read_figures
from tests.inbox.conftest import INBOX, count_marks, mark_hourly
from tests.support.fixtures.outbox import Outbox

DAY = 86_400.0
WEEK = InboxRetention(older_than=7 * DAY, batch_size=10)


def test_only_marks_of_that_age_go_in_batches(place: Outbox) -> None:
    mark_hourly(place, 10 * 24)
    url = place.pruner_url
    assert preview(url, INBOX, WEEK).count == 3 * 24 + 1
    reports: list[PrunedMarks] = []
    done = prune(url, INBOX, WEEK, reports.append)
    assert done.count == 3 * 24 + 1
    assert [report.count for report in reports] == [0, 10, 20, 30, 40, 50, 60, 70, 73]
    assert count_marks(place) == 7 * 24 - 1
    assert prune(url, INBOX, WEEK).count == 0


@pytest.mark.parametrize(("older_than", "redelivered_within"), [(6 * DAY, 7 * DAY), (0.0, 0.0), (30 * DAY, 31 * DAY)])
def test_a_retention_shorter_than_a_repeat_is_refused(older_than: float, redelivered_within: float) -> None:
    with pytest.raises(ConfigError, match="has its effect twice"):
        InboxRetention(older_than, redelivered_within)


def test_ages_are_told_in_days() -> None:
    with pytest.raises(ConfigError, match=r"30 d is shorter than a message may come again, which is 31 d "):
        InboxRetention(30 * DAY, 31 * DAY)


def test_a_shorter_one_is_taken_where_repeats_come_sooner(place: Outbox) -> None:
    mark_hourly(place, 5)
    retention = InboxRetention(older_than=2.5 * 3600, redelivered_within=3600)
    assert prune(place.pruner_url, INBOX, retention).count == 3


def test_a_mark_that_another_session_holds_is_left_to_the_next_run(place: Outbox) -> None:
    mark_hourly(place, 9 * 24)
    with place.database.connect(autocommit=False) as connection:
        connection.execute("SELECT FROM openoutbox_inbox ORDER BY received_at LIMIT 1 FOR UPDATE")
        assert prune(place.pruner_url, INBOX, WEEK).count == 2 * 24
    assert prune(place.pruner_url, INBOX, WEEK).count == 1


@pytest.mark.parametrize("together", [False, True], ids=["each at its time", "all at one time"])
def test_marks_that_a_trigger_keeps_are_passed_and_said(place: Outbox, together: bool) -> None:
    mark_hourly(place, 9 * 24)
    mark_hourly(place, 9 * 24, "kept")
    if together:
        place.database.run("UPDATE openoutbox_inbox SET received_at = now() - interval '8 days'")
    old = preview(place.pruner_url, INBOX, WEEK).count
    body = "BEGIN IF OLD.consumer = 'kept' THEN RETURN NULL; END IF; RETURN OLD; END"
    place.database.run(
        f"CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS '{body.replace(chr(39), chr(39) * 2)}'"
    )
    place.database.run("CREATE TRIGGER keep BEFORE DELETE ON openoutbox_inbox FOR EACH ROW EXECUTE FUNCTION keep()")
    reports: list[PrunedMarks] = []
    with pytest.raises(RowRefused, match=f"pruning the inbox: the database refused .* marks, .* of kept: .*{KEPT}"):
        prune(place.pruner_url, INBOX, WEEK, reports.append)
    if not together:
        assert reports[-1].count == old // 2
    place.database.run("DROP TRIGGER keep ON openoutbox_inbox")
    assert reports[-1].count + prune(place.pruner_url, INBOX, WEEK).count == old


@pytest.mark.parametrize("state", ["P0001", "42P01", "55P03"])
def test_marks_whose_trigger_raises_and_those_that_are_referred_to_are_passed_and_said(
    place: Outbox, state: str
) -> None:
    mark_hourly(place, 9 * 24)
    mark_hourly(place, 9 * 24, "kept")
    place.database.run(
        "CREATE TABLE effects (consumer text, event_id text, "
        "FOREIGN KEY (consumer, event_id) REFERENCES openoutbox_inbox)"
    )
    place.database.run(
        "INSERT INTO effects SELECT consumer, event_id FROM openoutbox_inbox WHERE consumer = 'billing' "
        "ORDER BY received_at LIMIT 3"
    )
    body = f"BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = '{state}'; END"
    place.database.run(f"CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    place.database.run(
        "CREATE TRIGGER keep BEFORE DELETE ON openoutbox_inbox FOR EACH ROW "
        "WHEN (OLD.consumer = 'kept' AND OLD.received_at < now() - interval '8 days 18 hours') EXECUTE FUNCTION keep()"
    )
    old = preview(place.pruner_url, INBOX, WEEK).count
    refused = 7  # of the hours 210 to 216
    reports: list[PrunedMarks] = []
    with pytest.raises(RowRefused, match=f"the database refused {refused + 3} marks"):
        prune(place.pruner_url, INBOX, WEEK, reports.append)
    assert reports[-1].count == old - refused - 3


def test_a_consumer_marks_while_a_batch_is_deleted(place: Outbox) -> None:
    mark_hourly(place, 9 * 24)
    with place.database.connect(autocommit=False) as pruner, place.database.connect(autocommit=False) as consumer:
        pruner.execute("DELETE FROM openoutbox_inbox WHERE received_at < now() - interval '7 days'")
        with inbox.once(consumer, "new", consumer="billing") as first:
            assert first
        consumer.commit()


def test_a_pruned_event_is_new_again(place: Outbox) -> None:
    with place.database.connect(autocommit=False) as connection:
        with inbox.once(connection, "old", consumer="billing") as first:
            assert first
        connection.execute("UPDATE openoutbox_inbox SET received_at = now() - interval '8 days'")
        connection.commit()
        assert prune(place.pruner_url, INBOX, WEEK).count == 1
        with inbox.once(connection, "old", consumer="billing") as first:
            assert first


def test_a_dry_run_stops_counting(place: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    mark_hourly(place, 9 * 24)
    monkeypatch.setattr(module, "COUNT_MOST", 20)
    counted = preview(place.pruner_url, INBOX, WEEK)
    assert (counted.count, counted.exact) == (20, False)
    assert count_marks(place) == 9 * 24


def test_figures(place: Outbox) -> None:
    assert read_figures(place.reader_url, INBOX).oldest is None
    mark_hourly(place, 3)
    mark_hourly(place, 2, "shipping")
    figures = read_figures(place.reader_url, INBOX)
    assert [(each.consumer, each.marks) for each in figures.consumers] == [("billing", 3), ("shipping", 2)]
    assert figures.oldest == figures.consumers[0].oldest
    assert figures.exact
    assert figures.size_bytes > 0


def test_a_missing_right_is_named(place: Outbox) -> None:
    with pytest.raises(SchemaError, match=r"GRANT SELECT, DELETE, UPDATE \(received_at\) ON \"openoutbox_inbox\" TO"):
        prune(place.reader_url, INBOX, WEEK)
