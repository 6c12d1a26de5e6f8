"""Open Outbox for an application: announce events in the transaction that changes its data.

    from openoutbox import NewEvent, enqueue

    with psycopg.connect(url) as connection:  # one transaction
        connection.execute("INSERT INTO users ...")
        enqueue(connection, NewEvent("user.signup", {"id": 42}, partition_key="42"))

A consumer has ``openoutbox.inbox``, the other half: each event's effect once. Importing either loads the standard
library only; psycopg, asyncpg, SQLAlchemy and Django are looked for when a connection of theirs is handed in. A name is
loaded when it is first used: the relay's health check reads the errors alone, every few seconds.

``announce`` sends what ``insert`` makes of events; ``outbox`` is a configured one. ``inbox`` marks one event or many,
``processing`` counts tries and makes dead letters, on ``marks`` and ``repeats``. All of them send over a ``channel``:
one for each library (``through_psycopg`` and so on) and kind of connection, as ``ports`` says; ``blocking`` lets code
for asynchronous ones serve the others. A new library also gets its classes into ``targets``. ``schema`` is the DDL, of
which ``alembic`` and ``django`` know the tables; ``testing`` is for an application's own tests.
"""

TYPE_CHECKING = False  # that of typing, whose import takes longer than the rest
if TYPE_CHECKING:
    from openoutbox.announce import Enqueued, enqueue, enqueue_async
    from openoutbox.errors import ConfigError, EnqueueRefused, EventError, InboxRefused, MessageError, OutboxError
    from openoutbox.identity import uuid7
    from openoutbox.insert import InsertRows, insert_rows, insert_statement
    from openoutbox.message import Message
    from openoutbox.names import TableName
    from openoutbox.newevent import NewEvent, Payload
    from openoutbox.outbox import Outbox, event
    from openoutbox.schema import create_statements, dead_letter_statements, inbox_statements, sql_api_statements
    from openoutbox.version import __version__

__all__ = [
    "ConfigError",
    "EnqueueRefused",
    "Enqueued",
    "EventError",
    "InboxRefused",
    "InsertRows",
    "Message",
    "MessageError",
    "NewEvent",
    "Outbox",
    "OutboxError",
    "Payload",
    "TableName",
    "__version__",
    "create_statements",
    "dead_letter_statements",
    "enqueue",
    "enqueue_async",
    "event",
    "inbox_statements",
    "insert_rows",
    "insert_statement",
    "sql_api_statements",
    "uuid7",
]

_NAMES = {
    "announce": ("Enqueued", "enqueue", "enqueue_async"),
    "errors": ("ConfigError", "EnqueueRefused", "EventError", "InboxRefused", "MessageError", "OutboxError"),
    "identity": ("uuid7",),
    "insert": ("InsertRows", "insert_rows", "insert_statement"),
    "message": ("Message",),
    "names": ("TableName",),
    "newevent": ("NewEvent", "Payload"),
    "outbox": ("Outbox", "event"),
    "schema": ("create_statements", "dead_letter_statements", "inbox_statements", "sql_api_statements"),
    "version": ("__version__",),
}
_MODULES = {name: f"openoutbox.{module}" for module, names in _NAMES.items() for name in names}
"""Where each public name is defined."""


if not TYPE_CHECKING:  # a type checker must see a misspelt name

    def __getattr__(name: str) -> object:
        """Load a public name."""
        if name not in _MODULES:
            raise AttributeError(f"module 'openoutbox' has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415

        value: object = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value
