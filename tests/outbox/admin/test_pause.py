"""Pause and resume as an operator sees them: one row a target, in force until its time, kept in the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from relay.core.errors import ConfigError, SchemaError, StorageBusy
from relay.core.pause import EVERYTHING, PauseScope, PauseTarget
from relay.outbox.admin import held
from relay.outbox.admin.connection import operating
from relay.outbox.admin.pause import list_pauses, pause, resume
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox, Row

pytestmark = pytest.mark.postgres

TABLE = TableName()
SIGNUP = PauseTarget(PauseScope.TYPE, "user.signup")
USERS = PauseTarget(PauseScope.PREFIX, "user.")


@pytest.fixture
def url(outbox: Outbox) -> str:
    """A user who may pause."""
    assert add_extension(outbox.owner_url, TABLE, "pause")
    assert not add_extension(outbox.owner_url, TABLE, "pause")
    return outbox.owner_url


def test_a_pause_stays_until_it_is_resumed(url: str) -> None:
    first = pause(url, TABLE, SIGNUP, who="ann", reason="the mails are wrong")
    second = pause(url, TABLE, USERS, who="bob", until=timedelta(hours=1))
    assert list_pauses(url, TABLE) == [first, second]
    assert (first.until, first.paused_by, first.reason) == (None, "ann", "the mails are wrong")
    assert second.until is not None
    assert second.until - second.since == timedelta(hours=1)
    assert resume(url, TABLE, SIGNUP) == [first]
    assert resume(url, TABLE, SIGNUP) == []
    assert resume(url, TABLE, None) == [second]
    assert list_pauses(url, TABLE) == []


def test_pausing_again_changes_the_end_and_not_the_begin(url: str) -> None:
    first = pause(url, TABLE, EVERYTHING, who="ann", until=timedelta(hours=1))
    again = pause(url, TABLE, EVERYTHING, who="bob", reason="longer")
    assert again == first._replace(until=None, paused_by="bob", reason="longer")
    assert list_pauses(url, TABLE) == [again]


def test_a_pause_whose_time_is_over_is_not_in_force(outbox: Outbox, url: str) -> None:
    pause(url, TABLE, SIGNUP, who="ann", until=timedelta(hours=1))
    outbox.database.run("UPDATE openoutbox_pauses SET since = now() - interval '2 h', until = now() - interval '1 s'")
    assert list_pauses(url, TABLE) == []
    again = pause(url, TABLE, SIGNUP, who="bob")
    assert datetime.now(UTC) - again.since < timedelta(minutes=1)  # a new one, not the old one's begin
    outbox.database.run("UPDATE openoutbox_pauses SET until = now() - interval '1 s'")
    assert resume(url, TABLE, SIGNUP) == []


@pytest.mark.parametrize(
    ("target", "until"),
    [
        (PauseTarget(PauseScope.TYPE, ""), None),
        (PauseTarget(PauseScope.PREFIX, "x" * 1001), None),
        (PauseTarget(PauseScope.TYPE, "a\x00b"), None),
        (PauseTarget(PauseScope.ALL, "name"), None),
        (SIGNUP, timedelta(0)),
        (SIGNUP, datetime(2020, 1, 1, tzinfo=UTC)),
        (SIGNUP, datetime(9999, 12, 31, tzinfo=timezone(timedelta(hours=-14)))),
    ],
)
def test_what_cannot_be_a_pause_is_refused(url: str, target: PauseTarget, until: datetime | timedelta | None) -> None:
    with pytest.raises(ConfigError):
        pause(url, TABLE, target, who="ann", until=until)
    assert list_pauses(url, TABLE) == []


def test_a_pause_stands_back_behind_a_locked_table(outbox: Outbox, url: str) -> None:
    with outbox.database.connect(autocommit=False) as other:
        other.execute("LOCK TABLE openoutbox_pauses IN EXCLUSIVE MODE")
        with pytest.raises(StorageBusy, match="lock timeout"):
            pause(url, TABLE, SIGNUP, who="ann")
        with pytest.raises(StorageBusy, match="lock timeout"):
            resume(url, TABLE, SIGNUP)


def test_without_the_extension_or_the_right_the_message_says_what_to_run(outbox: Outbox) -> None:
    with pytest.raises(SchemaError, match=r"relay-cli migrate --table openoutbox_events --with pause") as missing:
        pause(outbox.owner_url, TABLE, SIGNUP, who="ann")
    assert missing.value.sqlstate == "42P01"
    add_extension(outbox.owner_url, TABLE, "pause")
    with pytest.raises(
        SchemaError, match=r'GRANT SELECT, INSERT, UPDATE, DELETE ON "openoutbox_pauses" TO "test_reader"'
    ) as lacking:
        resume(outbox.reader_url, TABLE, None)
    assert str(lacking.value).count("GRANT") == 1, "the right on the outbox itself is there"


def test_two_outboxes_of_a_schema_are_paused_apart(outbox: Outbox, url: str) -> None:
    other = TableName("orders")
    outbox.database.run("CREATE TABLE orders (LIKE openoutbox_events INCLUDING ALL)")
    outbox.database.run("ALTER TABLE orders OWNER TO openoutbox_owner")
    add_extension(url, other, "pause")
    pause(url, other, SIGNUP, who="ann")
    assert list_pauses(url, TABLE) == []
    assert len(list_pauses(url, other)) == 1
    assert outbox.database.run("SELECT count(*) FROM orders_pauses") == [(1,)]


def test_of_what_a_pause_holds_no_more_is_counted_than_is_looked_at(
    outbox: Outbox, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox.insert([Row("user.signup"), Row("other"), Row("user.signup"), Row("user.signup")])
    pause(url, TABLE, SIGNUP, who="ann")
    pause(url, TABLE, EVERYTHING, who="ann")
    for most, expected in ((100, [(3, False), (4, False)]), (2, [(1, True), (2, True)])):
        monkeypatch.setattr(held, "MOST_LOOKED_AT", most)
        with operating(url, TABLE, "testing") as connection:
            found = held.read_held(connection, TABLE)
        assert [(one.events, one.at_least) for one in found] == expected
