"""A command that prints a password: what its two lines mean, when it runs again, and how long it may take."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from relay.core import origins
from relay.core.errors import StorageUnavailable
from relay.core.known_secrets import KNOWN_SECRETS, KnownSecrets
from relay.core.origins import PasswordCommand, SecretOrigin, has_password
from relay.core.outside import shown
from tests.support.paths import ROOT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

COUNTING = "import sys; file = open(sys.argv[1], 'a'); file.write('x'); print(f'pass{file.tell()}'); print(sys.argv[2])"
PAST, FUTURE = "2020-01-31T12:00:00Z", "2099-01-31T12:00:00.123456789+01:00"
TOKEN = "db.example:5432/?Action=connect&DBUser=relay&X-Amz-Signature=0f%2B==" + "a" * 800
"""Of the form and the length of RDS' tokens."""


def command(*words: str | Path) -> PasswordCommand:
    return PasswordCommand("THE_COMMAND", shlex.join([sys.executable, "-c", *map(str, words)]))


@pytest.mark.parametrize(
    ("until", "passwords"),
    [("", ["pass1"] * 3), (FUTURE, ["pass1"] * 3), (PAST, ["pass1", "pass2", "pass3"])],
    ids=["no time", "good for long", "past"],
)
def test_it_runs_again_when_its_time_is_past(until: str, passwords: list[str], tmp_path: Path) -> None:
    printing = command(COUNTING, tmp_path / "ran", until)
    assert [printing.password() for _ in range(3)] == passwords


def test_a_password_without_a_time_is_good_for_a_minute(tmp_path: Path) -> None:
    printing = command(COUNTING, tmp_path / "ran", "")
    before = time.time()
    printing.password()
    assert before + 60 <= printing.until <= time.time() + 60


def test_a_refused_password_is_followed_by_another_one(tmp_path: Path) -> None:
    printing = command(COUNTING, tmp_path / "ran", FUTURE)
    assert printing.password() == "pass1"
    printing.refused()
    assert printing.password() == "pass2"


class Clock:
    """The time, as the test says."""

    now = 1_900_000_000.0

    def time(self) -> float:
        return self.now


def test_a_new_password_is_fetched_ahead_and_the_last_one_is_used_until_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, token = Clock(), tmp_path / "token"
    monkeypatch.setattr(origins, "time", clock)
    printing = command("import sys; print(open(sys.argv[1]).read())", token)
    token.write_text(f"first\n{datetime.fromtimestamp(clock.now + 60, UTC).isoformat()}\n")
    assert printing.password(15) == "first"
    token.unlink()
    clock.now += 46
    assert printing.password(15) == "first"
    token.write_text(f"second\n{datetime.fromtimestamp(clock.now + 60, UTC).isoformat()}\n")
    assert printing.password() == "first"
    assert printing.password(15) == "second"
    token.unlink()
    clock.now += 29
    assert printing.password(3600) == "second"  # fetched within the last half of its life at most
    clock.now += 31
    with pytest.raises(StorageUnavailable):
        printing.password(15)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("print()", "its first line is empty"),
        ("print('hunter2'); raise SystemExit(4)", "it ended with exit code 4"),
        ("print('hunter2'); print('hunter2 tomorrow')", "its second line is no time with a zone"),
        ("print('hunter2'); print('2099-01-31T12:00:00')", "its second line is no time with a zone"),
        ("import sys; sys.stdout.buffer.write(b'hunter2\\xff')", "what it prints is not UTF-8 text"),
        ("import sys; sys.stderr.write('hunter2'); sys.exit(1)", "it ended with exit code 1"),
    ],
)
def test_what_is_wrong_is_said_without_what_it_printed(program: str, reason: str) -> None:
    with pytest.raises(StorageUnavailable, match=rf"^THE_COMMAND gives no password: {re.escape(reason)}") as failure:
        command(program).password()
    assert "hunter2" not in str(failure.value)


