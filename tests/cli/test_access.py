"""``relay-cli access``: its lines are admitted, and a token is shown once."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.console.access import AccessRole, Identity
from relay.console.access.credentials import KnownTokens
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


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("token", "two words"), "must be printable, without blanks"),
        (("token", "x" * 201), "must be printable, without blanks"),
        (("token", "ada", "--role", "root"), "root"),
    ],
)
def test_what_no_line_can_hold_is_refused(tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
    done = call_cli(tmp_path, "access", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr
