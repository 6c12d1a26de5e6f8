"""``relay-cli stats``, ``list`` and ``show`` as an operator runs them."""

from __future__ import annotations

import base64
import json
import os
import pty
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from relay.outbox.admin.causes import CauseName
from tests.cli.running import COMMAND, answer, call_cli, environment
from tests.outbox.admin.filling import fill_aged
from tests.support.fixtures.outbox import Outbox, Row


def lease(outbox: Outbox, event_type: str) -> None:
    sql = "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'r', locked_at = NOW() WHERE event_type = %s"
    outbox.database.run(sql, [event_type])


def test_stats_has_the_names_of_the_endpoint(outbox: Outbox, tmp_path: Path) -> None:
    outbox.insert([Row("a"), Row("b"), Row("c"), Row("d")])
    fill_aged(outbox, "DEAD", 5)
    outbox.database.run("UPDATE openoutbox_events SET attempts = 2 WHERE event_type = 'b'")
    outbox.database.run("UPDATE openoutbox_events SET created_at = NOW() - INTERVAL '1 hour' WHERE event_type = 'c'")
    lease(outbox, "d")
    counts = answer(tmp_path, "stats", STORAGE_URL=outbox.reader_url)
    assert 3600 <= counts.pop("oldest_age_sec") < 3660
    assert 0 <= counts.pop("oldest_due_age_sec") < 60
    assert counts == {
        "pending_count": 2,
        "retrying_count": 1,
        "dead_count": 5,
        "in_flight_count": 1,
        "pauses": [],
        "relays": [],
    }
    lines = call_cli(tmp_path, "stats", STORAGE_URL=outbox.reader_url).stdout.splitlines()
    sentence = "3 events wait, the oldest has been due for "
    assert lines[0].startswith(sentence)
    assert lines[0].endswith("; 1 after a failed attempt; 1 in flight; 5 dead (relay-cli list --status dead)")
    assert lines[1] == "warning: No relay is connected to this database."
    assert lines[2].split() == ["pending_count", "2"]
    assert len(lines) == 8


def test_stats_goes_on_until_it_is_interrupted(outbox: Outbox, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "stats", "--watch", "0.1", "--json"],
        cwd=tmp_path,
        env=environment(STORAGE_URL=outbox.reader_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(3):
            assert json.loads(process.stdout.readline())["pending_count"] == 0
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
    assert process.returncode == 130


def test_list_shows_the_newest_of_every_status_first(outbox: Outbox, tmp_path: Path) -> None:
    fill_aged(outbox, "DEAD", 3)
    fill_aged(outbox, "DELIVERED", 3)
    outbox.insert([Row("waiting"), Row("working")])
    lease(outbox, "working")
    done = call_cli(tmp_path, "list", "--limit", "4", STORAGE_URL=outbox.reader_url)
    assert (done.returncode, done.stderr) == (0, "")
    cells = [line.split("\t") for line in done.stdout.splitlines()]
    assert all(next_try == "" for *_, next_try, _, _ in cells)  # those that wait never failed
    types = [event_type for _, _, event_type, *_ in cells]
    assert set(types[:2]) == {"waiting", "working"}
    assert set(types[2:]) == {"DEAD-1", "DELIVERED-1"}


CAUSE = str(CauseName.of("FATAL: no 1").mark)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--status", "dead", "--limit", "2"], ["DEAD-1", "DEAD-2"]),
        (["--status", "DEAD", "--oldest", "--limit", "2"], ["DEAD-30", "DEAD-29"]),
        (["--type", "DELIVERED-5"], ["DELIVERED-5"]),
        (["--key", "key-4", "--status", "dead"], ["DEAD-4", "DEAD-14", "DEAD-24"]),
        (["--error", "fatal: NO 12"], ["DEAD-12"]),
        (["--status", "dead", "--newer-than", "150m"], ["DEAD-1", "DEAD-2"]),
        (["--status", "dead", "--older-than", "28.5h"], ["DEAD-29", "DEAD-30"]),
        (["--type", "none"], []),
        (["--header", "n=7", "--status", "dead"], ["DEAD-7"]),
        (["--payload", "body 12", "--older-than", "1h"], ["DELIVERED-12", "DEAD-12"]),
        (["--cause", CAUSE, "--limit", "2"], ["DEAD-1", "DEAD-2"]),
        (["--cause", CAUSE, "--oldest", "--limit", "2", "--key", "key-4"], ["DEAD-24", "DEAD-14"]),
        (["--cause", CAUSE, "--newer-than", "150m"], ["DEAD-1", "DEAD-2"]),
    ],
)
def test_list_finds_what_is_asked_for(
    outbox: Outbox, tmp_path: Path, arguments: list[str], expected: list[str]
) -> None:
    fill_aged(outbox, "DEAD", 30)
    fill_aged(outbox, "DELIVERED", 30)
    number = "split_part(event_type, '-', 2)"
    outbox.database.run(
        f"UPDATE openoutbox_events SET headers = jsonb_build_object('n', {number}), "
        f"payload = convert_to('body ' || {number}, 'UTF8')"
    )
    listed = answer(tmp_path, "list", *arguments, STORAGE_URL=outbox.reader_url)["events"]
    assert [event["event_type"] for event in listed] == expected


