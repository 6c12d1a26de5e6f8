"""What a user reads of an error, and the exit code."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from relay.core.errors import (
    BrokerUnreachable,
    ConfigError,
    EventError,
    OutboxError,
    SchemaError,
    StorageUnavailable,
    error_lines,
    exit_code,
    reason_of,
)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (
            OSError("Multiple exceptions: [Errno 111] refused, [Errno 111] refused"),
            "Multiple exceptions: refused, refused",
        ),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ssl.SSLError(1, "certificate verify failed"), "certificate verify failed"),
        (ValueError(), "ValueError"),
    ],
)
def test_a_reason_has_no_numbers_of_the_system(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("x"), 2), (EventError("x"), 2), (SchemaError("x"), 1), (BrokerUnreachable("x"), 1)],
)
def test_what_the_user_wrote_is_two(error: OutboxError, code: int) -> None:
    assert exit_code(error) == code


def test_an_error_is_what_failed_and_then_what_to_do() -> None:
    assert error_lines(ConfigError("BATCH_SIZE: '0' is wrong")) == ["BATCH_SIZE: '0' is wrong"]
    error = StorageUnavailable("no answer")
    assert error_lines(error)[1].startswith("check STORAGE_URL: host, port, user, password")
    error.reason, error.advice = "[Errno 111] Connection refused", "is it running?"
    assert error_lines(error)[:2] == ["no answer: Connection refused", "check STORAGE_URL: is it running?"]
