"""What an answer says of an error holds no secret, whatever the error's text holds."""

from __future__ import annotations

import json

import pytest

from relay.console.problems import RequestProblem, problem_of
from relay.core.errors import ConfigError, StorageUnavailable

SECRET = "hunter 2'@x"


@pytest.mark.parametrize("kind", [ConfigError, StorageUnavailable])
@pytest.mark.parametrize("text", [f"STORAGE_URL: postgres://u:{SECRET}@h/d", f"refused: {json.dumps({'pwd': SECRET})}"])
def test_a_problem_shows_no_secret(kind: type[Exception], text: str) -> None:
    answer = problem_of(kind(text)).response()

    assert "hunter" not in bytes(answer.body).decode()
    assert "@x" not in bytes(answer.body).decode()


def test_what_a_request_did_wrong_is_said_whole() -> None:
    message = "log in, or send a token: Authorization: Bearer TOKEN; unknown parameter 'x', choose from a=1"

    assert problem_of(RequestProblem(422, "invalid-request", message)).detail == message
