"""Why events fail: errors with their variable parts folded, and what is counted of each cause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.outbox.admin import explain
from relay.outbox.admin.causes import ErrorGroup, causes, code_of, folded
from relay.outbox.admin.explain import read_causes
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
)


@given(st.lists(_groups, max_size=20), st.randoms())
def test_no_event_is_lost_or_counted_twice_in_any_order(groups: list[ErrorGroup], chance: object) -> None:
    found = causes(groups)
    assert sum(cause.dead for cause in found) == sum(group.dead for group in groups)
    assert sum(cause.retrying for cause in found) == sum(group.retrying for group in groups)
    assert all(sum(cause.types.values()) == cause.dead + cause.retrying for cause in found)
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
    assert fatal.message == "FATAL: no 77"
    assert fatal.step == "Remove the cause, then: relay-cli replay --error-code FATAL"
    assert (none.code, none.dead, none.step) == ("", 1, "Remove the cause, then: relay-cli replay --error-code ''")
    assert reading.complete


@pytest.mark.postgres
def test_of_very_many_dead_events_the_newest_are_read(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_aged(outbox, "DEAD", 6)
    monkeypatch.setattr(explain, "MOST_READ", 4)
    reading = read_causes(outbox.reader_url, TABLE)
    [cause] = reading.causes
    assert (cause.dead, reading.complete) == (4, False)
