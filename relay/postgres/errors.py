"""What a failed statement means: the error class that ``openoutbox.failure`` has for its SQLSTATE, and advice.

Message texts are looked at only where a connection was refused, which has no SQLSTATE: for the advice, and for whether
waiting may help.

- ``StorageUnavailable``: not the statement's fault; reconnect and try again. Whether it took effect is unknown.
- ``StorageRefuses``: of these, what a ping that is answered does not take back.
- ``StorageBusy``: the database rolled the statement back; the very same one may be sent again.
- ``SchemaError``: table, columns or grants are not what is needed; an operator must act.
- ``RowRefused``: one row is refused for what is in it; the others can be written.
- ``StorageError``: anything else, a fault of this project.

The rule for data: ``EventError`` is for what a room refuses before it asks the database, and names the field. What the
database refuses is ``RowRefused`` in every room, whichever caller passed the row.

A room may read the state of a statement of its own first, where the statement gives it a meaning: ``ES001`` and a
missing partition (23514 without a constraint) in the event store, a missing partition in the delivery log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from openoutbox.failure import STATES, kind_of
from openoutbox.through_psycopg import is_connection_loss
from relay.core.errors import SchemaError, StorageBusy, StorageError, StorageUnavailable

_LIBPQ_ADVICE: Final = "Is the server running on that host and accepting TCP/IP connections?"
"""Left out of messages: ``_ADVICE`` says it once."""


_ADVICE: Final = (
    (("connection refused",), "no server listens on this host and port; is it running, and is the port right?"),
    (("failed to resolve host",), "the host name is unknown here; correct the host"),
    (("could not translate host name",), "the host name is unknown here; correct the host"),
    (("timeout expired",), "the host does not answer; look for a wrong host or port, or a firewall"),
    (("password authentication failed",), "correct the user or the password"),
    (("no password supplied",), "add the password: postgres://user:password@host:5432/database"),
    (
        ("pg_hba.conf",),
        "pg_hba.conf does not allow this user to connect from this host to this database, or only over TLS (sslmode)",
    ),
    (("not permitted to log in",), "the user may not log in; run as an administrator: ALTER ROLE ... LOGIN"),
    (("role ", "does not exist"), "correct the user, or create it: CREATE ROLE ... LOGIN"),
    (("database ", "does not exist"), "correct the database, or create it: CREATE DATABASE ..."),
    (("permission denied for database",), "run as an administrator: GRANT CONNECT ON DATABASE ... TO the user"),
    (("does not support ssl",), "the server has TLS off; remove sslmode from the URL, or turn TLS on in the server"),
    (
        ("unsupported startup parameter",),
        "the pooler takes no options in a URL: remove them, and set for the user what they name (ALTER ROLE ... SET)",
    ),
    (("invalid response to ssl",), "the server that answers is not PostgreSQL; correct the host or the port"),
    (("expected authentication request",), "the server that answers is not PostgreSQL; correct the host or the port"),
    (("does not match host name",), "the certificate is for another host; correct the host, or use sslmode=verify-ca"),
    (("certificate",), "correct sslrootcert, sslcert or sslkey in the URL"),
    (("slots are reserved",), "all connections of the server are in use; close some, or raise its max_connections"),
    (("too many",), "all connections of the server are in use; close some, or raise its max_connections"),
    (("starting up",), "the server is starting; try again in a minute"),
    (("shutting down",), "the server is stopping; try again when it runs"),
    (("read-only transaction",), "it leads to a standby or a read-only database; name the primary"),
)
"""What to do about a connection or a server that is unavailable, by words of the message: it has no SQLSTATE.

The words are English; a server with another lc_messages gets the general advice.
"""

_LASTING_STATES: Final = frozenset(
    {
        "25P04",  # transaction_timeout: it would pass again
        "3D000",  # invalid_catalog_name
        "57014",  # query_canceled: a statement_timeout would pass again, and an operator who cancels wants it to end
        "57P04",  # database_dropped
    }
)
_PASSING_STATES: Final = frozenset(
    state
    for state, kind in STATES.items()
    if kind in (StorageUnavailable, StorageBusy) and state not in _LASTING_STATES
)
"""States after which the same work may succeed."""
_PASSING_WORDS: Final = (
    "connection refused",
    "connection reset",
    "broken pipe",
    "timeout expired",
    "timed out",
    "no route to host",
    "network is unreachable",
    "server closed the connection",
    "terminating connection",
    "ssl syscall error",
    "starting up",
    "shutting down",
    "in recovery mode",
    "not yet accepting connections",
    "not accepting connections",
    "session is read-only",
    "session is not read-only",
    "server is in hot standby mode",
    "too many",
    "slots are reserved",
    "no more connections allowed",
    "server_login_retry",
)
"""Parts of libpq's, PostgreSQL's and PgBouncer's messages about a connection: libpq gives no SQLSTATE for it."""
USAGE: Final = "GRANT USAGE ON SCHEMA"
"""How the remedy begins for a schema that a user may not use."""
_NO_SCHEMA: Final = re.compile(r"permission denied for schema (?P<name>.+)")
_LASTING_WORDS: Final = (
    "authentication failed",
    "no password supplied",
    "pg_hba.conf",
    "does not exist",
    "certificate",
)
"""Parts of messages that no waiting changes, although another host of the URL may be starting."""


def classify(error: psycopg.Error, doing: str = "", *, schema_hint: str = "") -> StorageError:
    """The project's error for a driver's error.

    ``doing`` says what failed, for the message; empty for connection errors, whose text says it. ``schema_hint`` says
    what to do about a SchemaError.
    """
    classified = classify_failure(
        error.sqlstate, _message(error), doing, connection_lost=is_connection_loss(error), schema_hint=schema_hint
    )
    classified.answered = _keeps_connection(error)
    return classified


def classify_failure(
    sqlstate: str | None, message: str, doing: str = "", *, connection_lost: bool, schema_hint: str = ""
) -> StorageError:
    """As ``classify``, for the error of any driver."""
    kind = kind_of(sqlstate, connection_lost=connection_lost)
    text = f"{doing}: {message}" if doing else message
    if kind is SchemaError and (hint := _schema_remedy(message, schema_hint)):
        text = f"{text}; {hint}"
    classified = kind(text, sqlstate)
    if isinstance(classified, StorageUnavailable):
        classified.advice = _advice(text)
    return classified


def _schema_remedy(message: str, hint: str) -> str:
    """The GRANT where a schema is what this user may not use, and the hint does not speak of schemas."""
    match = _NO_SCHEMA.search(message)
    if match is None or "schema" in hint.lower():
        return hint
    name = match["name"].replace('"', '""')
    return f'run as the owner of the schema: {USAGE} "{name}" TO this user'


@contextmanager
def translating(doing: str = "") -> Iterator[None]:
    """Let the driver's errors from inside leave as ``classify`` says."""
    try:
        yield
    except psycopg.Error as error:
        raise classify(error, doing) from error


def wants_new_connections(error: psycopg.Error) -> bool:
    """Whether every connection is suspect now: one was lost, or this server no longer takes writes.

    An application's trigger may raise the state of a lost connection for a row: that connection goes on.
    """
    state = error.sqlstate or ""
    if _keeps_connection(error):
        return state == "25006"
    return is_connection_loss(error) or state == "25006" or state.startswith(("08", "57P", "25P0"))


def _keeps_connection(error: psycopg.Error) -> bool:
    """Whether the server answered the statement, and goes on: FATAL ends the connection."""
    return error.diag.severity_nonlocalized == "ERROR"


def is_passing(error: psycopg.Error) -> bool:
    """Whether the same work may succeed later: the connection was lost, or the database rolled the work back."""
    state = error.sqlstate or ""
    return is_connection_loss(error) or state in _PASSING_STATES or state.startswith("08")


def may_connect_later(error: psycopg.OperationalError) -> bool:
    """Whether a connection that was refused may be accepted later: the server restarts, fails over or is full."""
    text = str(error).lower()
    if any(words in text for words in _LASTING_WORDS):
        return False
    return error.sqlstate in _PASSING_STATES or any(words in text for words in _PASSING_WORDS)


def _advice(text: str) -> str:
    """What to do about a server that is unavailable; empty where the message says nothing known."""
    lower = text.lower()
    return next((advice for words, advice in _ADVICE if all(word in lower for word in words)), "")


def _message(error: psycopg.Error) -> str:
    text = error.diag.message_primary or " ".join(str(error).replace(_LIBPQ_ADVICE, "").split()) or type(error).__name__
    if error.sqlstate is None:
        return text
    column = _column(error)
    return f"{text} (SQLSTATE {error.sqlstate}{f', column {column}' if column else ''})"


def _column(error: psycopg.Error) -> str:
    """Which column it was: constraints say it in a field of their own, COPY in its context."""
    in_copy = (error.diag.context or "").rpartition(", column ")[2].partition("\n")[0].partition(":")[0]
    return error.diag.column_name or (in_copy if "COPY " in (error.diag.context or "") else "")
