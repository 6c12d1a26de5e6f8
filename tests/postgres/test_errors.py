"""SQLSTATE decides what an error means; its text never does."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from openoutbox.failure import CLASSES, STATES
from relay.core.errors import (
    RowRefused,
    SchemaError,
    StorageBusy,
    StorageError,
    StorageRefuses,
    StorageUnavailable,
)
from relay.postgres.errors import classify, translating, wants_new_connections

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
    ("text", "advice"),
    [
        ('connection to server at "h", port 5432 failed: Connection refused', "no server listens"),
        ("failed to resolve host 'h': [Errno -2] Name or service not known", "correct the host"),
        ('could not translate host name "h" to address: Name or service not known', "correct the host"),
        ("connection timeout expired", "a wrong host or port, or a firewall"),
        ('FATAL:  password authentication failed for user "app"', "correct the user or the password"),
        ("connection failed: fe_sendauth: no password supplied", "add the password"),
        ('FATAL:  no pg_hba.conf entry for host "::1", user "app", database "d", no encryption', "sslmode"),
        ('FATAL:  role "app" is not permitted to log in', "ALTER ROLE"),
        ('FATAL:  role "app" does not exist', "CREATE ROLE"),
        ('FATAL:  database "d" does not exist', "CREATE DATABASE"),
        ('FATAL:  permission denied for database "d"', "GRANT CONNECT"),
        ("server does not support SSL, but SSL was required", "TLS off"),
        ("received invalid response to SSL negotiation: H", "not PostgreSQL"),
        ("expected authentication request from server, but received -", "not PostgreSQL"),
        ('server certificate for "other" does not match host name "h"', "sslmode=verify-ca"),
        ('root certificate file "/ca.pem" does not exist', "sslrootcert"),
        ("SSL error: certificate verify failed", "sslrootcert"),
        ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", "max_connections"),
        ("FATAL:  sorry, too many clients already", "max_connections"),
        ("FATAL:  the database system is starting up", "try again in a minute"),
        ("FATAL:  the database system is shutting down", "try again when it runs"),
        ("SSL connection has been closed unexpectedly", ""),
    ],
)
def test_a_connection_that_fails_comes_with_advice(text: str, advice: str) -> None:
    said = classify(psycopg.OperationalError(text)).advice
    assert advice in said
    assert bool(advice) is bool(said)
