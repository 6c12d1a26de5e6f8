"""SQLSTATE decides what an error means; its text never does."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from relay.core.errors import SchemaError, StorageBusy, StorageError, StorageUnavailable
from relay.postgres.errors import classify, wants_new_connections


@pytest.mark.parametrize(
    ("state", "kind", "anew"),
    [
        ("08006", StorageUnavailable, True),
        ("57P01", StorageUnavailable, True),
        ("57P03", StorageUnavailable, True),
        ("25006", StorageUnavailable, True),
        ("25P03", StorageUnavailable, True),
        ("53300", StorageUnavailable, False),
        ("28P01", StorageUnavailable, False),
        ("3D000", StorageUnavailable, False),
        ("XX000", StorageUnavailable, False),
        ("40001", StorageBusy, False),
        ("40P01", StorageBusy, False),
        ("55P03", StorageBusy, False),
        ("57014", StorageBusy, False),
        ("42P01", SchemaError, False),
        ("42501", SchemaError, False),
        ("42703", SchemaError, False),
        ("22P02", StorageError, False),
    ],
)
def test_states(state: str, kind: type[StorageError], anew: bool) -> None:
    error = errors.lookup(state)("connection lost, deadlock, no such table")
    found = classify(error, "claiming")
    assert type(found) is kind
    assert found.sqlstate == state
    assert str(found).startswith("claiming: ")
    assert wants_new_connections(error) is anew


def test_a_connection_that_fails_has_no_state() -> None:
    lost = psycopg.OperationalError("server closed the connection unexpectedly")
    assert type(classify(lost, "claiming")) is StorageUnavailable
    assert wants_new_connections(lost)
    assert str(classify(lost)) == "server closed the connection unexpectedly"
    wrong = psycopg.DataError("a fault of ours")
    assert type(classify(wrong, "claiming")) is StorageError
    assert not wants_new_connections(wrong)
