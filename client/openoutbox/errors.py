"""The errors that an application meets, and the root of the relay's error tree (``relay.core.errors`` draws it).

Messages never contain a secret. What a driver raises for a statement of ``enqueue`` and ``inbox.once`` stays the
driver's own error; the classes of ``StorageError`` are for what sends statements over a connection of its own.
"""

from __future__ import annotations

from typing import ClassVar


class OutboxError(Exception):
    """Base of every error this project raises on purpose."""

    setting: ClassVar[str] = ""
    """The variable to look at first when nothing answers; empty where the message itself names it."""
    reason: str = ""
    """Why, for the operator alone: what a message leaves out because others may read it, such as a host's name."""
    advice: str = ""
    """What to do, where the message does not say it."""


class ConfigError(OutboxError):
    """A setting is missing or wrong. The message names the variable and says what to do."""


class EventError(OutboxError, ValueError):
    """An application passed an invalid event; the message names the field. Nothing was sent to the database."""


class EnqueueRefused(OutboxError):
    """Events would be committed without the change that they announce, or not at all, or have ids of other events."""


class InboxRefused(OutboxError):
    """An effect would happen twice, or never: for the id, name or connection given, or a trigger on the table."""

    @classmethod
    def open_transaction(cls) -> InboxRefused:
        """For a connection that another transaction is open on."""
        return cls("connection_factory: the connection has a transaction open; return one without, as a pool does")


class MessageError(OutboxError, ValueError):
    """A message is none of a relay's in its default format; the error names what is missing or wrong."""


class StorageError(OutboxError):
    """A statement failed in a way that no retry rule covers; ``sqlstate`` says how, where known."""

    event_id: str | None = None
    """The event whose row the database refuses, where a statement was about a single row."""
    answered: bool = False
    """Whether the server rolled the statement back and keeps the connection: a row may be to blame for any state."""

    def __init__(self, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate

    @property
    def guesses_row(self) -> bool:
        """The first guess: the statement failed for what it was to write, not for the state of the database."""
        return not isinstance(self, StorageUnavailable | StorageBusy | SchemaError)

    @property
    def may_blame_row(self) -> bool:
        """Whether the same statement for other rows may work, so that it is worth trying."""
        return self.answered or self.guesses_row


class StorageUnavailable(StorageError):
    """The database is unavailable; whether the statement took effect is unknown."""

    setting = "STORAGE_URL"


class StorageRefuses(StorageUnavailable):
    """The database answers and cannot do the work: its disk is full, its memory used up, its storage fails.

    A ping that gets an answer does not say that the work can be done again.
    """


class StorageBusy(StorageError):
    """The statement was rolled back by the database and may be sent again."""


class RowRefused(StorageError):
    """The database refuses a row: a constraint, a value out of range, or an exception raised by a trigger.

    The row is to blame, not the table or the statement, so the other rows of the statement can be written without it.
    """


class SchemaError(StorageError):
    """The outbox table is missing, not plain, not granted, or differs from the contract."""
