"""What an event may be, and what is refused before anything is sent."""

from __future__ import annotations

import pickle
import uuid

import pytest

from relay.core.errors import EventError, OutboxError
from relay.eventstore import ANY, NO_STREAM, Announcement, EventStoreError, NewEvent, UnknownTenant, VersionConflict
from relay.eventstore.announcement import as_announcement
from relay.eventstore.model import checked_events, checked_id, checked_version

TENANT, STREAM = uuid.UUID(int=1), uuid.UUID(int=2)


def test_an_event_is_compact_json() -> None:
    event = NewEvent("Opened", {"ä": [1, None]}, {"by": "me"})
    assert (event.data_json, event.meta_json) == ('{"ä":[1,null]}', '{"by":"me"}')
    assert NewEvent("Empty").data_json is None


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("type", ("",)),
        ("type", (7,)),
        ("type", ("a\x00b",)),
        ("type", ("\ud800",)),
        ("data", ("E", float("nan"))),
        ("data", ("E", {"a": object()})),
        ("data", ("E", "nul \x00")),
        ("data", ("E", "\ud800")),
        ("meta", ("E", None, {"a": b"bytes"})),
        ("meta", ("E", None, ["list"])),
    ],
)
def test_what_postgresql_could_not_store_is_refused_by_name(field: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(EventError, match=f"^{field}:"):
        NewEvent(*arguments)  # type: ignore[arg-type]


def test_a_backslash_before_u0000_is_no_nul() -> None:
    assert NewEvent("E", "\\u0000").data_json == '"\\\\u0000"'


def test_arguments_are_checked() -> None:
    assert checked_id("tenant_id", str(TENANT)) == TENANT
    assert [checked_version(version) for version in (ANY, NO_STREAM, 7, 2**31)] == [-1, 0, 7, 2**31]
    for wrong in (-2, True, "1", 1.0):
        with pytest.raises(EventError, match="expected_version"):
            checked_version(wrong)
    with pytest.raises(EventError, match="among them"):
        checked_events(["Opened"], 100)  # type: ignore[list-item]


def test_announcements_have_the_places_of_their_events() -> None:
    announcement = as_announcement({"A": "topic.a"})
    assert announcement is not None
    rows = announcement.rows(TENANT, STREAM, [NewEvent("B"), NewEvent("A")])
    assert rows["places"] == [2]
    assert (rows["event_types"], rows["payloads"], rows["partition_keys"]) == (["topic.a"], [b"null"], [str(STREAM)])
    assert announcement.rows(TENANT, STREAM, [NewEvent("B")])["places"] == []


def test_what_is_given_for_the_outbox_may_be_short() -> None:
    full = Announcement({"A": "a"})
    assert as_announcement(full) is full
    assert as_announcement(None) is None
    by_function = as_announcement(lambda event: event.type.lower())
    assert by_function is not None
    assert by_function.rows(TENANT, STREAM, [NewEvent("A")])["event_types"] == ["a"]


@pytest.mark.parametrize("error", [VersionConflict(3, 5), UnknownTenant(TENANT)])
def test_errors_belong_to_the_tree_and_survive_pickling(error: EventStoreError) -> None:
    assert isinstance(error, OutboxError)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
