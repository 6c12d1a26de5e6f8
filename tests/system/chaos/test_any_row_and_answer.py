"""Whatever an inserter writes and a receiver answers: the relay answers /healthz all the time, and goes on.

Every column has any value that PostgreSQL accepts, up to 1 MB; every answer is any bytes (``any_answer``).
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.servers.webhooks import HostileServer
from tests.support.waiting import pace, patience, wait_until

CASES = [
    pytest.param(1000, id="some"),
    pytest.param(100_000, id="many", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
]
LONGEST_SILENCE = 1.0
_BATCH = 500
_COLUMNS = (
    "event_id, event_type, partition_key, payload, headers, status, attempts, last_error, available_at, locked_by, "
    "locked_at, delivered_at, created_at, updated_at"
)
_INSERT = f"INSERT INTO openoutbox_events ({_COLUMNS}) VALUES (gen_random_uuid(){', %s' * 13}) ON CONFLICT DO NOTHING"
_DUE = "status = 'PENDING' AND available_at <= now() OR status = 'DELIVERING'"
_TEXTS = (
    *("", "t", " ", "%40%3A%2F%2F", "://u:p@h", "a.b", "\x1b[2J", "\u202e", "\x7f\x85", "ü\U0001f600", "password="),
    *("$KV.a.b", "_INBOX.a", "__consumer_offsets", "\\", '"', "'", "\r\n", "\t", "*", ">", "{}", "\ufffd"),
    "Authorization: Basic ",
)
_TIMES = ("infinity", "-infinity", "4713-01-01 00:00:00 BC", "294276-12-31 00:00:00", "2000-01-01", "now")
_NUMBERS = (0, 1, -1, 2**31 - 1, -(2**31), 24)


def any_length(draw: random.Random) -> int:
    """Mostly short, seldom up to 1 MB."""
    return draw.choices((draw.randint(0, 8), draw.randint(0, 4000), draw.randint(0, 200_000)), (980, 18, 2))[0]


def any_text(draw: random.Random) -> str:
    few = [draw.choice(_TEXTS) for _ in range(3)]
    return ("".join(few) * any_length(draw))[:1_000_000] + draw.choice(few)


def any_json(draw: random.Random, depth: int = 0) -> object:
    kind = draw.randint(0, 6 if depth < 4 else 3)
    match kind:
        case 0:
            return draw.choice((None, True, False, 10**400, -0.0, 1e300))
        case 1 | 2 | 3:
            return any_text(draw)
        case 4:
            return [any_json(draw, depth + 1) for _ in range(draw.randint(0, 4))]
        case 5:
            return {f"{draw.choice(_TEXTS)}{n}": n for n in range(min(any_length(draw), 50_000))}
        case _:
            return {any_text(draw)[:200]: any_json(draw, depth + 1) for _ in range(draw.randint(0, 4))}


def any_row(draw: random.Random) -> tuple[object, ...]:
    def maybe(value: Callable[[], object]) -> object:
        return value() if draw.random() < 0.3 else None

    def any_time() -> str:
        return draw.choice(_TIMES)

    return (
        any_text(draw),
        maybe(lambda: any_text(draw)[:2000]),  # an index of our own may hold it
        any_text(draw).encode(),
        json.dumps(any_json(draw)).replace("\\u0000", ""),
        draw.choices(("PENDING", "DELIVERING", "DELIVERED", "DEAD"), (90, 5, 3, 2))[0],
        draw.choice(_NUMBERS) if draw.random() < 0.2 else 0,
        maybe(lambda: any_text(draw)),
        any_time() if draw.random() < 0.2 else "now",
        maybe(lambda: any_text(draw)),
        maybe(any_time),
        maybe(any_time),
        any_time() if draw.random() < 0.1 else "now",
        any_time() if draw.random() < 0.1 else "now",
    )


def waited(task: str) -> float:
    """Seconds that a thread was ready to run and had no processor."""
    return int(Path(f"/proc/{task}/schedstat").read_text().split()[1]) / 1e9


class Silence:
    """The longest time without an answer of /healthz, without that in which relay and watcher had no processor."""

    def __init__(self, relay: Daemon) -> None:
        self.longest = 0.0
        self._relay = relay
        self._over = threading.Event()

    def watch(self) -> None:
        own = f"self/task/{threading.get_native_id()}"

        def now() -> float:
            return time.monotonic() - waited(str(self._relay.pid)) - waited(own)

        last = now()
        while not self._over.is_set():
            assert self._relay.get("/healthz")[0] == 200
            answered = now()
            self.longest, last = max(self.longest, answered - last), answered
            pace(0.02)
        self.longest = max(self.longest, now() - last)

    @contextmanager
    def listened_to(self) -> Iterator[None]:
        thread = threading.Thread(target=self.watch)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(patience())


def relay_to(daemon: StartDaemon, url: str) -> Daemon:
    return daemon(
        PUBLISHER_TYPE="http",
        PUBLISHER_URL=url,
        HTTP_ALLOW_PRIVATE="true",
        HTTP_TIMEOUT="2s",
        LEASE_TIMEOUT="10s",
        RETRY_MAX_ATTEMPTS="1",
        RETRY_BASE_DELAY="10ms",
    ).wait_ready()


def few_are_left(outbox: Outbox, most: int) -> Callable[[], bool]:
    return lambda: outbox.database.run(f"SELECT count(*) <= {most} FROM openoutbox_events WHERE {_DUE}") == [(True,)]


def report(kind: str, cases: int, silence: Silence, began: float) -> None:
    print(
        f"{cases} {kind} in {time.monotonic() - began:.0f} s, longest silence of /healthz {silence.longest:.3f} s",
        file=sys.stderr,
    )


@pytest.mark.http
@pytest.mark.parametrize("cases", CASES)
def test_any_row_is_decided_on_while_the_relay_answers(
    outbox: Outbox, daemon: StartDaemon, hostile_webhooks: HostileServer, cases: int
) -> None:
    draw, began = random.Random(43), time.monotonic()
    silence = Silence(relay_to(daemon, hostile_webhooks.url_of("ok")))
    with silence.listened_to(), psycopg.connect(outbox.database.url, autocommit=True) as inserting:
        for batch in range(cases // _BATCH):
            wait_until(few_are_left(outbox, 4 * _BATCH), patience(120), "rows to be decided on")
            report("rows", batch * _BATCH, silence, began)
            with inserting.cursor() as cursor:
                cursor.executemany(_INSERT.encode(), [any_row(draw) for _ in range(_BATCH)])
        wait_until(few_are_left(outbox, 0), patience(120), "all rows to be decided on")
    report("rows", cases, silence, began)
    assert silence.longest < patience(LONGEST_SILENCE)


@pytest.mark.http
@pytest.mark.parametrize("cases", CASES)
def test_any_answer_is_an_outcome_while_the_relay_answers(
    outbox: Outbox, daemon: StartDaemon, hostile_webhooks: HostileServer, cases: int
) -> None:
    began = time.monotonic()
    silence = Silence(relay_to(daemon, hostile_webhooks.url_of("any")))
    with silence.listened_to():
        for batch in range(cases // _BATCH):
            report("answers", batch * _BATCH, silence, began)
            outbox.insert([Row("t")] * _BATCH)
            wait_until(few_are_left(outbox, _BATCH), patience(240), "answers")
        wait_until(few_are_left(outbox, 0), patience(240), "the last answers")
    report("answers", cases, silence, began)
    assert silence.longest < patience(LONGEST_SILENCE)
