"""Why events fail: errors with their variable parts folded, and what is counted of each cause."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.outbox.admin import examination, explain
from relay.outbox.admin.causes import CauseMark, CauseName, ErrorGroup, causes, code_of, folded
from relay.outbox.admin.explain import FailureReading, read_causes
from relay.outbox.admin.replay import ReplayOptions, preview, replay
from relay.outbox.admin.search import EventSearch, search_events
from relay.outbox.admin.selection import Selection
from relay.postgres.sql import TableName
from tests.outbox.admin.filling import fill_aged
from tests.support.fixtures.outbox import Outbox, Row

TABLE: Final = TableName()
NOW: Final = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the message has 1,200,000 bytes", "the message has # bytes"),
        ("no acknowledgement within 10s of 5.5 s", "no acknowledgement within 10s of # s"),
        ("order 0190b0a0-0000-7000-8000-000000000001 is closed", "order # is closed"),
        ("row deadbeef12345678 of 0xff", "row # of #"),
        ("no topic 'orders.7' in \"eu\"", "no topic # in #"),
        ("partner1.example.com:8443 answered 503", "partner1.example.com:8443 answered #"),
        ("10.0.0.7:9092 and 10.0.0.8 refuse", "10.0.0.7:9092 and 10.0.0.8 refuse"),
        ("kafka-2: leader of v1 changed", "kafka-2: leader of v1 changed"),
        ("", ""),
    ],
)
def test_what_varies_is_folded_and_what_names_a_destination_stays(text: str, expected: str) -> None:
    assert folded(text) == expected


@given(st.text("ab1.,:-#'\" x0", max_size=60))
def test_a_folded_text_folds_to_itself(text: str) -> None:
    assert folded(folded(text)) == folded(text)


@given(st.text("ab1.,:-# x0", max_size=60))
def test_a_text_folds_word_by_word_as_it_does_at_once(text: str) -> None:
    assert folded(text) == folded(f"{text} ''").removesuffix(" #")


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.uuids(), st.uuids())
def test_errors_that_differ_in_numbers_and_ids_alone_are_one(one: int, two: int, id_: object, other: object) -> None:
    assert folded(f"{one} of event {id_} at host-1") == folded(f"{two} of event {other} at host-1")


_groups = st.builds(
    ErrorGroup,
    event_type=st.sampled_from(["a", "b", "c"]),
    error=st.sampled_from(["E: 1 of 3", "E: 2 of 3", "E", "", "F: no 1"]),
    dead=st.integers(0, 5),
    retrying=st.integers(0, 5),
    keys=st.none() | st.lists(st.integers(0, 3), min_size=1),
    first=st.integers(0, 50).map(lambda minutes: NOW - timedelta(minutes=minutes)),
    last=st.just(NOW) | st.just("infinity"),
    sample=st.just("0190b0a0-0000-7000-8000-000000000001"),
    minutes=st.none() | st.lists(st.integers(29_554_440, 29_554_500), max_size=5),
)


@given(st.lists(_groups, max_size=20), st.randoms())
def test_no_event_is_lost_or_counted_twice_in_any_order(groups: list[ErrorGroup], chance: object) -> None:
    found = causes(groups)
    assert sum(cause.dead for cause in found) == sum(group.dead for group in groups)
    assert sum(cause.retrying for cause in found) == sum(group.retrying for group in groups)
    assert all(sum(cause.types.values()) == cause.dead + cause.retrying for cause in found)
    assert sum(cause.minutes.total() for cause in found) == sum(len(group.minutes or ()) for group in groups)
    assert {cause.code for cause in found} == {code_of(group.error)[0] for group in groups}
    totals = [cause.dead + cause.retrying for cause in found]
    assert totals == sorted(totals, reverse=True)
    shuffled = list(groups)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    again = {(one.code, one.error): (one.dead, one.first, one.keys) for one in causes(shuffled)}
    assert again == {(one.code, one.error): (one.dead, one.first, one.keys) for one in found}


@pytest.mark.postgres
def test_a_cause_is_one_over_types_and_over_dead_and_retrying_events(outbox: Outbox) -> None:
    fill_aged(outbox, "DEAD", 6)
    outbox.insert([Row("waiting", partition_key="key-1"), Row("due"), Row("fresh")])
    outbox.database.run(
        "UPDATE openoutbox_events SET attempts = 2, last_error = 'FATAL: no 77', "
        "available_at = CASE event_type WHEN 'waiting' THEN now() + interval '1 hour' ELSE now() END "
        "WHERE status = 'PENDING' AND event_type <> 'fresh'"
    )
    outbox.database.run("UPDATE openoutbox_events SET last_error = NULL WHERE event_type = 'DEAD-6'")
    reading = read_causes(outbox.reader_url, TABLE)
    fatal, none = reading.causes
    assert (fatal.code, fatal.error, fatal.dead, fatal.retrying) == ("FATAL", "no #", 5, 2)
    assert fatal.types == {"DEAD-1": 1, "DEAD-2": 1, "DEAD-3": 1, "DEAD-4": 1, "DEAD-5": 1, "due": 1, "waiting": 1}
    assert len(fatal.keys) == 5
    assert (fatal.minutes.total(), none.minutes.total()) == (2, 0)  # the others failed before the last hour
    assert max(fatal.minutes) * 60 <= time.time() < max(fatal.minutes) * 60 + 180
    assert fatal.message == "FATAL: no 77"
    assert fatal.step == f"Remove the cause, then: relay-cli replay --cause {fatal.name.mark}"
    assert (none.code, none.dead) == ("", 1)
    assert none.step == f"Remove the cause, then: relay-cli replay --cause {none.name.mark}"
    assert (reading.complete, reading.sample) == (True, "")


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("change", "sample"),
    [
        ("SET status = status", "the newest 4 dead events"),
        (
            "SET status = 'PENDING', available_at = now() + interval '1 h'",
            "the next 4 events that wait for a later time",
        ),
        ("SET status = 'PENDING', available_at = now()", "the oldest 4 due events"),
    ],
)
def test_of_very_many_events_a_sample_is_read_and_said_to_be_one(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, change: str, sample: str
) -> None:
    fill_aged(outbox, "DEAD", 6)
    outbox.database.run(f"UPDATE openoutbox_events {change}")
    monkeypatch.setattr(explain, "MOST_READ", 4)
    reading = read_causes(outbox.reader_url, TABLE)
    [cause] = reading.causes
    assert cause.dead + cause.retrying == 4
    assert reading.sample == f"A sample: {sample} were read, and there may be more."
    assert not reading.complete


@pytest.mark.postgres
def test_of_three_thousand_errors_that_all_differ_every_event_is_counted(outbox: Outbox) -> None:
    outbox.fill("t", 3000)
    outbox.database.run(
        "UPDATE openoutbox_events AS e SET status = 'DEAD', event_type = 'type-' || n %% 8, "
        "last_error = 'HTTP_503: partner' || n %% 40 || '.example.com refused request ' || n "
        "FROM (SELECT event_id, row_number() OVER () AS n FROM openoutbox_events) AS numbered "
        "WHERE numbered.event_id = e.event_id AND %s",
        [True],
    )
    reading = read_causes(outbox.reader_url, TABLE)
    assert [cause.dead for cause in reading.causes] == [75] * 40
    assert reading.complete


def test_of_very_many_errors_the_most_frequent_are_read(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_aged(outbox, "DEAD", 6)
    outbox.database.run(
        "UPDATE openoutbox_events SET event_type = 't', last_error = 'E: x' WHERE partition_key <> 'key-1'"
    )
    monkeypatch.setattr(explain, "MOST_GROUPS", 1)
    reading = read_causes(outbox.reader_url, TABLE)
    assert [(cause.code, cause.dead) for cause in reading.causes] == [("E", 5)]
    assert reading.sample == "A sample: the 1 most frequent errors were read, and there may be more."


@pytest.mark.postgres
def test_what_waits_without_a_failure_is_no_cause(outbox: Outbox) -> None:
    outbox.fill("fresh", 5)
    assert read_causes(outbox.reader_url, TABLE) == FailureReading([], "")


_FIVE_CAUSES: Final = """
UPDATE openoutbox_events SET
    status = 'DEAD',
    event_type = CASE mod(n, 4) WHEN 0 THEN '' ELSE 'type-' || mod(n, 4) END,
    last_error = CASE mod(n, 5)
        WHEN 0 THEN 'HTTP_503: a.example:443 answered 503 to ' || event_id
        WHEN 1 THEN 'HTTP_503: b.example:443 answered ' || n
        WHEN 2 THEN 'HTTP_503'
        WHEN 3 THEN 'E: ' || repeat('x y ', 200) || n
    END