def test_a_program_that_does_not_exist_is_said_without_its_arguments() -> None:
    with pytest.raises(StorageUnavailable, match=r"it cannot be started: No such file or directory$"):
        PasswordCommand("THE_COMMAND", "/nowhere/vault -token=hunter2").password()


def test_at_its_deadline_it_ends_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "LONGEST_COMMAND", 0.5)
    script = tmp_path / "wrapper"
    script.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/pid\nwait\n")
    script.chmod(0o700)
    with pytest.raises(StorageUnavailable, match=r"it took longer than 0\.5 s"):
        PasswordCommand("THE_COMMAND", str(script)).password()
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: not running(child), what="the wrapped program's end")


def running(pid: int) -> bool:
    """Whether a process lives; one that waits for its parent's notice does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def recipes() -> list[str]:
    """The commands of the page on managed PostgreSQL."""
    page = (ROOT / "docs/operate/managed-postgres.md").read_text(encoding="utf-8")
    return re.findall(r"`([^`]+)` \|$", page.partition("| for | command |")[2].partition("\n\n")[0], re.MULTILINE)


@pytest.mark.parametrize("recipe", [text for text in recipes() if not text.startswith("python")])
def test_each_recipe_gives_what_its_program_prints(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the vendor's program, which prints a token as long as theirs."""
    program, *arguments = shlex.split(recipe)
    stand_in = tmp_path / program
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\nprintf "%s\\n" "{TOKEN}"\n')
    stand_in.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert PasswordCommand("STORAGE_PASSWORD_COMMAND", recipe).password() == TOKEN
    assert (tmp_path / "arguments").read_text().splitlines() == arguments


def test_the_page_has_a_recipe_for_each_service() -> None:
    programs = [recipe.split()[0] for recipe in recipes()]
    assert programs == ["aws", "gcloud", "az", "vault", "python"]


def test_the_command_of_one_variable_serves_another_one_with_the_same_url() -> None:
    url, printing = "postgres://relay@db-of-two-variables/app", command("print('p')")
    origins.remember(url, SecretOrigin("STORAGE_URL", None, printing))
    origins.remember(url, SecretOrigin("DELIVERY_LOG_URL_FILE", lambda: url))
    origin = origins.of(url)
    assert origin is not None
    assert origin.command is printing


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("postgres://u:p@h/d", True),
        ("postgres://u@h/d?sslmode=require&password=p", True),
        ("postgres://u@h/d?passfile=/f", False),
        ("nats://token@h", False),
        ("h:9092,h2:9092", False),
        ("u:p@h:9092", True),
    ],
)
def test_whether_a_url_has_a_password(url: str, own: bool) -> None:
    assert has_password(url) is own


def test_the_log_masks_the_secrets_that_take_the_place_of_others(tmp_path: Path) -> None:
    printing = command(COUNTING, tmp_path / "ran", PAST)
    for name in "qvxzj", "jzxvq":
        file = tmp_path / name
        file.write_text(f"postgres://relay:{name}-{name}@h/db")
        SecretOrigin("STORAGE_URL", file.read_text).present("")
    printing.password()  # too short a word to be masked wherever it stands
    command(f"print('pass/{'word' * 9}')").password()
    said = f"qvxzj-qvxzj jzxvq-jzxvq pass1 pass/{'word' * 9} pass%2F{'word' * 9}"
    assert shown(said, known=KNOWN_SECRETS.pattern) == "*** *** pass1 *** ***"


def test_of_the_secrets_that_were_renewed_the_latest_are_masked() -> None:
    known = KnownSecrets()
    known.know({"the-first-one"})
    for number in range(99):
        known.renewed([f"password-{number}"])
    assert known.pattern is not None
    assert [bool(known.pattern.fullmatch(f"password-{number}")) for number in (0, 60, 98)] == [False, False, True]
    assert known.pattern.fullmatch("the-first-one")
