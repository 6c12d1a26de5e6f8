"""A mark in the inbox: which consumer has handled which event, checked and ready to be sent.

For ``openoutbox.inbox`` and ``openoutbox.processing``. Pure. Raises InboxRefused for an id or a name that cannot be
stored and compared, and ConfigError for an invalid table name.
"""

from __future__ import annotations

from typing import Final, LiteralString, NamedTuple, TypeAlias
from uuid import UUID

from openoutbox.errors import InboxRefused
from openoutbox.identity import LONGEST_ID, canonical_id
from openoutbox.names import DEFAULT_INBOX, TableName
from openoutbox.ports import Values
from openoutbox.statements import statement

EventId: TypeAlias = str | bytes | UUID
"""As a message has it."""

MIGRATE: Final = "relay-cli inbox migrate"


class Mark(NamedTuple):
    """The statement that marks an event or a batch."""

    table: TableName
    statement: LiteralString
    values: Values

    @property
    def may_leave_out(self) -> tuple[LiteralString, Values]:
        """Asks whether a trigger may leave marks out: then no row may mean that, too."""
        return statement("inbox/mark:may_leave_out", names={DEFAULT_INBOX: self.table}), {}

    def again(self, event_id: str) -> tuple[LiteralString, Values]:
        """The statement that fails where this event is marked."""
        values = {"consumer": self.values["consumer"], "event_id": event_id}
        return statement("inbox/mark:mark", names={DEFAULT_INBOX: self.table}, tags=["again"]), values

    def check(self, event_id: str, *, left_out: bool) -> None:
        """Raise InboxRefused for a mark that a trigger left out."""
        if left_out:
            raise InboxRefused(
                f"a BEFORE trigger of table {self.table} left the mark of event {event_id} out, and no error said so: "
                "the event is not handled. Let the trigger return NEW"
            )


def mark_of(what: str, ids: Values, consumer: object, table: str | TableName) -> Mark:
    """The statement and its parameters. Raises InboxRefused and ConfigError."""
    name = TableName.of(table)
    values = {"consumer": checked("consumer", consumer), **ids}
    return Mark(name, statement(f"inbox/mark:{what}", names={DEFAULT_INBOX: name}), values)


def canonical(event_id: object) -> str:
    """One form for one id. Raises InboxRefused."""
    return canonical_id(checked("event_id", _text(event_id)))


def _text(event_id: object) -> object:
    if not isinstance(event_id, bytes):
        return str(event_id) if isinstance(event_id, UUID) else event_id
    try:
        return event_id.decode()
    except UnicodeDecodeError:
        raise InboxRefused(f"event_id: {event_id[:LONGEST_ID]!r} is not UTF-8; pass the header's value") from None


def checked(name: str, value: object) -> str:
    """The value, if it can be stored and compared."""
    if not isinstance(value, str):
        hint = "; the message has no such header or field" if value is None else ""
        raise InboxRefused(f"{name}: a {type(value).__name__}; pass a string{hint}")
    if not 0 < len(value) <= LONGEST_ID or "\x00" in value:
        raise InboxRefused(
            f"{name}: {value[:LONGEST_ID]!r} is not usable; pass 1 to {LONGEST_ID} characters without NUL"
        )
    return value