FROM (SELECT event_id AS id, row_number() OVER () AS n FROM openoutbox_events) AS numbered
WHERE id = event_id
"""


@pytest.mark.postgres
def test_the_events_that_a_cause_counts_are_those_that_are_found_and_replayed(outbox: Outbox) -> None:
    outbox.fill("t", 60)
    outbox.database.run(_FIVE_CAUSES)
    found = read_causes(outbox.reader_url, TABLE).causes
    assert [cause.dead for cause in found] == [12] * 5
    for cause in found:
        mark = CauseMark.parse(str(cause.name.mark))
        page = search_events(outbox.reader_url, TABLE, EventSearch(cause=mark))
        listed = {event.event_id for event in page.events}
        assert (len(listed), page.next) == (12, None)
        selection = Selection(cause=mark)
        assert preview(outbox.relay_url, TABLE, selection, ReplayOptions()).dead == 12
        assert replay(outbox.relay_url, TABLE, selection, ReplayOptions(batch_size=5)).dead == 12
        waiting = {
            id_ for (id_,) in outbox.database.run("SELECT event_id FROM openoutbox_events WHERE status = 'PENDING'")
        }
        assert listed == waiting
        outbox.database.run("DELETE FROM openoutbox_events WHERE status = 'PENDING'")


@pytest.mark.postgres
def test_a_rare_cause_of_a_frequent_code_is_found_over_pages(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "EXAMINED", 10)
    fill_aged(outbox, "DEAD", 60)
    outbox.database.run(
        "UPDATE openoutbox_events SET last_error = 'FATAL: rare' WHERE event_type IN ('DEAD-1', 'DEAD-31', 'DEAD-60')"
    )
    search = EventSearch(cause=CauseName.of("FATAL: rare").mark, limit=2)
    page = search_events(outbox.reader_url, TABLE, search)
    names = [event.event_type for event in page.events]
    while page.next is not None:
        page = search_events(outbox.reader_url, TABLE, replace(search, cursor=page.next))
        names += [event.event_type for event in page.events]
    assert names == ["DEAD-1", "DEAD-31", "DEAD-60"]


@given(st.text("AB_5 :", max_size=99), st.text(max_size=400))
def test_a_cause_is_named_in_one_way_that_its_events_have(code: str, rest: str) -> None:
    mark = CauseName.of(f"{code}: {rest}").mark
    assert CauseMark.parse(str(mark)) == mark
    assert mark.holds(f"{code}: {rest}")
    assert not mark.holds(f"{code}y: {rest}")


@pytest.mark.parametrize(
    "text", ["", "HTTP_503", "HTTP_503:", "HTTP_503:123", "HTTP_503:1F0A9C22B7", "x" * 101 + ":1f0a9c22b7"]
)
def test_what_no_cause_is_called_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names no cause"):
        CauseMark.parse(text)
