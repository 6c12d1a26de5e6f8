"""What a failed statement means at first sight: its SQLSTATE and error class, as one table, for every driver.

Message texts are not looked at. ``kind_of`` names the class; the caller that knows the statement may know better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from openoutbox.errors import (
    RowRefused,
    SchemaError,
    StorageBusy,
    StorageError,
    StorageRefuses,
    StorageUnavailable,
)


@dataclass(frozen=True, slots=True)
class StatementFailure:
    """The reason of a failed statement, whichever driver reported it."""

    sqlstate: str | None
    """None for an error of the driver or of the connection."""
    message: str
    table: str | None
    constraint: str | None
    connection_lost: bool


STATES: Final[Mapping[str, type[StorageError]]] = MappingProxyType(
    {
        "25006": StorageUnavailable,  # read_only_sql_transaction: a standby, or a primary that was demoted
        "57P01": StorageUnavailable,  # admin_shutdown: also pg_terminate_backend
        "57P02": StorageUnavailable,  # crash_shutdown
        "57P03": StorageUnavailable,  # cannot_connect_now: starting up or shutting down
        "57P04": StorageUnavailable,  # database_dropped
        "57P05": StorageUnavailable,  # idle_session_timeout
        "25P03": StorageUnavailable,  # idle_in_transaction_session_timeout: the server closed the connection
        "25P04": StorageUnavailable,  # transaction_timeout: the server closed the connection
        "53300": StorageUnavailable,  # too_many_connections
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
        "P0001": RowRefused,  # raise_exception: by a trigger
    }
)
"""SQLSTATEs with a meaning of their own."""

CLASSES: Final[Mapping[str, type[StorageError]]] = MappingProxyType(
    {
        "08": StorageUnavailable,  # connection exceptions; PgBouncer's own errors too
        "22": RowRefused,  # data exceptions: a value out of range, a text that is no JSON
        "23": RowRefused,  # integrity constraint violations
        "28": StorageUnavailable,  # invalid authorization: a password is changed while the relay runs
        "53": StorageRefuses,  # insufficient resources: disk full, out of memory
        "54": RowRefused,  # program limit exceeded: a value too large for an index or for JSON, or nested too deeply
        "58": StorageRefuses,  # system errors outside PostgreSQL: I/O
        "XX": StorageUnavailable,  # internal errors
    }
)
"""Classes of SQLSTATEs (their first two characters), for states that are not in ``STATES``."""


def kind_of(sqlstate: str | None, *, connection_lost: bool = False) -> type[StorageError]:
    """The class of a failure by its SQLSTATE; ``StorageError`` for a state that the tables do not have."""
    if sqlstate is None:
        return StorageUnavailable if connection_lost else StorageError
    return STATES.get(sqlstate) or CLASSES.get(sqlstate[:2]) or StorageError