def on_terminal(
    folder: Path, columns: int, *arguments: str, status: int = 0, errors: bool = False, **variables: str
) -> list[str]:
    """The lines that the command writes to a terminal that is so wide; ``errors`` says that it is standard error's."""
    ours, theirs = pty.openpty()
    with (
        os.fdopen(ours, "rb", buffering=0) as reader,
        subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=folder,
            env=environment(COLUMNS=str(columns), TERM="xterm", **variables),
            stdout=None if errors else theirs,
            stderr=theirs if errors else None,
        ) as process,
    ):
        os.close(theirs)
        text = b""
        with suppress(OSError):  # a terminal whose other side is closed reads as an I/O error
            while part := reader.read(65536):
                text += part
    assert process.returncode == status
    return text.decode().splitlines()


def test_list_fits_an_event_into_one_line_of_any_width_and_leaves_ids_whole(outbox: Outbox, tmp_path: Path) -> None:
    [event_id] = outbox.insert([Row("billing.invoice.payment_failed", b"{}", "customer-7")])
    outbox.database.run(
        "UPDATE openoutbox_events SET attempts = 3, last_error = 'TIMEOUT: no acknowledgement within ten seconds', "
        "available_at = NOW() + INTERVAL '150 seconds', created_at = NOW() - INTERVAL '150 seconds'"
    )
    names, wide = on_terminal(tmp_path, 250, "list", STORAGE_URL=outbox.reader_url)
    for text in ("2m ago", "in 2m", "customer-7", "no acknowledgement within ten seconds", "Z"):
        assert text in wide
    assert "next try (UTC)" in names
    names, narrow, hint = on_terminal(tmp_path, 80, "list", STORAGE_URL=outbox.reader_url)
    assert names.split() == ["event", "id", "status", "type", "next", "try", "last", "error"]
    assert narrow.split()[:2] == [event_id, "PENDING"]
    assert "in 2m" in narrow
    assert narrow.endswith("…")
    assert len(narrow) <= 80
    assert "relay-cli show EVENT_ID" in hint
    assert on_terminal(tmp_path, 80, "list", "--status", "dead", STORAGE_URL=outbox.reader_url) == ["no events"]


def test_a_dead_event_is_red_on_a_terminal_unless_colours_are_unwanted(outbox: Outbox, tmp_path: Path) -> None:
    fill_aged(outbox, "DEAD", 1)
    url = outbox.reader_url
    red = "\x1b[31m\x1b[1mDEAD"
    assert red in on_terminal(tmp_path, 80, "list", STORAGE_URL=url)[1]
    assert "\x1b" not in "".join(on_terminal(tmp_path, 80, "list", NO_COLOR="1", STORAGE_URL=url))
    assert "\x1b" not in call_cli(tmp_path, "list", STORAGE_URL=url).stdout


def test_show_has_ages_beside_exact_times_on_a_terminal(outbox: Outbox, tmp_path: Path) -> None:
    [event_id] = outbox.insert([Row("a")])
    outbox.database.run("UPDATE openoutbox_events SET created_at = NOW() - INTERVAL '150 seconds'")
    [line] = [
        line
        for line in on_terminal(tmp_path, 80, "show", event_id, STORAGE_URL=outbox.reader_url)
        if line.startswith("created_at:")
    ]
    assert line.endswith("Z (2m ago)")
    assert "ago" not in call_cli(tmp_path, "show", event_id, STORAGE_URL=outbox.reader_url).stdout


def test_an_error_breaks_between_words_on_a_terminal(tmp_path: Path) -> None:
    url = "postgres://app@127.0.0.1:1/orders"
    lines = on_terminal(tmp_path, 60, "stats", status=1, errors=True, STORAGE_URL=url, NO_COLOR="1")
    assert max(map(len, lines)) <= 60
    assert "Connection refused" in " ".join(line.strip() for line in lines)
    assert " ".join(line.strip() for line in lines).split() == " ".join(lines).split()


def test_what_could_steer_a_terminal_is_escaped(outbox: Outbox, tmp_path: Path) -> None:
    [event_id] = outbox.insert([Row("a\x1b[2Jb\tc\nd", b"x\x1b[31m\ny", headers='{"h": "\\u001b[2J"}')])
    for arguments in (["list"], ["show", event_id]):
        done = call_cli(tmp_path, *arguments, STORAGE_URL=outbox.reader_url)
        assert "\x1b" not in done.stdout
        assert r"a\x1b[2Jb\tc\nd" in done.stdout


