"""``relay-cli access``: its lines are admitted, and its secrets are shown once or never."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from relay.console.access import AccessRole, Identity
from relay.console.access.credentials import KnownTokens, KnownUsers
from tests.cli.running import call_cli


def test_a_token_is_shown_once_and_admitted_by_its_line(tmp_path: Path) -> None:
    lines = ""
    for role in ("reader", "operator"):
        done = call_cli(tmp_path, "access", "token", "nightly", "--role", role)
        assert done.returncode == 0, done.stderr
        lines += done.stdout
    made = done.stderr.removeprefix("token: ").strip()
    (tmp_path / "tokens").write_text(lines)

    line = KnownTokens(tmp_path / "tokens").match(made)
    assert line is not None
    assert line.identity == Identity("nightly", AccessRole.OPERATOR)
    assert made not in lines


def test_a_password_is_read_and_admitted_by_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("correct horse battery\n"))

    done = call_cli(tmp_path, "access", "password", "ada")

    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "users").write_text(done.stdout)
    line = KnownUsers(tmp_path / "users").match("ada", "correct horse battery")
    assert line is not None
    assert line.identity == Identity("ada", AccessRole.READER)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("token", "two words"), "must be printable, without blanks"),
        (("token", "x" * 201), "must be printable, without blanks"),
        (("token", "ada", "--role", "root"), "root"),
        (("password", "ada"), "has 5 characters; it must have 12 or more"),
    ],
)
def test_what_no_line_can_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], reason: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("short\n"))

    done = call_cli(tmp_path, "access", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr
    assert "short" not in done.stderr
