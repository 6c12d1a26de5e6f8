"""Errors on the terminal: no secret shows, whichever library wrote the message."""

from __future__ import annotations

import pytest

from relay_cli.screen import print_error


@pytest.mark.parametrize(
    "message",
    [
        "no answer from kafka://h:9092?sasl.password=hunter2 a'@b",
        'refused: sasl.jaas.config=Module required password="hunter2 a\'@b";',
        "--storage-url 'mysql://u:hunter2 a@b@h/d' is not a PostgreSQL URL",
        '{"api-key": "hunter2 a\'@b"}',
    ],
)
def test_an_error_shows_no_secret(message: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_error(message, "check the setting")

    out, err = capsys.readouterr()
    assert out == ""
    assert "***" in err
    assert not [part for part in ("hunter2", "@b") if part in err]
    assert err.splitlines()[-1] == "-> check the setting"
