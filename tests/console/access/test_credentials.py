"""Tokens against their file: what is admitted, what a wrong line costs, and what no message shows."""

from __future__ import annotations

import hmac
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.console.access import credentials
from relay.console.access.access_role import AccessRole, Identity
from relay.console.access.credentials import KnownTokens
from relay.console.access.tokens import hash_token, new_token, read_token_hash
from relay.core.errors import ConfigError
from tests.console.access.making import token, token_line, tokens_file


def changed(path: Path, text: str) -> None:
    """Replace a file as an operator or a mounted secret does, at a time that its file system can tell."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


def test_a_token_has_the_role_of_its_line(tmp_path: Path) -> None:
    known = KnownTokens(tokens_file(tmp_path))

    for role in AccessRole:
        line = known.match(token(f"{role}-token"))
        assert line is not None
        assert line.identity == Identity(f"{role}-token", role)


@pytest.mark.parametrize("sent", ["", "x", "sha256:", token("other"), token("admin-token") + " ", "ü" * 40, "x" * 2000])
def test_any_other_text_is_no_token(tmp_path: Path, sent: str) -> None:
    assert KnownTokens(tokens_file(tmp_path)).match(sent) is None


def test_the_hash_in_the_file_is_no_token(tmp_path: Path) -> None:
    path = tokens_file(tmp_path)
    known = KnownTokens(path)

    assert [known.match(word) for word in path.read_text().split()] == [None] * 9


def test_a_short_token_is_refused_even_where_the_file_has_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"admin a {hash_token('letmein')}\n")

    assert KnownTokens(path).match("letmein") is None


def test_every_line_is_compared_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownTokens(tokens_file(tmp_path))
    compared: list[str] = []
    compare = hmac.compare_digest

    def counting(one: str, other: str) -> bool:
        compared.append(one)
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counting)

    known.match(token("reader-token"))
    assert len(compared) == 3


def test_a_new_token_is_admitted_by_its_line(tmp_path: Path) -> None:
    fresh = new_token()
    path = tmp_path / "tokens"
    path.write_text(f"# a comment\n\noperator nightly {hash_token(fresh)}\n")

    line = KnownTokens(path).match(fresh)
    assert line is not None
    assert line.identity == Identity("nightly", AccessRole.OPERATOR)
    assert fresh not in path.read_text()


@given(st.text(max_size=80).map("no hash: {}".format))
def test_a_text_that_is_no_hash_is_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match="hash") as caught:
        read_token_hash(text)
    assert text not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no line"),
        ("# nobody yet\n", "has no line"),
        ("admin a\n", "line 1: a line is role, name and hash"),
        ("admin a b c\n", "line 1: a line is role, name and hash"),
        (f"root a {hash_token(token('a'))}\n", "line 1: the role must be reader, operator or admin"),
        (f"Admin a {hash_token(token('a'))}\n", "line 1: the role must be reader, operator or admin"),
        (f"admin a {token('a')}\n", "line 1: a token is stored as its hash"),
        (f"admin a\x07 {hash_token(token('a'))}\n", "line 1: the name must be printable"),
        (f"admin {'n' * 201} {hash_token(token('a'))}\n", "line 1: the name must be printable"),
    ],
)
def test_a_wrong_file_is_refused_at_the_start_without_its_content(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)

    with pytest.raises(ConfigError, match="CONSOLE_TOKENS_FILE") as caught:
        KnownTokens(path)
    assert reason in str(caught.value)
    assert token("a") not in str(caught.value)


def test_all_wrong_lines_are_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("x\n" + token_line("admin", "a") + "y\n" + token_line("reader", "a"))

    with pytest.raises(ConfigError) as caught:
        KnownTokens(path)
    assert [line.partition(" line ")[2][0] for line in str(caught.value).splitlines()] == ["1", "3"]


@pytest.mark.parametrize("make", ["missing", "folder", "binary", "large"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, make: str) -> None:
    path = tmp_path / "tokens"
    if make == "folder":
        path.mkdir()
    elif make != "missing":
        path.write_bytes(b"\xff\xfe" if make == "binary" else b"#" * 2**21)

    with pytest.raises(ConfigError, match=r"CONSOLE_TOKENS_FILE: .* cannot be read: "):
        KnownTokens(path)


def test_a_changed_file_counts_at_the_next_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    path = tokens_file(tmp_path)
    known = KnownTokens(path)
    before = known.match(token("admin-token"))
    assert before is not None

    changed(path, token_line("reader", "admin-token") + token_line("admin", "other"))

    after = known.match(token("admin-token"))
    assert after is not None
    assert after.identity.role is AccessRole.READER
    assert known.match(token("other")) is not None
    assert known.match(token("operator-token")) is None
    assert [record.__dict__["action"] for record in caplog.records] == ["access_file_read"]


def test_a_change_within_one_tick_of_the_clock_counts_too(tmp_path: Path) -> None:
    path = tokens_file(tmp_path)
    known = KnownTokens(path)
    status = path.stat()

    path.write_text(path.read_text().replace("reader ", "#eader "))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert known.match(token("reader-token")) is None


def test_a_line_that_becomes_wrong_costs_no_other_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tokens_file(tmp_path)
    known = KnownTokens(path)

    changed(path, token_line("admin", "a") + f"admin b {token('b')}\n")

    assert known.match(token("a")) is not None
    assert [known.match(token(name)) for name in ("b", "admin-token")] == [None, None]
    wrong = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.__dict__["action"] for record in wrong] == ["access_file_wrong"]
    assert "line 2" in wrong[0].getMessage()
    assert token("b") not in caplog.text


def test_a_file_that_disappears_admits_nobody_until_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tokens_file(tmp_path)
    known = KnownTokens(path)
    text = path.read_text()

    path.unlink()
    assert [known.match(token("admin-token")) for _ in range(3)] == [None] * 3
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1

    path.write_text(text)
    assert known.match(token("admin-token")) is not None


def test_a_login_by_a_line_ends_with_the_line(tmp_path: Path) -> None:
    path = tokens_file(tmp_path)
    known = KnownTokens(path)
    line = known.match(token("admin-token"))
    assert line is not None
    mark = credentials.mark_of(line)
    assert known.line("admin-token", mark) == line
    assert known.line("reader-token", mark) is None

    changed(path, token_line("admin", "admin-token").replace("sha256:", "sha256:0")[:-2] + "\n")

    assert known.line("admin-token", mark) is None
