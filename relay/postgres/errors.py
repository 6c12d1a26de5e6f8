"""What a failed statement means: SQLSTATE to error class, as one table. Message texts are never looked at.

- ``StorageUnavailable``: not the statement's fault; reconnect and try again. Whether it took effect is unknown.
- ``StorageBusy``: the database rolled the statement back; the very same one may be sent again.
- ``RowRefused``: a constraint or a trigger refuses one row; the others can be written without it.
- ``SchemaError``: table, columns or grants are not what the relay needs; an operator must act.
- ``StorageError``: anything else, a fault of ours or of the data.
"""

from __future__ import annotations

import psycopg

from relay.core.errors import RowRefused, SchemaError, StorageBusy, StorageError, StorageUnavailable

_CODES: dict[str, type[StorageError]] = {
    "25006": StorageUnavailable,  # read_only_sql_transaction: a standby, or a primary that was demoted
    "57P01": StorageUnavailable,  # admin_shutdown: also pg_terminate_backend
    "57P02": StorageUnavailable,  # crash_shutdown
    "57P03": StorageUnavailable,  # cannot_connect_now: starting up or shutting down
    "57P04": StorageUnavailable,  # database_dropped
    "57P05": StorageUnavailable,  # idle_session_timeout
    "25P03": StorageUnavailable,  # idle_in_transaction_session_timeout: the server closed the connection
    "25P04": StorageUnavailable,  # transaction_timeout: the server closed the connection
    "3D000": StorageUnavailable,  # invalid_catalog_name: the database is not there (yet)
    "40001": StorageBusy,  # serialization_failure
    "40P01": StorageBusy,  # deadlock_detected
    "55P03": StorageBusy,  # lock_not_available: lock_timeout
    "57014": StorageBusy,  # query_canceled: statement_timeout, or an operator's pg_cancel_backend
    "55006": StorageBusy,  # object_in_use
    "42P01": SchemaError,  # undefined_table
    "3F000": SchemaError,  # invalid_schema_name
    "42703": SchemaError,  # undefined_column
    "42501": SchemaError,  # insufficient_privilege
    "42804": SchemaError,  # datatype_mismatch: a column of another type
    "42883": SchemaError,  # undefined_function: an operator for a column of another type
    "P0001": RowRefused,  # raise_exception: a trigger's
}

_CLASSES: dict[str, type[StorageError]] = {
    "22": RowRefused,  # data exceptions: a value out of range, or one that does not fit its column
    "23": RowRefused,  # integrity constraints that the contract does not know
    "08": StorageUnavailable,  # connection exceptions; PgBouncer's own errors too
    "28": StorageUnavailable,  # invalid authorization: a password is changed while the relay runs
    "53": StorageUnavailable,  # insufficient resources: too many connections, disk full, out of memory
    "58": StorageUnavailable,  # system errors outside PostgreSQL: I/O
    "XX": StorageUnavailable,  # internal errors
}

_NEW_CONNECTIONS = frozenset({"25006"})


def classify(error: psycopg.Error, doing: str = "") -> StorageError:
    """The project's error for a driver's error; ``doing`` says what was tried, for the message.

    Empty where it was the connecting itself: then the driver's text says so, and what would have come next does not
    matter to anyone.
    """
    state = error.sqlstate
    if state is None:
        kind = StorageUnavailable if is_connection_loss(error) else StorageError
    else:
        kind = _CODES.get(state) or _CLASSES.get(state[:2]) or StorageError
    return kind(f"{doing}: {_message(error)}" if doing else _message(error), state)


def is_connection_loss(error: psycopg.Error) -> bool:
    """Whether the connection itself failed: no SQLSTATE came with it."""
    return error.sqlstate is None and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def wants_new_connections(error: psycopg.Error) -> bool:
    """Whether every connection is suspect now: one was lost, or this server no longer takes writes."""
    state = error.sqlstate
    return is_connection_loss(error) or state in _NEW_CONNECTIONS or (state or "").startswith(("08", "57P", "25P0"))


def _message(error: psycopg.Error) -> str:
    primary = error.diag.message_primary
    text = primary or str(error).strip() or type(error).__name__
    return f"{text} (SQLSTATE {error.sqlstate})" if error.sqlstate else text
