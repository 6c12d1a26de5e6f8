"""SQLSTATE decides what an error means; its text never does."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from relay.core.errors import (
    RowRefused,
    SchemaError,
    StorageBusy,
    StorageError,
    StorageRefuses,
    StorageUnavailable,
)
from relay.postgres.errors import CLASSES, STATES, classify, is_full, translating, wants_new_connections

TABLE = [
    ("08000", StorageUnavailable, True),
    ("08006", StorageUnavailable, True),
    ("08P01", StorageUnavailable, True),
    ("22001", RowRefused, False),
    ("22003", RowRefused, False),
    ("22021", RowRefused, False),
    ("22P02", RowRefused, False),
    ("22P05", RowRefused, False),
    ("23502", RowRefused, False),
    ("23503", RowRefused, False),
    ("23505", RowRefused, False),
    ("23514", RowRefused, False),
    ("23P01", RowRefused, False),
    ("25001", StorageError, False),
    ("25006", StorageUnavailable, True),
    ("25P02", StorageError, True),
    ("25P03", StorageUnavailable, True),
    ("25P04", StorageUnavailable, True),
    ("28000", StorageUnavailable, False),
    ("28P01", StorageUnavailable, False),
    ("3D000", StorageUnavailable, False),
    ("3F000", SchemaError, False),
    ("40001", StorageBusy, False),
    ("40P01", StorageBusy, False),
    ("42501", SchemaError, False),
    ("42601", StorageError, False),
    ("42703", SchemaError, False),
    ("42804", SchemaError, False),
    ("42883", SchemaError, False),
    ("42P01", SchemaError, False),
    ("53100", StorageRefuses, False),
    ("53200", StorageRefuses, False),
    ("53300", StorageUnavailable, False),
    ("54000", RowRefused, False),
    ("54001", RowRefused, False),
    ("55006", StorageBusy, False),
    ("55P03", StorageBusy, False),
    ("57014", StorageBusy, False),
    ("57P01", StorageUnavailable, True),
    ("57P02", StorageUnavailable, True),
    ("57P03", StorageUnavailable, True),
    ("57P04", StorageUnavailable, True),
    ("57P05", StorageUnavailable, True),
    ("58030", StorageRefuses, False),
    ("P0001", RowRefused, False),
    ("P0002", StorageError, False),
    ("XX000", StorageUnavailable, False),
    ("XX001", StorageUnavailable, False),
]


@pytest.mark.parametrize(("state", "kind", "reconnects"), TABLE)
def test_every_row_of_the_table(state: str, kind: type[StorageError], reconnects: bool) -> None:
    error = errors.lookup(state)("connection lost, deadlock, no such table")
    classified = classify(error, "claiming")
    assert type(classified) is kind
    assert classified.sqlstate == state
    assert str(classified).startswith("claiming: ")
    assert f"SQLSTATE {state}" in str(classified)
    assert wants_new_connections(error) is reconnects


def test_no_row_is_left_out() -> None:
    tested = {state for state, _, _ in TABLE}
    assert STATES.keys() <= tested
    assert CLASSES.keys() <= {state[:2] for state in tested}


def test_a_connection_that_fails_has_no_state() -> None:
    lost = psycopg.OperationalError("server closed the connection unexpectedly")
    assert type(classify(lost, "claiming")) is StorageUnavailable
    assert wants_new_connections(lost)
    assert str(classify(lost)) == "server closed the connection unexpectedly"
    wrong = psycopg.DataError("a fault of ours")
    assert type(classify(wrong, "claiming")) is StorageError
    assert not wants_new_connections(wrong)


def test_what_to_do_about_a_schema_is_said_for_a_schema_only() -> None:
    hint = "run migrate"
    assert str(classify(errors.UndefinedTable("no"), "reading", schema_hint=hint)).endswith(
        "(SQLSTATE 42P01); run migrate"
    )
    assert "migrate" not in str(classify(errors.DeadlockDetected("no"), "reading", schema_hint=hint))


def test_other_exceptions_pass() -> None:
    with pytest.raises(KeyError), translating("reading"):
        raise KeyError
    with pytest.raises(StorageBusy, match=r"^reading: ") as caught, translating("reading"):
        raise errors.DeadlockDetected("no")
    assert isinstance(caught.value.__cause__, errors.DeadlockDetected)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("FATAL:  sorry, too many clients already", True),
        ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", True),
        ("FATAL:  the database system is starting up", True),
        ("connection refused", False),
    ],
)
def test_a_full_server_is_known_by_its_text(text: str, full: bool) -> None:
    assert is_full(psycopg.OperationalError(text)) is full
