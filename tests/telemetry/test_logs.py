"""Everything a process says comes out as one kind of line, on standard error alone."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.waiting import patience

PRELUDE = """
import asyncio, logging, sys, threading, warnings
import structlog
from relay.telemetry.logs import LogOptions, configure_logs
configure_logs(LogOptions(json={json}, relay_id="relay-1"))
log = logging.getLogger("relay.test")
"""

ASYNC_FAILURE = """
async def bad(): 1/0
async def main():
    task = asyncio.ensure_future(bad())
    await asyncio.wait([task])
    del task
asyncio.run(main())
"""


def run(script: str, *, json_lines: bool = True) -> tuple[str, str]:
    """What a process that configured its logs wrote to standard output and standard error."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE.format(json=json_lines) + script],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    return done.stdout, done.stderr


def lines(script: str) -> list[dict[str, Any]]:
    out, err = run(script)
    assert out == ""
    return [json.loads(line) for line in err.splitlines()]


def test_a_line_has_its_fields_in_order() -> None:
    (line,) = lines("log.info('claimed %d', 3, extra={'action': 'claim', 'events': 3})")

    assert list(line)[:5] == ["ts", "level", "logger", "msg", "relay_id"]
    assert line["ts"].endswith("Z")
    assert {**line, "ts": ""} == {
        "ts": "",
        "level": "info",
        "logger": "relay.test",
        "msg": "claimed 3",
        "relay_id": "relay-1",
        "action": "claim",
        "events": 3,
    }


@pytest.mark.parametrize(
    ("script", "logger", "said"),
    [
        ("try:\n    1/0\nexcept Exception:\n    log.exception('oops')", "relay.test", "ZeroDivisionError"),
        ("1/0", "relay.uncaught", "ZeroDivisionError"),
        ("t = threading.Thread(target=lambda: 1/0); t.start(); t.join()", "relay.uncaught", "ZeroDivisionError"),
        (
            ASYNC_FAILURE,
            "asyncio",
            "ZeroDivisionError",
        ),
        ("class A:\n    def __del__(self): 1/0\nA()", "relay.uncaught", "ZeroDivisionError"),
        ("warnings.warn('old', UserWarning)", "py.warnings", "UserWarning: old"),
        ("structlog.get_logger('lib').warning('hello', n=1)", "lib", "hello"),
        ("log.info('%d', 'not a number')", "relay.test", "malformed"),
    ],
)
def test_every_kind_of_output_is_one_json_line(script: str, logger: str, said: str) -> None:
    (line,) = lines(script)

    assert line["logger"] == logger
    assert said in json.dumps(line)
    assert line["relay_id"] == "relay-1"


def test_passwords_of_urls_are_masked_wherever_they_are() -> None:
    out, err = run(
        "url = 'postgres://u:hunter2@h/db'\n"
        "log.info('to %s', url, extra={'url': url, 'more': [url]})\n"
        "structlog.get_logger().info('x', url=url)\n"
        "raise OSError(url)"
    )

    assert err.count("u:***@h/db") == 5
    assert "hunter2" not in out + err.replace("raise OSError", "")


def test_lines_for_people_carry_the_same_facts() -> None:
    out, err = run("log.warning('slow %s', 'broker', extra={'action': 'slow'})", json_lines=False)

    assert out == ""
    assert "slow broker" in err
    assert "action=slow" in err
    assert "\x1b" not in err


def test_lines_for_people_control_no_terminal() -> None:
    _, err = run("log.warning('type %s', '\\x1b[2J\\x07\\u202e', extra={'event_type': '\\x9b2J'})", json_lines=False)

    assert "type \\x1b[2J\\x07\\u202e" in err
    assert not [letter for letter in err if not (letter.isprintable() or letter == "\n")]


def test_a_repeated_failure_is_one_line_a_second() -> None:
    said = lines("for _ in range(100): log.error('down')")

    assert [line["msg"] for line in said] == ["down"]


def test_what_follows_from_a_reported_error_is_not_logged_by_psycopg_too() -> None:
    _, err = run("logging.getLogger('psycopg').warning('error ignored terminating'); log.error('the database is gone')")
    [line] = err.splitlines()
    assert json.loads(line)["msg"] == "the database is gone"


def test_nothing_is_written_when_standard_error_is_closed() -> None:
    assert run("sys.stderr.close(); log.error('down')") == ("", "")


def test_a_field_with_the_name_of_a_secret_is_masked() -> None:
    [line] = lines("log.info('x', extra={'api_key': 'hunter2', 'said': '{\"password\": \"hunter 2\"}', 'token': None})")

    assert (line["api_key"], line["said"], line["token"]) == ("***", '{"password": ***}', None)


def test_a_field_is_as_long_as_it_needs_to_be_read_and_no_longer() -> None:
    [line] = lines("log.info('%s', 'a' * 10**6, extra={'event_type': 'b' * 10**6, 'many': ['c'] * 10**6})")

    assert [len(line[name]) for name in ("msg", "event_type", "many")] == [2000] * 3


def test_a_type_that_masking_was_slow_for_is_logged_at_once() -> None:
    script = """
import time
began = time.thread_time()
for number in range(20):
    log.info('event %s is dead', number, extra={'event_type': '%40' + '%3A%2F%2F' * 20_000 + ' b'})
log.info('done', extra={'seconds': time.thread_time() - began})
"""
    *_, done = lines(script)
    assert done["seconds"] < patience(2)


def test_a_traceback_keeps_its_places() -> None:
    [line] = lines("try:\n    raise OSError('a' * 10**6)\nexcept OSError:\n    log.exception('oops')")

    assert len(line["exception"]) == 20_000
    assert 'File "<string>", line' in line["exception"]


@pytest.mark.parametrize(
    ("level", "expected"),
    [("DEBUG", ["a", "b", "c", "d", "f"]), ("INFO", ["b", "c", "d", "f"]), ("WARNING", ["c", "d"]), ("ERROR", ["d"])],
)
def test_below_info_a_level_counts_for_the_relays_own_loggers_alone(level: str, expected: list[str]) -> None:
    found = lines(f"""
configure_logs(LogOptions(level=logging.{level}))
log.debug("a"), log.info("b"), log.warning("c"), log.error("d")
logging.getLogger("hpack").debug("e"), logging.getLogger("hpack").info("f")
""")
    assert [line["msg"] for line in found] == expected


def test_known_secrets_are_masked_wherever_they_stand() -> None:
    [line] = lines("""
configure_logs(LogOptions(secrets=frozenset({"qvxzj (qvxzj", "qvxzj"})))
log.info("said qvxzj (qvxzj and qvxzj", extra={"answer": ["qvxzj"], "cut": "a" * 1997 + "qvxzj" * 9})
""")
    assert (line["msg"], line["answer"]) == ("said *** and ***", "['***']")
    assert line["cut"] == "a" * 1997 + "**…"