def test_causes_say_what_is_broken_and_what_to_type(outbox: Outbox, tmp_path: Path) -> None:
    assert "No relay is connected" in call_cli(tmp_path, "causes", STORAGE_URL=outbox.reader_url).stdout
    fill_aged(outbox, "DEAD", 12)
    lines = call_cli(tmp_path, "causes", STORAGE_URL=outbox.reader_url).stdout.splitlines()
    assert lines[0] == "warning: No relay is connected to this database."
    assert lines[1].startswith("  -> Start a relay.")
    types = "type DEAD-1, DEAD-10, DEAD-11 and 9 other types, 10 keys"
    assert lines[-2].startswith(f"12 dead: FATAL: no # ({types}; since 2")
    assert lines[-1] == f"  -> Remove the cause, then: relay-cli replay --cause {CAUSE}"
    shown = answer(tmp_path, "causes", STORAGE_URL=outbox.reader_url)
    assert [finding["subject"] for finding in shown["findings"]] == ["relays", "dead"]
    [cause] = shown["causes"]
    assert (cause["code"], cause["dead"], cause["keys"], shown["complete"]) == ("FATAL", 12, 10, True)
    replayed = call_cli(tmp_path, "replay", "--cause", CAUSE, "--yes", STORAGE_URL=outbox.url_of("operator"))
    assert replayed.returncode == 1  # the operator's role may not
    replayed = call_cli(tmp_path, "replay", "--cause", CAUSE, "--yes", STORAGE_URL=outbox.owner_url)
    assert replayed.stdout.startswith("replayed 12 dead events")


def test_show_says_first_why_the_event_is_not_delivered(outbox: Outbox, tmp_path: Path) -> None:
    [event_id] = outbox.insert([Row("a")])
    failed = (
        "UPDATE openoutbox_events SET attempts = 1, last_error = 'HTTP_503: busy', available_at = '2100-01-01 00:00Z'"
    )
    outbox.database.run(failed)
    lines = call_cli(tmp_path, "show", event_id, STORAGE_URL=outbox.reader_url).stdout.splitlines()
    sentence = "It is tried again at 2100-01-01T00:00:00Z, after 1 failed attempt: HTTP_503: busy."
    assert lines[0] == f"why:           {sentence}"
    assert lines[1].startswith("to do:         Relays repeat it.")
    assert lines[2] == "also:          No relay is connected to this database."
    why = answer(tmp_path, "show", event_id, STORAGE_URL=outbox.reader_url)["why"]
    assert (why["cause"], why["blocker"], [one["cause"] for one in why["also"]]) == ("backoff", None, ["relay"])


def test_show_prints_every_column_and_json_indented(outbox: Outbox, tmp_path: Path) -> None:
    payload = '{"a":[1,"ü"],"price":1.10,"price":1e400}'.encode()
    [event_id] = outbox.insert([Row("user.signup", payload, "k", '{"h": 12345678901234567890123}')])
    done = call_cli(tmp_path, "show", event_id, STORAGE_URL=outbox.reader_url)
    assert (done.returncode, done.stderr) == (0, "")
    wanted = ["status:        PENDING", "delivered_at:  -", '  "h": 12345678901234567890123', '    "ü"']
    for line in [*wanted, '  "price": 1.10,', '  "price": 1e400']:
        assert line in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"plain text", "plain text"),
        (b"1.10", "1.10"),
        (b"\x00\xff", base64.b64encode(b"\x00\xff").decode()),
        (b"", ""),
    ],
)
def test_show_never_changes_a_payload(outbox: Outbox, tmp_path: Path, payload: bytes, shown: str) -> None:
    [event_id] = outbox.insert([Row("a", payload)])
    assert call_cli(tmp_path, "show", event_id, STORAGE_URL=outbox.reader_url).stdout.splitlines()[-1] == shown
    event = answer(tmp_path, "show", event_id, STORAGE_URL=outbox.reader_url)
    raw = event["payload"].encode() if event["payload_encoding"] == "utf-8" else base64.b64decode(event["payload"])
    assert raw == payload


def test_an_event_that_is_not_there_fails_with_one(outbox: Outbox, tmp_path: Path) -> None:
    id_ = "0190b0a0-0000-7000-8000-000000000001"
    failed = call_cli(tmp_path, "show", id_, STORAGE_URL=outbox.reader_url)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith(
        f"error: there is no event {id_} in table openoutbox_events; it was not committed, "
    )
    assert "with ON_DELIVERED=delete, deleted on delivery" in failed.stderr
    assert call_cli(tmp_path, "show", "nonsense", STORAGE_URL=outbox.reader_url).returncode == 2


def test_rows_with_infinite_times_are_listed_and_shown(outbox: Outbox, tmp_path: Path) -> None:
    [event_id] = outbox.insert([Row("a")])
    outbox.database.run("UPDATE openoutbox_events SET available_at = 'infinity', created_at = '4000-01-01 BC'")
    [event] = answer(tmp_path, "list", STORAGE_URL=outbox.reader_url)["events"]
    assert event["available_at"] == "infinity"
    assert answer(tmp_path, "show", event_id, STORAGE_URL=outbox.reader_url)["created_at"] == "-infinity"
